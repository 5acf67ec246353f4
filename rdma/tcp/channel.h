// One socket, with what waits on its way out, and what came of a frame whose rest did not.
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
  // What Receive() may need.
  static constexpr size_t kRoomBytes = 2 * kReceiveBytes;

  Channel() = default;
  // `spare` outlives it.
  Channel(UniqueFd socket, SpareMemory* spare) : socket_(std::move(socket)) { unsent_.Use(spare); }

  bool open() const { return socket_.ok(); }
  int fd() const { return socket_.get(); }
  // Ends the connection, also where a child of a fork() holds the socket, too.
  void Close();
  UniqueFd Release() { return std::move(socket_); }

  // Where frames are appended that are to be sent.
  Bytes& unsent() { return unsent_; }
  size_t unsent_bytes() const { return unsent_.size(); }
  // Sends as much as the kernel takes. Where the socket failed it does nothing: receiving tells, after what had come.
  void Flush();
  // It failed: nobody takes what is sent any more, so nothing is worth being answered.
  bool deaf() const { return deaf_; }

  // What waits of before and, if `more`, what came since, copied to `room` (8-byte aligned, kRoomBytes). The caller
  // gives back what it did not take.
  absl::string_view Receive(char* room, bool more);
  void GiveBack(absl::string_view left);
  // Of what was given back.
  bool has_frame() const;

  // At the last look nothing more had come.
  bool dry() const { return dry_; }
  // The peer sends no more, or the socket failed: why, or 0. What came before was received.
  bool ended() const { return ended_; }
  int error() const { return error_; }

 private:
  UniqueFd socket_;
  Bytes unsent_;
  Bytes rest_;
  bool dry_ = false;
  bool deaf_ = false;
  bool ended_ = false;
  int error_ = 0;
};

// A READ that the peer asked for, on its way.
struct Answer {
  const char* from = nullptr;
  uint32_t left = 0;
};

// Goes on with it, until it is complete or kMaxUnsentBytes wait. True: it is complete.
bool Continue(Answer* answer, Bytes* unsent);

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_CHANNEL_H_
