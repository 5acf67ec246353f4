#include "rdma/shared_memory.h"

#include <linux/memfd.h>
#include <sys/mman.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/host_memory.h"
#include "rdma/mapped_pages.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k4KiBBytes = 4096;
constexpr uint64_t k2MiBBytes = uint64_t{2} << 20;
constexpr uint64_t k1GiBBytes = uint64_t{1} << 30;

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
  if (absl::Status status = CheckKernel(); !status.ok()) return status;
  if (absl::Status status = CheckFileSize(options.bytes); !status.ok()) return status;
  if (absl::Status status = CheckAddressSpace(options.bytes); !status.ok()) return status;
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
  // Requests huge pages and accepts small ones.
  return CreateWith(options, HugePages::kAuto);
}

absl::StatusOr<SharedMemory> SharedMemory::CreateWith(const SharedMemoryOptions& options, HugePages pages) {
  const bool want_transparent = pages == HugePages::kTransparent || pages == HugePages::kAuto;
  if (pages == HugePages::kTransparent && !TransparentAllowed()) {
    return absl::ResourceExhaustedError(
        "the kernel gives no transparent huge pages to shared memory: "
        "echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled");
  }
  const absl::Status allowed = IsHugetlb(pages) ? CheckHugePageLimit(options.bytes, KindOf(pages).bytes)
                                                : CheckAvailable(options.bytes, options.numa_node);
  if (!allowed.ok()) return allowed;
  absl::StatusOr<UniqueFd> fd = CreateSealable("farlook-memory", options.bytes, KindOf(pages).memfd_flags);
  if (!fd.ok()) return IsHugetlb(pages) ? NotSoManyPages(options.bytes, pages) : fd.status();
  // For hugetlb this reserves the pages, or fails.
  absl::StatusOr<Mapping> mapping = Map(fd->get(), options.bytes, /*writable=*/true);
  if (!mapping.ok()) return IsHugetlb(pages) ? NotSoManyPages(options.bytes, pages) : mapping.status();
  if (absl::Status status = BindToNode(*mapping, options.numa_node); !status.ok()) return status;
  if (options.in_core_dumps) madvise(mapping->data(), mapping->bytes(), MADV_DODUMP);
  if (want_transparent) madvise(mapping->data(), mapping->bytes(), MADV_HUGEPAGE);
  if (Prefault(*mapping, options.prefault_threads, options.on_progress) != 0) {
    // The advice counts free pages, so this must free its own first.
    mapping->reset();
    fd->reset();
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
