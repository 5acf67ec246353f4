// Loads and refreshes a reader's directory over a connection: connects kv::Directory, which does no I/O, with READs.
#ifndef FARLOOK_CLIENT_CONNECTION_DIRECTORY_READER_H_
#define FARLOOK_CLIENT_CONNECTION_DIRECTORY_READER_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/op/last_time.h"
#include "kv/layout/segment.h"
#include "kv/read/directory.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class DirectoryReader {
 public:
  // The maximum length of its READs, which are of WorkRequestId::Owner::kDirectory.
  static constexpr uint32_t kPieceBytes = 64 << 10;

  DirectoryReader(rdma::Endpoint* endpoint, LastTime* time) : endpoint_(endpoint), time_(time) {}

  // Drops the old directory, and begins to load the new one over `connection`.
  absl::Status Load(rdma::Connection* connection, const kv::ServerRange& table);
  // Continues with the same region over a new connection.
  void Reconnect(rdma::Connection* connection, const kv::ServerRange& table);
  // The connection is destroyed. The directory stays.
  void Disconnect();

  bool loaded() const { return directory_.has_value() && directory_->loaded(); }
  // REQUIRES loaded(). The address does not change.
  kv::Directory* directory() { return &*directory_; }

  bool busy() const { return directory_.has_value() && directory_->busy(); }
  // Refreshes the entry of `hash`, which is `seen`. Returns true if it has already changed; else a READ is in flight.
  // REQUIRES !busy().
  bool Refresh(uint64_t hash, kv::DirectoryEntry seen);
  // The same for a position.
  bool RefreshAt(uint64_t position, kv::DirectoryEntry seen);
  // READs the whole directory again, since it may have changed where no operation noticed. REQUIRES !busy().
  void Reload();
  // Checks whether its entries can be relied on (kv::Directory::Confirm), by a READ. REQUIRES !busy().
  void Confirm();
  // Returns whether Post() has work.
  bool wants_post() const { return wanted_ && connection_ != nullptr; }
  // Posts the READ that found no room. Returns true if it was posted: call Ring().
  bool Post();
  // Handles the completed READ. Returns true if the refresh has finished, false if another READ is wanted. Errors are
  // those of kv::Directory::Feed.
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

#endif  // FARLOOK_CLIENT_CONNECTION_DIRECTORY_READER_H_
