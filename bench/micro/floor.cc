#include "bench/micro/floor.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/common/clocks.h"

namespace farlook::bench {
namespace {

constexpr size_t kLineBytes = 64;

// Random lines of memory; the next depends on a value (0) that only the bytes of the last one can give.
class LineWalk {
 public:
  LineWalk(const FloorMemory& memory, size_t bytes, uint64_t seed)
      : data_(memory.data()), lines_((memory.size() - bytes) / kLineBytes + 1), state_(seed) {}

  char* Next(uint64_t depend_on) {
    state_ = (state_ + depend_on) * 6364136223846793005u + 1442695040888963407u;
    // The high bits of the product with the count: uniform without a division.
    return data_ + static_cast<size_t>((static_cast<unsigned __int128>(state_) * lines_) >> 64) * kLineBytes;
  }

 private:
  char* const data_;
  const size_t lines_;
  uint64_t state_;
};

uint64_t Word(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word;
}

// Tells the compiler that all memory may have changed and that `value` is used.
template <class T>
void Keep(const T& value) {
  asm volatile("" : : "r"(value) : "memory");
}

// The median over batches of the time for a step: a step that waited for a CPU does not count.
class BatchTimer {
 public:
  // REQUIRES: steps > 0.
  explicit BatchTimer(int64_t steps) : batch_((steps + kBatches - 1) / kBatches) {}

  void Start() { start_ns_ = NowNs(); }

  // To be called after each step.
  void Step() {
    if (++step_ < batch_) return;
    const int64_t now_ns = NowNs();
    batches_.push_back(static_cast<double>(now_ns - start_ns_) / static_cast<double>(batch_));
    start_ns_ = now_ns;
    step_ = 0;
  }

  double MedianNs() {
    if (batches_.empty()) return 0;
    const auto middle = batches_.begin() + static_cast<std::ptrdiff_t>(batches_.size() / 2);
    std::nth_element(batches_.begin(), middle, batches_.end());
    return *middle;
  }

 private:
  static constexpr int64_t kBatches = 101;

  const int64_t batch_;
  int64_t step_ = 0;
  int64_t start_ns_ = 0;
  std::vector<double> batches_;
};

bool Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return sched_setaffinity(0, sizeof(set), &set) == 0;
}

// The line that travels back and forth: odd numbers are ours, even ones the peer's answers.
struct alignas(kLineBytes) Line {
  std::atomic<int64_t> turn{0};
};

// Waits until the line has `value`. Returns false if that takes more than a second.
bool Await(const Line& line, int64_t value) {
  int64_t deadline_ns = 0;
  for (uint64_t spins = 1; line.turn.load(std::memory_order_acquire) != value; ++spins) {
    if (spins % 4096 != 0) continue;
    const int64_t now_ns = NowNs();
    if (deadline_ns == 0) deadline_ns = now_ns + 1'000'000'000;
    if (now_ns > deadline_ns) return false;
  }
  return true;
}

void Answer(int cpu, int64_t round_trips, Line* line) {
  if (!Pin(cpu)) return;
  for (int64_t i = 0; i < round_trips; ++i) {
    if (!Await(*line, 2 * i + 1)) return;
    line->turn.store(2 * i + 2, std::memory_order_release);
  }
}

absl::StatusOr<double> Ask(int cpu, int64_t round_trips, Line* line) {
  if (!Pin(cpu)) return absl::FailedPreconditionError(absl::StrCat("cannot run on CPU ", cpu));
  BatchTimer timer(round_trips);
  timer.Start();
  for (int64_t i = 0; i < round_trips; ++i) {
    line->turn.store(2 * i + 1, std::memory_order_release);
    if (!Await(*line, 2 * i + 2)) return absl::DeadlineExceededError("the other CPU did not answer for a second");
    if (i == 0) timer.Start();  // the first waits for the peer to begin
    timer.Step();
  }
  return timer.MedianNs();
}

absl::StatusOr<double> AskProcess(int a, int b, int64_t round_trips, Line* line) {
  const pid_t child = fork();
  if (child < 0) return absl::ResourceExhaustedError("cannot fork");
  if (child == 0) {
    Answer(b, round_trips, line);
    _exit(0);
  }
  absl::StatusOr<double> result = Ask(a, round_trips, line);
  // It ends by itself within a second; do not wait for that.
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return result;
}

}  // namespace

double DependentLoadNs(const FloorMemory& memory, int64_t loads, uint64_t seed) {
  // All words are equal, so their difference is a 0 that the compiler cannot foresee.
  const uint64_t expected = Word(memory.data());
  LineWalk walk(memory, kLineBytes, seed);
  uint64_t zero = 0;
  BatchTimer timer(loads);
  timer.Start();
  for (int64_t i = 0; i < loads; ++i) {
    zero = Word(walk.Next(zero)) - expected;
    timer.Step();
  }
  Keep(zero);
  return timer.MedianNs();
}

double ColdCopyNs(const FloorMemory& memory, size_t bytes, int64_t copies, uint64_t seed) {
  const char expected = memory.data()[0];
  LineWalk walk(memory, bytes, seed);
  std::vector<char> buffer(bytes);
  uint64_t zero = 0;
  BatchTimer timer(copies);
  timer.Start();
  for (int64_t i = 0; i < copies; ++i) {
    std::memcpy(buffer.data(), walk.Next(zero), bytes);
    Keep(buffer.data());
    timer.Step();
    zero = static_cast<uint64_t>(buffer[bytes - 1] - expected);
  }
  Keep(zero);
  return timer.MedianNs();
}

double LookupLinesNs(const FloorMemory& memory, size_t batch, size_t item_bytes, int64_t lookups, uint64_t seed) {
  constexpr size_t kBucketBytes = 2 * kLineBytes;
  const uint64_t expected = Word(memory.data());
  LineWalk buckets(memory, kBucketBytes + kLineBytes, seed), items(memory, item_bytes + kLineBytes, seed + 1);
  std::vector<const char*> at(batch);
  uint64_t zero = 0;
  const int64_t batches = lookups / static_cast<int64_t>(batch) + 1;
  BatchTimer timer(batches);
  timer.Start();
  for (int64_t i = 0; i < batches; ++i) {
    for (const char*& bucket : at) {
      bucket = buckets.Next(zero);
      bucket += reinterpret_cast<uintptr_t>(bucket) % kBucketBytes;
      __builtin_prefetch(bucket);
      __builtin_prefetch(bucket + kLineBytes);
    }
    // Items begin at multiples of half a line.
    size_t half = 0;
    for (const char*& place : at) {
      const uint64_t none = (Word(place) - expected) | (Word(place + kLineBytes) - expected);
      half = kLineBytes / 2 - half;
      place = items.Next(none) + half;
      for (const char* line = place - half; line < place + item_bytes; line += kLineBytes) __builtin_prefetch(line);
    }
    for (const char* item : at) {
      for (size_t line = 0; line < item_bytes; line += kLineBytes) zero |= Word(item + line) - expected;
      zero |= Word(item + item_bytes - sizeof(uint64_t)) - expected;
    }
    timer.Step();
  }
  Keep(zero);
  return timer.MedianNs() / static_cast<double>(batch);
}

double ColdLockedAddNs(const FloorMemory& memory, int64_t adds, uint64_t seed) {
  const uint64_t expected = Word(memory.data());
  LineWalk walk(memory, kLineBytes, seed);
  uint64_t zero = 0;
  // Adds 0, so that the memory does not change and the figure can be measured again.
  BatchTimer timer(adds);
  timer.Start();
  for (int64_t i = 0; i < adds; ++i) {
    uint64_t* word = reinterpret_cast<uint64_t*>(walk.Next(zero));
    zero = __atomic_fetch_add(word, zero, __ATOMIC_SEQ_CST) - expected;
    timer.Step();
  }
  Keep(zero);
  return timer.MedianNs();
}

absl::StatusOr<double> CacheLineRoundTripNs(int a, int b, int64_t round_trips) {
  if (a == b || a < 0 || b < 0 || a >= CPU_SETSIZE || b >= CPU_SETSIZE || round_trips < 2) {
    return absl::FailedPreconditionError(absl::StrCat("no round trips between CPU ", a, " and ", b));
  }
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof(before), &before) != 0 || !CPU_ISSET(static_cast<size_t>(a), &before) ||
      !CPU_ISSET(static_cast<size_t>(b), &before)) {
    return absl::FailedPreconditionError(absl::StrCat("may not run on both CPU ", a, " and ", b));
  }
  void* page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return absl::ResourceExhaustedError("cannot map a page");
  Line* line = new (page) Line;

  absl::StatusOr<double> result = AskProcess(a, b, round_trips, line);
  munmap(page, 4096);
  sched_setaffinity(0, sizeof(before), &before);
  return result;
}

absl::StatusOr<CpuPair> FirstTwoCpus() {
  cpu_set_t set;
  int first = -1;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(static_cast<size_t>(cpu), &set)) continue;
      if (first >= 0) return CpuPair{first, cpu};
      first = cpu;
    }
  }
  return absl::FailedPreconditionError("this process may run on one CPU only");
}

}  // namespace farlook::bench
