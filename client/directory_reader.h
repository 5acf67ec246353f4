// Keeps a reader's directory loaded and fresh over a connection: joins kv::Directory, which does no I/O, to READs.
#ifndef FARLOOK_CLIENT_DIRECTORY_READER_H_
#define FARLOOK_CLIENT_DIRECTORY_READER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/last_time.h"
#include "kv/directory.h"
#include "kv/handshake.h"
#include "kv/segment.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class DirectoryReader {
 public:
  // The longest of its READs, which are of WorkRequestId::Owner::kDirectory.
  static constexpr uint32_t kPieceBytes = 64 << 10;

  DirectoryReader(rdma::Endpoint* endpoint, LastTime* time) : endpoint_(endpoint), time_(time) {}

  // Knows nothing from here on, and begins to load all over `connection`.
  absl::Status Load(rdma::Connection* connection, const kv::ServerRange& table);
  // The same region over a new connection.
  void Reconnect(rdma::Connection* connection, const kv::ServerRange& table);
  // The connection is destroyed. What was known stays.
  void Disconnect();

  bool loaded() const { return directory_.has_value() && directory_->loaded(); }
  // REQUIRES loaded(). Its address stays the same.
  kv::Directory* directory() { return &*directory_; }

  bool busy() const { return directory_.has_value() && directory_->busy(); }
  // Refreshes the entry of `hash`, which is `seen`. True if it is another one already; else a READ is under way.
  // REQUIRES !busy().
  bool Refresh(uint64_t hash, kv::DirectoryEntry seen);
  // Fetches all of it, which may have changed in places that nobody met: a READ is under way. REQUIRES !busy().
  void Reload();
  // Looks whether its entries can be relied on (kv::Directory::Confirm): a READ is under way. REQUIRES !busy().
  void Confirm();
  // Whether Post() has something to do.
  bool wants_post() const { return wanted_ && connection_ != nullptr; }
  // Posts the READ that found no room. True if one was posted: Ring().
  bool Post();
  // The READ completed. True when the refresh is done; else the next READ is wanted. Errors as of kv::Directory::Feed.
  absl::StatusOr<bool> Completed();

  uint64_t memory_bytes() const;

 private:
  rdma::Endpoint* const endpoint_;
  LastTime* const time_;
  std::unique_ptr<rdma::Buffer> buffer_;
  std::optional<kv::Directory> directory_;
  rdma::Connection* connection_ = nullptr;
  kv::ServerRange table_;
  bool wanted_ = false;  // a READ is wanted and not posted
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_DIRECTORY_READER_H_
