// The memory for a server's data: large, in huge pages where possible, on one NUMA node, and shareable.
//
// It is a memfd, mapped here for writing, bound, touched in full so that no later access can fail, and sealed. Every
// process with the descriptor can map it. With Access::kRemoteRead no other process can ever write to it, not even by
// reopening it through /proc.
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
  kAuto,         // the first of the following that is available; 1 GiB only for multiples of it
  k1GiB,         // hugetlb, from the kernel's pool
  k2MiB,         // hugetlb
  kTransparent,  // 2 MiB where the kernel finds them
  kNone,         // 4 KiB
};

// Accepts "auto", "1g", "2m", "transparent", "none". INVALID_ARGUMENT names them.
absl::StatusOr<HugePages> ParseHugePages(absl::string_view text);
absl::string_view HugePagesName(HugePages pages);

struct SharedMemoryOptions {
  uint64_t bytes = 0;  // rounded up to the page size
  HugePages huge_pages = HugePages::kAuto;
  int numa_node = -1;  // -1: the kernel chooses
  Access access = Access::kRemoteRead;
  bool in_core_dumps = false;
  int prefault_threads = 0;  // 0: one for each CPU, at most 8
  // Called while the pages are cleared, by several threads, with the number of cleared bytes. May be empty.
  std::function<void(uint64_t)> on_progress;
};

// Move-only. The mapping and the descriptor live as long as this.
class SharedMemory {
 public:
  // Blocks while the kernel clears the pages (some GB/s). Errors name the remedy:
  //   INVALID_ARGUMENT    no bytes; a node that does not exist; kRemoteReadAtomic in hugetlb pages (a peer with write
  //                       access could punch holes, and the next access here would be a SIGBUS)
  //   RESOURCE_EXHAUSTED  not enough memory, or not enough huge pages; nothing is left allocated
  static absl::StatusOr<SharedMemory> Create(const SharedMemoryOptions& options);

  // Takes over memory that was mapped, bound and touched already. `fd` is what others may map.
  SharedMemory(UniqueFd fd, Mapping mapping, HugePages got)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), got_(got) {}

  SharedMemory(SharedMemory&&) = default;
  SharedMemory& operator=(SharedMemory&&) = default;

  char* data() const { return mapping_.data(); }  // aligned to page_bytes()
  uint64_t bytes() const { return mapping_.bytes(); }
  int fd() const { return fd_.get(); }
  SharedRange range() const;  // for Listener::Offer

  // The kind of pages obtained: never kAuto. kTransparent means that the kernel maps most of it in 2 MiB pages now.
  HugePages huge_pages() const { return got_; }
  uint64_t page_bytes() const;

  // The way to get larger pages, with the command; empty if there are none larger.
  const std::string& advice() const { return advice_; }

 private:
  static absl::StatusOr<SharedMemory> CreateWith(const SharedMemoryOptions& options, HugePages pages);

  UniqueFd fd_;
  Mapping mapping_;
  HugePages got_;
  std::string advice_;
};

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_SHARED_MEMORY_H_
