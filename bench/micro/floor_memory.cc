#include "bench/micro/floor_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::bench {
namespace {

constexpr size_t kHuge = size_t{2} << 20;

size_t RoundUp(size_t bytes) { return (bytes + kHuge - 1) / kHuge * kHuge; }

char* MapAnonymous(size_t bytes, int flags) {
  void* mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return mapping == MAP_FAILED ? nullptr : static_cast<char*>(mapping);
}

std::string ReadSmaps() {
  std::ifstream file("/proc/self/smaps");
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

}  // namespace

FloorMemory& FloorMemory::operator=(FloorMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapping_bytes_, other.mapping_bytes_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(pages_, other.pages_);
  return *this;
}

FloorMemory::~FloorMemory() {
  if (mapping_ != nullptr) munmap(mapping_, mapping_bytes_);
}

absl::StatusOr<FloorMemory> FloorMemory::Map(size_t bytes, PageSize pages) {
  FloorMemory memory;
  memory.size_ = RoundUp(bytes);
  if (pages == PageSize::k2MiB) {
    // The pool is reserved when mapped, so touching cannot fail later.
    memory.mapping_bytes_ = memory.size_;
    memory.mapping_ = MapAnonymous(memory.size_, MAP_HUGETLB | (21 << MAP_HUGE_SHIFT));
    memory.data_ = memory.mapping_;
    memory.page_bytes_ = kHuge;
    memory.pages_ = "2 MiB pages (hugetlb)";
  }
  if (memory.mapping_ == nullptr) {
    // Larger by one page, so that a part of it is aligned.
    memory.mapping_bytes_ = memory.size_ + kHuge;
    memory.mapping_ = MapAnonymous(memory.mapping_bytes_, MAP_NORESERVE);
    if (memory.mapping_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot map ", memory.mapping_bytes_, " bytes: ", std::strerror(errno)));
    }
    memory.data_ = memory.mapping_ + (kHuge - reinterpret_cast<uintptr_t>(memory.mapping_) % kHuge) % kHuge;
    madvise(memory.data_, memory.size_, pages == PageSize::k2MiB ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  }
  // Not zeros: the kernel would map one zero page everywhere until something is written.
  std::memset(memory.data_, 0x5a, memory.size_);
  if (memory.pages_.empty()) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(memory.data_);
    const size_t huge = std::min(memory.size_, TransparentHugeKib(ReadSmaps(), begin, begin + memory.size_) * 1024);
    if (huge >= memory.size_ / 100 * 99) {
      memory.page_bytes_ = kHuge;
      memory.pages_ = "2 MiB pages (transparent)";
    } else if (huge > 0) {
      memory.page_bytes_ = 4096;
      memory.pages_ = absl::StrCat("4 KiB pages, and ", huge * 100 / memory.size_, " % transparent 2 MiB pages");
    } else {
      memory.page_bytes_ = 4096;
      memory.pages_ = "4 KiB pages";
    }
  }
  return memory;
}

size_t TransparentHugeKib(absl::string_view smaps, uintptr_t begin, uintptr_t end) {
  size_t kib = 0;
  bool inside = false;
  for (absl::string_view line : absl::StrSplit(smaps, '\n')) {
    if (absl::StartsWith(line, "AnonHugePages:")) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      size_t amount;
      if (inside && words.size() > 1 && absl::SimpleAtoi(words[1], &amount)) kib += amount;
      continue;
    }
    // The first line of a mapping: "55d0c8a00000-55d0c8c00000 rw-p ...".
    const size_t dash = line.find('-');
    const size_t space = line.find(' ');
    uint64_t from, to;
    if (dash == absl::string_view::npos || space == absl::string_view::npos || space < dash ||
        !absl::SimpleHexAtoi(line.substr(0, dash), &from) ||
        !absl::SimpleHexAtoi(line.substr(dash + 1, space - dash - 1), &to)) {
      continue;
    }
    inside = from < end && begin < to;
  }
  return kib;
}

}  // namespace farlook::bench
