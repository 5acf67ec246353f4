#include "server/log_writer.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace farlook::server {

struct LogWriter::Queue {
  explicit Queue(int to) : fd(to) {}

  const int fd;
  absl::Mutex mutex;
  std::string lines ABSL_GUARDED_BY(mutex);     // that wait
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;  // since the last line that was taken
  bool writing ABSL_GUARDED_BY(mutex) = false;  // what was taken is not all written yet
  bool ending ABSL_GUARDED_BY(mutex) = false;
  bool has_work() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return ending || !lines.empty(); }
  bool quiet() const ABSL_SHARED_LOCKS_REQUIRED(mutex) { return !writing && lines.empty(); }
};

LogWriter::LogWriter(int fd) : queue_(std::make_shared<Queue>(fd)) {
  auto* shared = new std::shared_ptr<Queue>(queue_);
  started_ = pthread_create(&thread_, nullptr, Run, shared) == 0;
  if (!started_) {
    delete shared;
    return;
  }
  pthread_setname_np(thread_, "log");
  SetLogSink(this);
}

LogWriter::~LogWriter() {
  if (!started_) return;
  SetLogSink(nullptr);
  const bool written = Flush();
  {
    absl::MutexLock lock(&queue_->mutex);
    queue_->ending = true;
  }
  if (written) {
    pthread_join(thread_, nullptr);
  } else {
    pthread_detach(thread_);  // nobody reads what it writes
  }
}

bool LogWriter::Flush() {
  absl::MutexLock lock(&queue_->mutex);
  return queue_->mutex.AwaitWithTimeout(absl::Condition(queue_.get(), &Queue::quiet), absl::Milliseconds(kLastWordsMs));
}

void LogWriter::Put(std::string line) {
  absl::MutexLock lock(&queue_->mutex);
  if (queue_->lines.size() + line.size() > kMaxBytes) {
    ++queue_->dropped;
    CountDroppedLogLine();
    return;
  }
  if (queue_->dropped > 0) {
    const uint64_t dropped = std::exchange(queue_->dropped, 0);
    absl::StrAppend(&queue_->lines,
                    FormatLogLine(absl::ToUnixMicros(absl::Now()), LogLevel::kWarning,
                                  "lines were dropped here: the log is not read fast enough", {{"lines", dropped}}),
                    "\n");
  }
  queue_->lines += line;
}

void* LogWriter::Run(void* shared) {
  const std::shared_ptr<Queue> queue = std::move(*static_cast<std::shared_ptr<Queue>*>(shared));
  delete static_cast<std::shared_ptr<Queue>*>(shared);
  for (;;) {
    std::string lines;
    {
      absl::MutexLock lock(&queue->mutex);
      queue->writing = false;
      queue->mutex.Await(absl::Condition(queue.get(), &Queue::has_work));
      if (queue->lines.empty()) return nullptr;
      lines.swap(queue->lines);
      queue->writing = true;
    }
    for (size_t at = 0; at < lines.size();) {
      const ssize_t written = write(queue->fd, lines.data() + at, lines.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;  // nobody to tell when it is closed
      at += static_cast<size_t>(written);
    }
  }
}

}  // namespace farlook::server
