// One socket, its bytes that wait to be sent, and the received part of an incomplete frame.
#ifndef FARLOOK_RDMA_TCP_CHANNEL_H_
#define FARLOOK_RDMA_TCP_CHANNEL_H_

#include <cstddef>
#include <utility>

#include "absl/strings/string_view.h"
#include "rdma/host/unique_fd.h"
#include "rdma/tcp/bytes.h"
#include "rdma/tcp/frame.h"
#include "rdma/tcp/limits.h"

namespace farlook::rdma::tcp {

class Channel {
 public:
  // Room that Receive() may need.
  static constexpr size_t kRoomBytes = 2 * kReceiveBytes;

  Channel() = default;
  // `spare` must outlive this.
  Channel(UniqueFd socket, SpareMemory* spare) : socket_(std::move(socket)) { unsent_.Use(spare); }

  bool open() const { return socket_.ok(); }
  int fd() const { return socket_.get(); }
  // Ends the connection, even if a child of a fork() holds the socket too.
  void Close();
  UniqueFd Release() { return std::move(socket_); }

  // Frames to be sent are appended here.
  Bytes& unsent() { return unsent_; }
  size_t unsent_bytes() const { return unsent_.size(); }
  // Sends as much as the kernel takes. Does nothing if the socket failed: Receive() reports that, after the bytes that
  // had arrived.
  void Flush();
  // The socket failed: the peer no longer receives anything, so answers are useless.
  bool stopped() const { return stopped_; }

  // Copies the bytes given back before and, if `more`, newly arrived ones to `room` (8-byte aligned, kRoomBytes). The
  // caller gives back what it did not take.
  absl::string_view Receive(char* room, bool more);
  void GiveBack(absl::string_view left);
  // Returns whether the bytes given back contain a frame.
  bool has_frame() const;

  // Nothing more had arrived at the last attempt.
  bool dry() const { return dry_; }
  // The peer sends no more, or the socket failed; error() is the reason, or 0. All earlier bytes were received.
  bool ended() const { return ended_; }
  int error() const { return error_; }

 private:
  UniqueFd socket_;
  Bytes unsent_;
  Bytes rest_;
  bool dry_ = false;
  bool stopped_ = false;
  bool ended_ = false;
  int error_ = 0;
};

// A READ that the peer asked for, in progress.
struct Answer {
  const char* from = nullptr;
  uint32_t left = 0;
};

// Continues the answer until it is complete or kMaxUnsentBytes wait. Returns whether it is complete.
bool Continue(Answer* answer, Bytes* unsent);

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_CHANNEL_H_
