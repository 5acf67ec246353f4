#include "server/base/log.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace farlook::server {
namespace {

constexpr absl::string_view kLevelNames[] = {"debug", "info", "warning", "error", "none"};

std::atomic<LogLevel> g_level{LogLevel::kInfo};
std::atomic<LogSink*> g_sink{nullptr};
std::atomic<uint64_t> g_dropped{0};

bool NeedsQuotes(absl::string_view value) {
  return value.empty() || std::any_of(value.begin(), value.end(), [](char c) {
           return c <= ' ' || c == '"' || c == '=' || c == '\\' || c == '\x7f';
         });
}

void AppendValue(absl::string_view value, std::string* line) {
  // Escapes to ASCII: a value chosen by a stranger might be no UTF-8, or control a terminal.
  if (NeedsQuotes(value)) {
    absl::StrAppend(line, "\"", absl::CHexEscape(value), "\"");
  } else {
    absl::StrAppend(line, value);
  }
}

}  // namespace

std::string FormatLogLine(int64_t unix_us, LogLevel level, absl::string_view message,
                          std::initializer_list<LogField> fields) {
  std::string line =
      absl::StrCat("ts=", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", absl::FromUnixMicros(unix_us), absl::UTCTimeZone()),
                   " level=", kLevelNames[static_cast<int>(level)], " msg=\"", absl::CHexEscape(message), "\"");
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.key, "=");
    AppendValue(field.value.Piece(), &line);
  }
  return line;
}

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  if (level < g_level.load(std::memory_order_relaxed)) return;
  const int64_t now_us = absl::ToUnixMicros(absl::Now());  // wall clock
  std::string line = absl::StrCat(FormatLogLine(now_us, level, message, fields), "\n");
  if (LogSink* const sink = g_sink.load(std::memory_order_acquire); sink != nullptr) return sink->Put(std::move(line));
  static std::atomic<bool> torn{false};  // the last line was written only in part
  if (torn.exchange(false, std::memory_order_relaxed)) line.insert(0, "\n");
  ssize_t written;
  do {
    written = write(STDERR_FILENO, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  CountDroppedLogLine();
  if (written > 0) torn.store(true, std::memory_order_relaxed);
}

void SetLogSink(LogSink* sink) { g_sink.store(sink, std::memory_order_release); }

uint64_t DroppedLogLines() { return g_dropped.load(std::memory_order_relaxed); }
void CountDroppedLogLine() { g_dropped.fetch_add(1, std::memory_order_relaxed); }

void SetLogLevel(LogLevel level) { g_level.store(level, std::memory_order_relaxed); }

bool ParseLogLevel(absl::string_view name, LogLevel* level) {
  for (int i = 0; i <= static_cast<int>(LogLevel::kNone); ++i) {
    if (name == kLevelNames[i]) {
      *level = static_cast<LogLevel>(i);
      return true;
    }
  }
  return false;
}

bool RateLimit::Allow(int64_t now_ns, uint64_t* suppressed) {
  if (tokens_ < kBurst && now_ns - refilled_ns_ >= kIntervalNs) {
    const int64_t refill = (now_ns - refilled_ns_) / kIntervalNs;
    tokens_ = static_cast<int>(std::min<int64_t>(kBurst, tokens_ + refill));
    refilled_ns_ = now_ns;
  }
  if (tokens_ == 0) {
    ++suppressed_;
    return false;
  }
  if (tokens_ == kBurst) refilled_ns_ = now_ns;
  --tokens_;
  *suppressed = suppressed_;
  suppressed_ = 0;
  return true;
}

}  // namespace farlook::server
