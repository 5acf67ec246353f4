// Memory for measuring floors: as large as requested, with the largest pages available, and a description of these.
#ifndef FARLOOK_BENCH_MICRO_FLOOR_MEMORY_H_
#define FARLOOK_BENCH_MICRO_FLOOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

enum class PageSize : uint8_t {
  k4KiB,
  k2MiB,  // from the pool of huge pages, otherwise transparent ones
};

// An owned, anonymous, private mapping, all of it touched. Move-only.
class FloorMemory {
 public:
  // REQUIRES: bytes > 0. RESOURCE_EXHAUSTED if the memory is not available. Smaller pages than requested are no error;
  // see page_bytes() and pages().
  static absl::StatusOr<FloorMemory> Map(size_t bytes, PageSize pages);

  FloorMemory(FloorMemory&& other) noexcept { *this = std::move(other); }
  FloorMemory& operator=(FloorMemory&& other) noexcept;
  ~FloorMemory();

  char* data() const { return data_; }
  size_t size() const { return size_; }  // bytes; a multiple of 2 MiB

  // The smallest page size of all of the memory, ignoring one part in a hundred.
  size_t page_bytes() const { return page_bytes_; }
  // In words: "2 MiB pages (hugetlb)".
  const std::string& pages() const { return pages_; }

 private:
  FloorMemory() = default;

  char* data_ = nullptr;
  size_t size_ = 0;
  char* mapping_ = nullptr;
  size_t mapping_bytes_ = 0;
  size_t page_bytes_ = 4096;
  std::string pages_;
};

// The sum of "AnonHugePages:" (KiB) that the text of /proc/PID/smaps gives for mappings that overlap [begin, end).
size_t TransparentHugeKib(absl::string_view smaps, uintptr_t begin, uintptr_t end);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_FLOOR_MEMORY_H_
