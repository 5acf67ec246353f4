// ShmConnection off the hot path: handshake, packets of the socket, and the end.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/shm/connection.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/packet_socket.h"
#include "rdma/violations.h"

namespace farlook::rdma::shm {
namespace {

constexpr int kPacketsPerEvent = 32;

constexpr Capabilities kCapabilities = {
    .atomics = true,
    .any_local_memory = true,
    .local = true,
    .max_outstanding_reads = kSendQueueDepth,
    .send_queue_depth = kSendQueueDepth,
    .max_read_sges = kMaxReadSges,
    .max_read_bytes = kMaxReadBytes,
};

}  // namespace

ShmConnection::ShmConnection(ConnectionHost* host, std::unique_ptr<Dialer> dialer)
    : host_(host),
      state_(State::kDialing),
      is_client_(true),
      dialer_(std::move(dialer)),
      capabilities_(kCapabilities) {}

ShmConnection::ShmConnection(ConnectionHost* host, Link link)
    : host_(host), state_(State::kConnected), is_client_(false), link_(std::move(link)), capabilities_(kCapabilities) {
  if (!host_->Watch(link_.socket.get(), this, /*writing=*/false)) {
    Break(absl::UnavailableError("no memory to watch the client's socket"), /*deliver_messages=*/false);
    return;
  }
  Establish();
}

ShmConnection::~ShmConnection() {
  CloseSocket();
  host_->Forget(this);
}

// ---- Handshake ----

void ShmConnection::Step(int64_t now_ns) {
  const bool was_connected = dialer_->connected();
  switch (dialer_->Step(now_ns)) {
    case Dialer::Progress::kPending:
      break;
    case Dialer::Progress::kFailed:
      Break(absl::Status(dialer_->status()), /*deliver_messages=*/false);
      return;
    case Dialer::Progress::kDone:
      break;
  }
  if (!was_connected && dialer_->connected() && !host_->Watch(dialer_->socket(), this, /*writing=*/false)) {
    Break(absl::UnavailableError("no memory to watch the server's socket"), /*deliver_messages=*/false);
    return;
  }
  if (!dialer_->link().segment.ok()) return;
  link_ = std::move(dialer_->link());
  dialer_.reset();
  state_ = State::kWelcomed;
  Establish();
}

void ShmConnection::Establish() {
  const Side side = is_client_ ? Side::kClient : Side::kServer;
  producer_ = link_.segment.producer(side);
  consumer_ = link_.segment.consumer(side);
  host_->PollAgain(this);
  for (const BufferRegistry::Entry& entry : host_->buffers().entries()) {
    if (entry.rkey != 0) Offer(entry);
  }
}

// ---- The socket ----

void ShmConnection::OnEvent() {
  if (!link_.socket.ok()) return;
  if (!notices_.empty()) FlushNotices();
  for (int i = 0; i < kPacketsPerEvent && link_.socket.ok(); ++i) {
    if (!ReceiveOnePacket()) break;
  }
}

// Returns false if there is no packet, or the connection broke. Also returns true if the kernel had no memory for a
// waiting packet. A message that has arrived may name the buffer that the packet offers, so the caller tries again
// within its bound.
bool ShmConnection::ReceiveOnePacket() {
  ReceivedPacket packet;
  switch (ReceivePacket(link_.socket.get(), &packet)) {
    case Io::kTryLater:
      return false;
    case Io::kNoMemory:
      return true;
    case Io::kClosed:
      PeerIsGone();
      return false;
    case Io::kDone:
      break;
  }
  NoticePacket notice;
  absl::Status status = DecodeNotice(packet.view(), packet.fds.size(), &notice);
  if (status.ok() && notice.notice == Notice::kOffer) {
    status = link_.memory.AddBuffer(packet.fds[0].get(), notice.rkey, notice.bytes);
  }
  if (!status.ok()) {
    if (!is_client_) NoteViolation(Violator::kClient, link_.peer, status.message());
    Break(absl::UnavailableError(absl::StrCat("the peer broke the protocol: ", status.message())),
          /*deliver_messages=*/false);
    return false;
  }
  if (notice.notice == Notice::kWithdraw) {
    // Posted work may point into it.
    if (!work_.all_executed()) Execute();
    host_->Unmap(link_.memory.RemoveBuffer(notice.rkey));
  }
  return true;
}

void ShmConnection::Offer(const BufferRegistry::Entry& entry) {
  if (state_ != State::kWelcomed && state_ != State::kConnected) return;
  notices_.Offer(entry);
  FlushNotices();
}

void ShmConnection::Withdraw(uint32_t rkey) {
  if (state_ != State::kWelcomed && state_ != State::kConnected) return;
  notices_.Withdraw(rkey);
  FlushNotices();
}

// Returns true if none is left.
bool ShmConnection::FlushNotices() {
  const bool all_sent = notices_.Flush(link_.socket.get());
  if (watches_writing_ != !all_sent) {
    watches_writing_ = !all_sent;
    host_->Watch(link_.socket.get(), this, watches_writing_);
  }
  return all_sent;
}

// ---- The end ----

void ShmConnection::Disconnect() {
  Break(absl::UnavailableError("disconnected by this side"), /*deliver_messages=*/false);
}

bool ShmConnection::alive() const { return state_ == State::kConnected && (!is_client_ || link_.life.alive()); }

bool ShmConnection::quiescent() {
  if (is_client_ || peer_closed_ || !link_.segment.ok() || !link_.segment.gate()->occupied()) return true;
  pollfd ended = {lingering_.get(), POLLRDHUP, 0};
  if (lingering_.ok() && poll(&ended, 1, /*timeout=*/0) > 0 && (ended.revents & (POLLRDHUP | POLLHUP)) != 0) {
    peer_closed_ = true;
    lingering_.reset();
  }
  return peer_closed_;
}

ABSL_ATTRIBUTE_NOINLINE void ShmConnection::PeerIsGone() {
  if (!is_client_) {
    peer_closed_ = true;
    Break(absl::UnavailableError(absl::StrCat("the client (", link_.peer, ") is gone")), /*deliver_messages=*/true);
  } else if (link_.life.died()) {
    Break(absl::UnavailableError(absl::StrCat("the server process (", link_.peer, ") died")),
          /*deliver_messages=*/true);
  } else {
    Break(absl::UnavailableError(absl::StrCat("the server (", link_.peer, ") closed the connection")),
          /*deliver_messages=*/true);
  }
}

// A work request that fails breaks the connection, as with verbs.
ABSL_ATTRIBUTE_NOINLINE void ShmConnection::BreakBy(WcStatus status) {
  Break(absl::UnavailableError(status == WcStatus::kLocalError
                                   ? "this side posted a request of no or too many bytes or pieces"
                                   : "this side posted a request for memory that the peer did not grant"),
        /*deliver_messages=*/false);
}

ABSL_ATTRIBUTE_NOINLINE void ShmConnection::BreakByMalformedMessage() {
  deliver_messages_ = false;
  if (!is_client_) NoteViolation(Violator::kClient, link_.peer, "malformed message");
  Break(absl::UnavailableError("malformed message from the peer"), /*deliver_messages=*/false);
}

void ShmConnection::Break(absl::Status status, bool deliver_messages) {
  if (state_ == State::kBroken || state_ == State::kOver) return;
  deliver_messages_ = deliver_messages && state_ == State::kConnected;
  undelivered_ = std::max(kClientToServerCells, kServerToClientCells);
  state_ = State::kBroken;
  status_ = std::move(status);
  work_.FlushRest();
  CloseSocket();
  dialer_.reset();
  notices_.Clear();
  host_->PollAgain(this);
}

void ShmConnection::LeaveToParent() {
  if (dialer_ != nullptr) dialer_->link().socket.reset();
  link_.socket.reset();
  lingering_.reset();
}

void ShmConnection::CloseSocket() {
  UniqueFd& socket = dialer_ != nullptr ? dialer_->link().socket : link_.socket;
  if (!socket.ok()) return;
  // A forked child may hold the socket too: closing alone would neither end the connection nor the watch.
  host_->Unwatch(socket.get());
  if (!is_client_ && link_.segment.ok()) {
    link_.segment.gate()->Close();
    if (!quiescent()) {
      // This way the client sees the end of file, and this side still sees the client's.
      shutdown(socket.get(), SHUT_WR);
      lingering_ = std::move(socket);
      return;
    }
  }
  shutdown(socket.get(), SHUT_RDWR);
  socket.reset();
}

}  // namespace farlook::rdma::shm
