#include "kv/read/directory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/words.h"

namespace farlook::kv {

Directory::Step Directory::WantHeader() {
  phase_ = Phase::kHeader;
  wanted_ = {0, kRegionHeaderBytes};
  return Step::kRead;
}

Directory::Step Directory::Load() { return WantHeader(); }

Directory::Step Directory::RefreshAt(uint64_t position, DirectoryEntry seen) {
  if (!loaded()) return WantHeader();
  if (!(At(IndexOf(position)) == seen)) return Step::kDone;
  phase_ = Phase::kEntry;
  index_ = IndexOf(position);
  wanted_ = {header_.DirectoryArray(header_.level) + 8 * index_, 8};
  return Step::kRead;
}

Directory::Step Directory::Confirm() {
  phase_ = Phase::kState;
  wanted_ = {kIndexStateOffset, 8};
  return Step::kRead;
}

void Directory::WantPiece() {
  const uint64_t left = (uint64_t{1} << next_header_.level) - fetched_;
  wanted_.offset = next_header_.DirectoryArray(next_header_.level) + 8 * fetched_;
  wanted_.bytes = static_cast<uint32_t>(std::min<uint64_t>(8 * left, max_read_bytes_));
}

absl::StatusOr<Directory::Step> Directory::Feed(absl::string_view bytes) {
  const Phase phase = phase_;
  phase_ = Phase::kIdle;
  if (bytes.size() != wanted_.bytes) return absl::InternalError("directory: fed another length than it wanted");
  switch (phase) {
    case Phase::kIdle:
      return absl::InternalError("directory: fed, but wanted nothing");
    case Phase::kState:
      if (!(IndexState(LoadAs<uint64_t>(bytes.data())) == header_.state())) return WantHeader();
      trusted_since_ns_ = looked_ns_;
      return Step::kDone;
    case Phase::kEntry: {
      const uint64_t entry = LoadAs<uint64_t>(bytes.data());
      if (entry == entries_[index_]) return WantHeader();
      entries_[index_] = entry;
      return Step::kDone;
    }
    case Phase::kHeader: {
      auto header = DecodeRegionHeader(bytes, mapped_bytes_);
      if (!header.ok()) return header.status();
      if (loaded() && header->incarnation != header_.incarnation) {
        return absl::FailedPreconditionError("the region has another incarnation than the one connected to");
      }
      next_header_ = *header;
      const uint64_t entries = uint64_t{1} << next_header_.level;
      try {
        incoming_.resize(entries);
      } catch (const std::bad_alloc&) {  // a large table, or a hostile server
        return absl::ResourceExhaustedError(absl::StrCat("no memory for a directory of ", entries, " entries"));
      }
      fetched_ = 0;
      phase_ = Phase::kArray;
      WantPiece();
      return Step::kRead;
    }
    case Phase::kArray:
      std::memcpy(incoming_.data() + fetched_, bytes.data(), bytes.size());
      fetched_ += bytes.size() / 8;
      if (fetched_ < incoming_.size()) {
        phase_ = Phase::kArray;
        WantPiece();
        return Step::kRead;
      }
      header_ = next_header_;
      trusted_since_ns_ = looked_ns_;
      shift_ = 64 - header_.level;
      entries_.swap(incoming_);
      incoming_ = {};
      return Step::kDone;
  }
  return absl::InternalError("directory: impossible phase");
}

}  // namespace farlook::kv
