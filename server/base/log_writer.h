// Writes the lines of Log() on its own thread, so that a slow reader of the log blocks no thread that logs.
//
// At most kMaxBytes of lines wait to be written. A line is dropped and counted (DroppedLogLines()) if there is no room
// for it, because nothing reads the pipe at stderr or the disk is slow. The same holds if it cannot be written, because
// the disk is full. The next line that is written is preceded by the count. A partly written line is ended before the
// next begins. If `fd` is non-blocking, the thread polls it until it accepts more.
#ifndef FARLOOK_SERVER_BASE_LOG_WRITER_H_
#define FARLOOK_SERVER_BASE_LOG_WRITER_H_

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/base/log.h"

namespace farlook::server {

// Thread safety: Put() by any thread.
class LogWriter final : public LogSink {
 public:
  static constexpr size_t kMaxBytes = 256 << 10;
  // Longest time that the destructor waits for lines to be written.
  static constexpr int64_t kLastWordsMs = 1'000;

  // Redirects the lines of Log() to `fd`. If no thread can be started, they are written as without this object.
  explicit LogWriter(int fd);
  // Waits until all is written, at most kLastWordsMs. REQUIRES that no other thread logs.
  ~LogWriter() override;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void Put(std::string line) override;

  // Waits until all is written, at most kLastWordsMs. Returns whether it is.
  bool Flush();

 private:
  struct Queue;
  static void* Run(void* queue);

  // Shared with the thread, which may be stuck in a write when this is destroyed.
  const std::shared_ptr<Queue> queue_;
  pthread_t thread_{};
  bool started_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_BASE_LOG_WRITER_H_
