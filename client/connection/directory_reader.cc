#include "client/connection/directory_reader.h"

#include <algorithm>
#include <utility>

#include "client/op/work_request_id.h"

namespace farlook::client {

absl::Status DirectoryReader::Load(rdma::Connection* connection, const kv::ServerRange& table) {
  if (buffer_ == nullptr) {
    auto buffer = endpoint_->Allocate(kPieceBytes, /*readable_by_peers=*/false);
    if (!buffer.ok()) return buffer.status();
    buffer_ = *std::move(buffer);
  }
  const uint64_t limit = std::min<uint64_t>(kPieceBytes, connection->capabilities().max_read_bytes);
  if (limit < kv::kRegionHeaderBytes) return absl::InternalError("the transport's READs are too short for a header");
  directory_.emplace(table.bytes, static_cast<uint32_t>(limit));
  directory_->Load();
  wanted_ = true;
  Reconnect(connection, table);
  return absl::OkStatus();
}

void DirectoryReader::Reconnect(rdma::Connection* connection, const kv::ServerRange& table) {
  connection_ = connection;
  table_ = table;
}

void DirectoryReader::Disconnect() {
  connection_ = nullptr;
  wanted_ = false;
  if (busy()) directory_->Abandon();
}

bool DirectoryReader::Refresh(uint64_t hash, kv::DirectoryEntry seen) {
  if (directory_->Refresh(hash, seen) == kv::Directory::Step::kDone) return true;
  wanted_ = true;
  return false;
}

bool DirectoryReader::RefreshAt(uint64_t position, kv::DirectoryEntry seen) {
  if (directory_->RefreshAt(position, seen) == kv::Directory::Step::kDone) return true;
  wanted_ = true;
  return false;
}

void DirectoryReader::Reload() {
  directory_->Load();
  wanted_ = true;
}

void DirectoryReader::Confirm() {
  directory_->Confirm();
  wanted_ = true;
}

bool DirectoryReader::Post() {
  if (!wanted_ || connection_ == nullptr) return false;
  const kv::Range& range = directory_->wanted();
  const uint64_t wr_id = WorkRequestId::Of(WorkRequestId::Owner::kDirectory);
  const rdma::Sge to = {buffer_->bytes().data(), range.bytes};
  directory_->Posting(time_->last_ns());
  // The buffer belongs to the transport until Completed(), or until the connection is destroyed.
  if (!connection_->PostRead(wr_id, {&to, 1}, table_.address + range.offset, table_.rkey)) return false;
  wanted_ = false;
  return true;
}

absl::StatusOr<bool> DirectoryReader::Completed() {
  auto step = directory_->Feed(absl::string_view(buffer_->bytes().data(), directory_->wanted().bytes));
  if (!step.ok()) return step.status();
  wanted_ = *step == kv::Directory::Step::kRead;
  return !wanted_;
}

uint64_t DirectoryReader::memory_bytes() const {
  return (buffer_ == nullptr ? 0 : buffer_->bytes().size()) + (loaded() ? directory_->memory_bytes() : 0);
}

}  // namespace farlook::client
