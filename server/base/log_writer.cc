#include "server/base/log_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/steady_time.h"

namespace farlook::server {
namespace {

std::string News(uint64_t dropped) {
  return absl::StrCat(FormatLogLine(absl::ToUnixMicros(absl::Now()), LogLevel::kWarning,  // wall clock
                                    "lines were dropped here: the log is not read fast enough, or could not be written",
                                    {{"lines", dropped}}),
                      "\n");
}

// Writes whole lines. Counts those that cannot be written, and reports them before the next line that can.
class LineWriter {
 public:
  explicit LineWriter(int fd) : fd_(fd) {}

  void Write(absl::string_view lines) {
    std::string text = torn_ ? "\n" : "";
    if (dropped_ > 0) text += News(dropped_);
    const size_t head = text.size();
    absl::StrAppend(&text, lines);
    const size_t written = WriteAll(text);
    if (written > 0) torn_ = text[written - 1] != '\n';
    if (written >= head) dropped_ = 0;
    for (size_t at = std::max(written, head); at < text.size(); ++at) {
      if (text[at] != '\n') continue;
      ++dropped_;
      CountDroppedLogLine();
    }
  }

 private:
  // Returns the number of bytes written.
  size_t WriteAll(absl::string_view text) const {
    size_t at = 0;
    while (at < text.size()) {
      const ssize_t written = write(fd_, text.data() + at, text.size() - at);
      if (written > 0) {
        at += static_cast<size_t>(written);
      } else if (written < 0 && errno == EAGAIN) {
        pollfd until = {fd_, POLLOUT, 0};
        poll(&until, 1, /*timeout=*/-1);
      } else if (written == 0 || errno != EINTR) {
        break;
      }
    }
    return at;
  }

  const int fd_;
  bool torn_ = false;     // only a part of the last line was written
  uint64_t dropped_ = 0;  // lines that were not written since the last that was
};

}  // namespace

struct LogWriter::Queue {
  explicit Queue(int to) : fd(to) {}

  const int fd;
  Pause written;  // ends when all that was taken is written
  absl::Mutex mutex;
  std::string lines ABSL_GUARDED_BY(mutex);     // waiting to be written
  uint64_t dropped ABSL_GUARDED_BY(mutex) = 0;  // since lines were last taken
  bool writing ABSL_GUARDED_BY(mutex) = false;  // taken lines are not all written yet
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
    pthread_detach(thread_);  // nothing can be learnt from it any more: it may be stuck in a write
  }
}

bool LogWriter::Flush() {
  const absl::Time end = SteadyNow() + absl::Milliseconds(kLastWordsMs);
  for (;;) {
    {
      absl::MutexLock lock(&queue_->mutex);
      if (queue_->quiet()) return true;
    }
    const absl::Duration left = end - SteadyNow();
    if (left <= absl::ZeroDuration()) return false;
    queue_->written.Sleep(left);
  }
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
    queue_->lines += News(dropped);
  }
  queue_->lines += line;
}

void* LogWriter::Run(void* shared) {
  const std::shared_ptr<Queue> queue = std::move(*static_cast<std::shared_ptr<Queue>*>(shared));
  delete static_cast<std::shared_ptr<Queue>*>(shared);
  LineWriter writer(queue->fd);
  for (;;) {
    std::string lines;
    {
      absl::MutexLock lock(&queue->mutex);
      queue->writing = false;
      queue->written.End();
      queue->mutex.Await(absl::Condition(queue.get(), &Queue::has_work));
      if (queue->lines.empty()) return nullptr;
      lines.swap(queue->lines);
      queue->writing = true;
    }
    writer.Write(lines);
  }
}

}  // namespace farlook::server
