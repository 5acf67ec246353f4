// Log lines of the server: one event a line, logfmt, on stderr.
//
//     ts=2026-11-21T02:51:00.123456Z level=info msg="listening" address=shm:///run/farlook
//
// Thread safety: any thread may log. A line is one write(2), so lines do not mix; or it goes to a sink (log_writer.h),
// so that a slow reader of the log blocks no thread. A RateLimit belongs to one thread. Nothing here is called while a
// request is processed normally.
#ifndef FARLOOK_SERVER_BASE_LOG_H_
#define FARLOOK_SERVER_BASE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farlook::server {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kNone };

// A field of a line; quoted if needed.
struct LogField {
  absl::string_view key;
  absl::AlphaNum value;
};

// Writes a line if `level` is at least the level in force. `message` says what happened, without figures: those are
// fields.
void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

// Receives lines, including their newlines, instead of stderr.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Put(std::string line) = 0;
};
// Sets the sink. Null: lines are written to stderr by the thread that logs. The sink must outlive every Log() that
// began before the next call.
void SetLogSink(LogSink* sink);

// Returns the number of lines that a sink had no room for, since the process began.
uint64_t DroppedLogLines();
void CountDroppedLogLine();

// Sets the lowest level that is written; initially kInfo.
void SetLogLevel(LogLevel level);

// Accepts "debug", "info", "warning", "error", "none". Returns false for any other name.
bool ParseLogLevel(absl::string_view name, LogLevel* level);

// Returns the line without the newline, for Log and its test.
std::string FormatLogLine(int64_t unix_us, LogLevel level, absl::string_view message,
                          std::initializer_list<LogField> fields);

// Allows a few events at once, then one a second, so that a hostile peer cannot fill a disk.
class RateLimit {
 public:
  // Returns whether to log now. If so, `*suppressed` is the number of events that were not logged since the last one.
  bool Allow(int64_t now_ns, uint64_t* suppressed);

 private:
  static constexpr int kBurst = 10;
  static constexpr int64_t kIntervalNs = 1'000'000'000;

  int tokens_ = kBurst;
  int64_t refilled_ns_ = 0;
  uint64_t suppressed_ = 0;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_LOG_H_
