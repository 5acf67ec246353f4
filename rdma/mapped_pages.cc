#include "rdma/mapped_pages.h"

#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace farlook::rdma {
namespace {

// Bytes that one prefaulting thread requests from the kernel at a time: a multiple of every page size except the
// largest.
constexpr uint64_t kPrefaultStepBytes = uint64_t{128} << 20;
constexpr int kMaxPrefaultThreads = 8;

}  // namespace

absl::Status BindToNode(const Mapping& mapping, int node) {
  if (node < 0) return absl::OkStatus();
  constexpr size_t kBits = 8 * sizeof(unsigned long);                      // NOLINT(runtime/int): of mbind
  std::vector<unsigned long> mask(static_cast<size_t>(node) / kBits + 1);  // NOLINT(runtime/int)
  mask.back() = 1ul << (static_cast<size_t>(node) % kBits);
  // The kernel ignores the last bit of the mask.
  if (mbind(mapping.data(), mapping.bytes(), MPOL_BIND, mask.data(), mask.size() * kBits + 1, 0) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string message = absl::StrCat("cannot bind memory to NUMA node ", node, ": ", strerror(error));
  return error == EINVAL ? absl::InvalidArgumentError(message) : absl::ResourceExhaustedError(message);
}

int Prefault(const Mapping& mapping, int threads, const std::function<void(uint64_t)>& on_progress) {
  if (threads <= 0) threads = static_cast<int>(std::thread::hardware_concurrency());
  const uint64_t steps = (mapping.bytes() + kPrefaultStepBytes - 1) / kPrefaultStepBytes;
  threads = static_cast<int>(std::clamp<uint64_t>(
      std::min<uint64_t>(static_cast<uint64_t>(std::max(threads, 1)), steps), 1, kMaxPrefaultThreads));
  std::atomic<uint64_t> next_step{0};
  std::atomic<uint64_t> done{0};
  std::atomic<int> error{0};
  const auto work = [&] {
    while (error.load(std::memory_order_relaxed) == 0) {
      const uint64_t begin = next_step.fetch_add(1, std::memory_order_relaxed) * kPrefaultStepBytes;
      if (begin >= mapping.bytes()) return;
      const uint64_t bytes = std::min(kPrefaultStepBytes, mapping.bytes() - begin);
      int result;
      do {
        result = madvise(mapping.data() + begin, bytes, MADV_POPULATE_WRITE);
      } while (result != 0 && (errno == EINTR || errno == EAGAIN));
      if (result != 0) {
        error.store(errno, std::memory_order_relaxed);
      } else if (on_progress != nullptr) {
        on_progress(done.fetch_add(bytes, std::memory_order_relaxed) + bytes);
      }
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int i = 1; i < threads; ++i) helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // With fewer threads it takes longer.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return error.load(std::memory_order_relaxed);
}

}  // namespace farlook::rdma
