// Writes the lines of Log() by a thread of its own, so that nobody who logs waits for whoever reads the log.
//
// At most kMaxBytes of lines wait to be written. Where there is no room for one, because nobody reads the pipe at
// stderr or the disk is slow, it is dropped and counted (DroppedLogLines()), and the next line that is written says how
// many were.
#ifndef FARLOOK_SERVER_LOG_WRITER_H_
#define FARLOOK_SERVER_LOG_WRITER_H_

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/log.h"

namespace farlook::server {

// Thread safety: Put() by any thread.
class LogWriter final : public LogSink {
 public:
  static constexpr size_t kMaxBytes = 256 << 10;
  // How long the end waits for lines to be written.
  static constexpr int64_t kLastWordsMs = 1'000;

  // Lines of Log() go to `fd` through this from now on; where no thread can be had, they are written as without it.
  explicit LogWriter(int fd);
  // Waits until all is written, kLastWordsMs at most. REQUIRES no other thread logs.
  ~LogWriter() override;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  void Put(std::string line) override;

  // Waits until all is written, kLastWordsMs at most. Returns whether it is.
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

#endif  // FARLOOK_SERVER_LOG_WRITER_H_
