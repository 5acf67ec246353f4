#include "rdma/shared_memory.h"

#include <linux/memfd.h>
#include <numaif.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/host_memory.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k4KiBBytes = 4096;
constexpr uint64_t k2MiBBytes = uint64_t{2} << 20;
constexpr uint64_t k1GiBBytes = uint64_t{1} << 30;

// What one prefaulting thread asks the kernel for at a time: a multiple of every page size but the largest.
constexpr uint64_t kPrefaultStepBytes = 64 * k2MiBBytes;
constexpr int kMaxPrefaultThreads = 8;

constexpr struct {
  HugePages pages;
  const char* name;
  uint64_t bytes;
  unsigned memfd_flags;
} kKinds[] = {
    {HugePages::kAuto, "auto", 0, 0},
    {HugePages::k1GiB, "1g", k1GiBBytes, MFD_HUGETLB | MFD_HUGE_1GB},
    {HugePages::k2MiB, "2m", k2MiBBytes, MFD_HUGETLB | MFD_HUGE_2MB},
    {HugePages::kTransparent, "transparent", k2MiBBytes, 0},
    {HugePages::kNone, "none", k4KiBBytes, 0},
};

const auto& KindOf(HugePages pages) { return kKinds[static_cast<size_t>(pages)]; }

bool IsHugetlb(HugePages pages) { return pages == HugePages::k1GiB || pages == HugePages::k2MiB; }

absl::Status Bind(const Mapping& mapping, int node) {
  if (node < 0) return absl::OkStatus();
  constexpr size_t kBits = 8 * sizeof(unsigned long);                      // NOLINT(runtime/int): of mbind
  std::vector<unsigned long> mask(static_cast<size_t>(node) / kBits + 1);  // NOLINT(runtime/int)
  mask.back() = 1ul << (static_cast<size_t>(node) % kBits);
  // The kernel does not look at the last bit it is told of.
  if (mbind(mapping.data(), mapping.bytes(), MPOL_BIND, mask.data(), mask.size() * kBits + 1, 0) == 0) {
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string message = absl::StrCat("cannot bind memory to NUMA node ", node, ": ", strerror(error));
  return error == EINVAL ? absl::InvalidArgumentError(message) : absl::ResourceExhaustedError(message);
}

// Has the kernel allocate every page, so that running short is an error of this call. 0 or an errno.
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
    // Without more threads it takes longer.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  return error.load(std::memory_order_relaxed);
}

absl::Status NotSoManyPages(uint64_t bytes, HugePages pages) {
  if (IsHugetlb(pages)) return absl::ResourceExhaustedError(HugePageAdvice(bytes, KindOf(pages).bytes));
  return absl::ResourceExhaustedError(absl::StrCat("the kernel ran out of memory for ", bytes, " bytes; ask for less"));
}

std::string AdviceFor(uint64_t bytes, HugePages got) {
  switch (got) {
    case HugePages::kAuto:
    case HugePages::k1GiB:
      return "";
    case HugePages::k2MiB:
      return bytes % k1GiBBytes == 0 ? HugePageAdvice(bytes, k1GiBBytes) : "";
    case HugePages::kTransparent:
    case HugePages::kNone:
      break;
  }
  std::string advice = HugePageAdvice(bytes, k2MiBBytes);
  if (got == HugePages::kNone && !TransparentAllowed()) {
    absl::StrAppend(
        &advice,
        "; or, less sure: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled for transparent ones");
  }
  return advice;
}

}  // namespace

absl::StatusOr<HugePages> ParseHugePages(absl::string_view text) {
  std::string names;
  for (const auto& kind : kKinds) {
    if (text == kind.name) return kind.pages;
    absl::StrAppend(&names, names.empty() ? "" : ", ", kind.name);
  }
  return absl::InvalidArgumentError(absl::StrCat("huge pages \"", text, "\" are none of ", names));
}

absl::string_view HugePagesName(HugePages pages) { return KindOf(pages).name; }

absl::StatusOr<SharedMemory> SharedMemory::Create(const SharedMemoryOptions& options) {
  if (options.bytes == 0) return absl::InvalidArgumentError("shared memory of 0 bytes");
  if (options.bytes > UINT64_MAX / 2) return absl::ResourceExhaustedError("more memory than any address space has");
  if (absl::Status status = CheckNumaNode(options.numa_node); !status.ok()) return status;
  const bool writable = options.access == Access::kRemoteReadAtomic;
  if (writable && IsHugetlb(options.huge_pages)) {
    return absl::InvalidArgumentError(
        "memory that peers may write to cannot lie in hugetlb pages; use transparent ones");
  }
  if (options.huge_pages != HugePages::kAuto) return CreateWith(options, options.huge_pages);

  if (!writable && options.bytes % k1GiBBytes == 0) {
    if (absl::StatusOr<SharedMemory> memory = CreateWith(options, HugePages::k1GiB); memory.ok()) return memory;
  }
  if (!writable) {
    if (absl::StatusOr<SharedMemory> memory = CreateWith(options, HugePages::k2MiB); memory.ok()) return memory;
  }
  // Asks for huge pages and is content with small ones.
  return CreateWith(options, HugePages::kAuto);
}

absl::StatusOr<SharedMemory> SharedMemory::CreateWith(const SharedMemoryOptions& options, HugePages pages) {
  const bool want_transparent = pages == HugePages::kTransparent || pages == HugePages::kAuto;
  if (pages == HugePages::kTransparent && !TransparentAllowed()) {
    return absl::ResourceExhaustedError(
        "the kernel gives no transparent huge pages to shared memory: "
        "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  }
  if (!IsHugetlb(pages)) {
    if (absl::Status status = CheckAvailable(options.bytes, options.numa_node); !status.ok()) return status;
  }
  absl::StatusOr<UniqueFd> fd = CreateSealable("farlook-memory", options.bytes, KindOf(pages).memfd_flags);
  if (!fd.ok()) return IsHugetlb(pages) ? NotSoManyPages(options.bytes, pages) : fd.status();
  // Of hugetlb this reserves the pages, or fails.
  absl::StatusOr<Mapping> mapping = Map(fd->get(), options.bytes, /*writable=*/true);
  if (!mapping.ok()) return IsHugetlb(pages) ? NotSoManyPages(options.bytes, pages) : mapping.status();
  if (absl::Status status = Bind(*mapping, options.numa_node); !status.ok()) return status;
  if (want_transparent) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  if (const int error = Prefault(*mapping, options.prefault_threads, options.on_progress); error == EINVAL) {
    return absl::UnimplementedError("the kernel is older than Linux 5.14 (no MADV_POPULATE_WRITE)");
  } else if (error != 0) {
    return NotSoManyPages(options.bytes, pages);
  }
  const Sealing sealing = options.access == Access::kRemoteRead ? Sealing::kReadOnly : Sealing::kFixedSize;
  if (absl::Status status = Seal(fd->get(), sealing); !status.ok()) return status;

  HugePages got = pages;
  if (want_transparent) {
    const bool most = TransparentBytes(mapping->data()) > mapping->bytes() / 2;
    if (pages == HugePages::kTransparent && !most) {
      return absl::ResourceExhaustedError(
          "the kernel found no room for transparent huge pages (memory is fragmented, or less than 2 MiB was asked "
          "for): "
          "echo 1 > /proc/sys/vm/compact_memory and try again");
    }
    got = most ? HugePages::kTransparent : HugePages::kNone;
  }
  SharedMemory memory(*std::move(fd), *std::move(mapping), got);
  memory.advice_ = AdviceFor(options.bytes, got);
  return memory;
}

SharedRange SharedMemory::range() const {
  SharedRange range;
  range.base = data();
  range.bytes = bytes();
  range.fd = fd();
  return range;
}

uint64_t SharedMemory::page_bytes() const { return KindOf(got_).bytes; }

}  // namespace farlook::rdma
