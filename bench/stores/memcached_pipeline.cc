#include "bench/stores/memcached_pipeline.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/stores/record.h"

namespace farlook::bench {
namespace {

constexpr absl::string_view kLineEnd = "\r\n";
constexpr size_t kReadBytes = 64 << 10;

int ConnectPath(const std::string& path) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (path.size() >= sizeof(name.sun_path)) return -1;
  std::memcpy(name.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

int ConnectHost(const std::string& host, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), absl::StrCat(port).c_str(), &hints, &found) != 0) return -1;
  int fd = -1;
  for (const addrinfo* at = found; at != nullptr && fd < 0; at = at->ai_next) {
    fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
    if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) != 0) {
      close(fd);
      fd = -1;
    }
  }
  freeaddrinfo(found);
  const int on = 1;
  if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MemcachedPipeline>> MemcachedPipeline::Connect(const StoreAddress& address) {
  const int fd = address.path.empty() ? ConnectHost(address.host, address.port) : ConnectPath(address.path);
  if (fd < 0) return absl::UnavailableError(absl::StrCat("cannot connect to memcached: ", std::strerror(errno)));
  return std::unique_ptr<MemcachedPipeline>(new MemcachedPipeline(fd));
}

MemcachedPipeline::~MemcachedPipeline() { close(fd_); }

void MemcachedPipeline::Submit(DbRequest* request) {
  switch (request->kind) {
    case DbRequest::Kind::kRead:
      SendGets(request, 0);
      break;
    case DbRequest::Kind::kInsert:
      SendStore("set", request, request->record, 0, 0);
      break;
    case DbRequest::Kind::kReplace:
      SendStore("replace", request, request->record, 0, 0);
      break;
    case DbRequest::Kind::kPatch:
      if (request->basis == nullptr) {
        SendGets(request, 0);
      } else {
        SendPatched(request, request->basis->record, request->basis->version, 0);
      }
      break;
  }
}

void MemcachedPipeline::SendGets(DbRequest* request, int64_t attempts) {
  absl::StrAppend(&output_, "gets ", request->key, kLineEnd);
  sent_.push_back({request, true, attempts});
}

void MemcachedPipeline::SendStore(absl::string_view verb, DbRequest* request, absl::string_view record,
                                  uint64_t version, int64_t attempts) {
  absl::StrAppend(&output_, verb, " ", request->key, " 0 0 ", record.size());
  if (version != 0) absl::StrAppend(&output_, " ", version);
  absl::StrAppend(&output_, kLineEnd, record, kLineEnd);
  sent_.push_back({request, false, attempts});
}

bool MemcachedPipeline::SendPatched(DbRequest* request, absl::string_view record, uint64_t version, int64_t attempts) {
  if (!PatchRecord(record, request->writes, &patched_)) {
    End(request, DbStatus::kUnexpectedState, absl::StrCat("the record of ", request->key, " has no such field"));
    return false;
  }
  SendStore("cas", request, patched_, version, attempts);
  return true;
}

bool MemcachedPipeline::TakeAnswer() {
  const size_t line_end = input_.find(kLineEnd.data(), taken_, kLineEnd.size());
  if (line_end == std::string::npos) return false;
  const Sent sent = sent_.front();
  const absl::string_view line = absl::string_view(input_).substr(taken_, line_end - taken_);
  if (sent.gets && absl::StartsWith(line, "VALUE ")) return TakeValue(sent);
  sent_.pop_front();
  const std::string word(line.data(), line.size());
  taken_ = line_end + kLineEnd.size();
  TakeWord(sent, word);
  return true;
}

// "VALUE key flags bytes version", the value, "END", each with its line end.
bool MemcachedPipeline::TakeValue(const Sent& sent) {
  constexpr absl::string_view kEnd = "\r\nEND\r\n";
  const size_t line_end = input_.find(kLineEnd.data(), taken_, kLineEnd.size());
  const absl::string_view line = absl::string_view(input_).substr(taken_, line_end - taken_);
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
  size_t bytes = 0;
  uint64_t version = 0;
  if (words.size() != 5 || !absl::SimpleAtoi(words[3], &bytes) || !absl::SimpleAtoi(words[4], &version)) {
    Break("an answer that is no value");
    return false;
  }
  const size_t begin = line_end + kLineEnd.size();
  if (input_.size() < begin + bytes + kEnd.size()) return false;
  if (absl::string_view(input_).substr(begin + bytes, kEnd.size()) != kEnd) {
    Break("a value without an end");
    return false;
  }
  taken_ = begin + bytes + kEnd.size();
  sent_.pop_front();
  DbRequest* request = sent.request;
  const absl::string_view record = absl::string_view(input_).substr(begin, bytes);
  if (request->kind == DbRequest::Kind::kPatch) {
    SendPatched(request, record, version, sent.attempts);
    return true;
  }
  request->result.buffer.assign(record.data(), record.size());
  request->result.record = request->result.buffer;
  request->result.version = version;
  End(request, DbStatus::kOk);
  return true;
}

void MemcachedPipeline::TakeWord(const Sent& sent, absl::string_view word) {
  DbRequest* request = sent.request;
  if (word == "STORED") {
    End(request, DbStatus::kOk);
  } else if (word == "END" || word == "NOT_STORED" || word == "NOT_FOUND") {
    End(request, DbStatus::kNotFound, "no such record");
  } else if (word == "EXISTS" && sent.attempts + 1 < kPatchAttempts) {
    SendGets(request, sent.attempts + 1);
  } else if (word == "EXISTS") {
    End(request, DbStatus::kConflict, word);
  } else if (absl::StrContains(word, "out of memory")) {
    End(request, DbStatus::kNoSpace, word);
  } else {
    End(request, absl::StrContains(word, "too large") ? DbStatus::kBadRequest : DbStatus::kError, word);
  }
}

void MemcachedPipeline::End(DbRequest* request, DbStatus status, absl::string_view error) {
  request->status = request->result.status = status;
  if (status != DbStatus::kOk) last_error_.assign(error.data(), error.size());
  ended_.push_back(request);
}

size_t MemcachedPipeline::Poll(absl::Span<DbRequest*> done, int64_t wait_ns) {
  Write();
  if (ended_.empty() && !sent_.empty() && !broken_) ReadSome(wait_ns);
  while (!sent_.empty() && !broken_ && TakeAnswer()) {
  }
  if (taken_ == input_.size()) {
    input_.clear();
    taken_ = 0;
  }
  Write();  // second steps
  if (broken_) {
    for (; !sent_.empty(); sent_.pop_front()) End(sent_.front().request, DbStatus::kServiceUnavailable, last_error_);
  }
  const size_t count = std::min(done.size(), ended_.size());
  std::copy_n(ended_.begin(), count, done.begin());
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void MemcachedPipeline::Write() {
  size_t written = 0;
  while (written < output_.size() && !broken_) {
    const ssize_t bytes = send(fd_, output_.data() + written, output_.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0) {
      written += static_cast<size_t>(bytes);
    } else if (bytes < 0 && errno == EAGAIN) {
      // memcached reads nothing more until its replies can be delivered.
      pollfd fd = {fd_, POLLIN | POLLOUT, 0};
      if (poll(&fd, 1, -1) > 0 && (fd.revents & ~POLLOUT) != 0) Receive();
    } else if (bytes < 0 && errno != EINTR) {
      Break(std::strerror(errno));
    }
  }
  output_.clear();
}

void MemcachedPipeline::ReadSome(int64_t wait_ns) {
  timespec timeout;
  timeout.tv_sec = wait_ns / 1'000'000'000;
  timeout.tv_nsec = wait_ns % 1'000'000'000;
  pollfd fd = {fd_, POLLIN, 0};
  if (ppoll(&fd, 1, &timeout, nullptr) > 0) Receive();
}

void MemcachedPipeline::Receive() {
  // The rest of the last read moves to the front: the beginning of one reply at most.
  input_.erase(0, taken_);
  taken_ = 0;
  const size_t size = input_.size();
  input_.resize(size + kReadBytes);
  const ssize_t bytes = recv(fd_, input_.data() + size, kReadBytes, 0);
  input_.resize(size + static_cast<size_t>(std::max<ssize_t>(0, bytes)));
  if (bytes == 0) Break("memcached closed the connection");
  if (bytes < 0 && errno != EINTR) Break(std::strerror(errno));
}

void MemcachedPipeline::Break(absl::string_view why) {
  broken_ = true;
  last_error_.assign(why.data(), why.size());
}

}  // namespace farlook::bench
