#include "client/memory/user_memory.h"

#include <cstdint>
#include <iterator>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace farlook::client {

absl::Status UserMemory::Register(absl::Span<char> memory) {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data());
  if (memory.empty() || begin == 0 || memory.size() > PTRDIFF_MAX || begin > UINTPTR_MAX - memory.size()) {
    return absl::InvalidArgumentError(absl::StrCat("there is no memory of ", memory.size(), " bytes at ", begin));
  }
  const auto after = ranges_.lower_bound(memory.data());
  const bool meets_next = after != ranges_.end() && after->first < memory.data() + memory.size();
  const bool meets_last = after != ranges_.begin() && [&] {
    const auto& [first, range] = *std::prev(after);
    return first + range.bytes > memory.data();
  }();
  if (meets_next || meets_last) return absl::AlreadyExistsError("a part of this memory is registered already");
  absl::StatusOr<std::unique_ptr<rdma::Buffer>> buffer = endpoint_->Register(memory);
  if (!buffer.ok()) return buffer.status();
  ranges_.emplace(memory.data(), Range{memory.size(), *std::move(buffer)});
  return absl::OkStatus();
}

absl::Status UserMemory::Unregister(const char* data) {
  const auto found = ranges_.find(data);
  if (found == ranges_.end()) return absl::NotFoundError("no registered memory begins here");
  if (found->second.buffer.use_count() > 1) {
    return absl::FailedPreconditionError(
        "the memory is in use: by a get, or the server may still pull a value from it");
  }
  ranges_.erase(found);
  return absl::OkStatus();
}

void UserMemory::RegisterAllOf(const UserMemory& other) {
  for (const auto& [data, range] : other.ranges_) {
    Register(absl::MakeSpan(const_cast<char*>(data), range.bytes)).IgnoreError();
  }
}

std::shared_ptr<rdma::Buffer> UserMemory::Find(const char* data, size_t bytes) const {
  const auto after = ranges_.upper_bound(data);
  if (after == ranges_.begin()) return nullptr;
  const auto& [first, range] = *std::prev(after);
  const auto offset = static_cast<size_t>(data - first);
  return offset <= range.bytes && bytes <= range.bytes - offset ? range.buffer : nullptr;
}

}  // namespace farlook::client
