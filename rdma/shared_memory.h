// The memory that a server keeps its data in: large, in huge pages where possible, on one NUMA node, and shareable.
//
// It is a memfd, mapped here for writing, bound, touched in full so that no later access can fail, and sealed: whoever
// gets the descriptor can map it, and with Access::kRemoteRead can never write to it, also not by reopening it through
// /proc.
#ifndef FARLOOK_RDMA_SHARED_MEMORY_H_
#define FARLOOK_RDMA_SHARED_MEMORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/transport.h"

namespace farlook::rdma {

enum class HugePages : uint8_t {
  kAuto,         // the first of the following that can be had; 1 GiB only for multiples of it
  k1GiB,         // hugetlb, of the pool of the kernel
  k2MiB,         // hugetlb
  kTransparent,  // 2 MiB where the kernel finds them
  kNone,         // 4 KiB
};

// "auto", "1g", "2m", "transparent", "none". INVALID_ARGUMENT names them.
absl::StatusOr<HugePages> ParseHugePages(absl::string_view text);
absl::string_view HugePagesName(HugePages pages);

struct SharedMemoryOptions {
  uint64_t bytes = 0;  // rounded up to the page size
  HugePages huge_pages = HugePages::kAuto;
  int numa_node = -1;  // -1: wherever the kernel likes
  Access access = Access::kRemoteRead;
  int prefault_threads = 0;  // 0: one for each CPU, at most 8
  // Called while the pages are cleared, by several threads, with how many bytes are; empty: nobody wants to know.
  std::function<void(uint64_t)> on_progress;
};

// Move-only. The mapping and the descriptor live as long as this.
class SharedMemory {
 public:
  // Blocks while the kernel clears the pages (some GB/s). Errors name the cure:
  //   INVALID_ARGUMENT    no bytes; a node that does not exist; kRemoteReadAtomic in hugetlb pages (a peer who may
  //                       write could punch holes, whose next access here would be a SIGBUS)
  //   RESOURCE_EXHAUSTED  not so much memory, or not so many huge pages; nothing is left allocated
  static absl::StatusOr<SharedMemory> Create(const SharedMemoryOptions& options);

  SharedMemory(SharedMemory&&) = default;
  SharedMemory& operator=(SharedMemory&&) = default;

  char* data() const { return mapping_.data(); }  // aligned to page_bytes()
  uint64_t bytes() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }
  SharedRange range() const;  // for Listener::Offer

  // What it got: never kAuto. kTransparent means that the kernel maps most of it in 2 MiB pages now.
  HugePages huge_pages() const { return got_; }
  uint64_t page_bytes() const;

  // How to get larger pages, with the command; empty when there are none larger.
  const std::string& advice() const { return advice_; }

 private:
  SharedMemory(UniqueFd fd, Mapping mapping, HugePages got)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), got_(got) {}
  static absl::StatusOr<SharedMemory> CreateWith(const SharedMemoryOptions& options, HugePages pages);

  UniqueFd fd_;
  Mapping mapping_;
  HugePages got_;
  std::string advice_;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_SHARED_MEMORY_H_
