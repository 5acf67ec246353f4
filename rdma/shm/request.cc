#include "rdma/shm/request.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/shm/endpoint.h"
#include "rdma/shm/link.h"
#include "rdma/shm/packet_socket.h"
#include "rdma/shm/segment.h"

namespace farlook::rdma::shm {

namespace {

// Credentials that no list of users names. (So far the kernel has known the peer of every socket.)
PeerCredentials UnknownPeer() {
  PeerCredentials nobody;
  nobody.uid = UINT32_MAX;
  return nobody;
}

}  // namespace

void SendReject(int socket, absl::string_view reason) {
  AnswerPacket answer;
  answer.text_bytes = static_cast<uint32_t>(std::min(reason.size(), kMaxRejectBytes));
  memcpy(answer.text, reason.data(), answer.text_bytes);
  SendPacket(socket, BytesOf(answer), {});
}

ShmRequest::ShmRequest(UniqueFd socket, const HelloPacket& hello, std::shared_ptr<const Offers> offers)
    : socket_(std::move(socket)),
      hello_(hello),
      credentials_(CredentialsOf(socket_.get()).value_or(UnknownPeer())),
      peer_(DescribePeer(socket_.get())),
      offers_(std::move(offers)) {}

ShmRequest::~ShmRequest() {
  if (socket_.ok() && !short_) Reject("the server refused the connection");
}

void ShmRequest::Reject(absl::string_view reason) {
  if (!socket_.ok()) return;
  SendReject(socket_.get(), reason);
  socket_.reset();
}

absl::Status ShmRequest::Short(absl::Status status) {
  short_ = true;
  return status;
}

// Makes the slowest calls, which may wait for other threads of the process. If one fails, Accept() reports it.
void ShmRequest::Prepare() {
  if (!socket_.ok() || segment_.ok()) return;
  absl::StatusOr<Segment> segment = Segment::Create(&rings_);
  if (!segment.ok()) return;
  segment_ = *std::move(segment);
  segment_.Touch();
}

absl::StatusOr<std::unique_ptr<Connection>> ShmRequest::Accept(Endpoint* endpoint, absl::string_view welcome,
                                                               absl::Span<const uint32_t> rkeys) {
  if (!socket_.ok()) return absl::FailedPreconditionError("the request was answered before");
  if (welcome.size() > kMaxWelcomeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a welcome of ", welcome.size(), " bytes; the limit is ", kMaxWelcomeBytes));
  }
  AnswerPacket answer;
  answer.accepted = 1;
  answer.text_bytes = static_cast<uint32_t>(welcome.size());
  if (!welcome.empty()) memcpy(answer.text, welcome.data(), welcome.size());

  int fds[kMaxPacketFds];
  for (const uint32_t rkey : rkeys) {
    const auto offer = std::find_if(offers_->offers.begin(), offers_->offers.end(),
                                    [rkey](const Offers::Offer& o) { return o.entry.rkey == rkey; });
    if (offer == offers_->offers.end() || answer.ranges == kMaxOffers) {
      return absl::InvalidArgumentError(absl::StrCat("no range was offered with key ", rkey));
    }
    fds[kFirstRangeFd + answer.ranges] = offer->fd;
    answer.range[answer.ranges++] = offer->entry;
  }

  Link link;
  if (!segment_.ok()) {
    absl::StatusOr<Segment> segment = Segment::Create(&rings_);
    if (!segment.ok()) return Short(segment.status());
    segment_ = *std::move(segment);
  }
  fds[kLifeFd] = offers_->life->fd();
  fds[kRingsFd] = rings_.get();
  const Io sent = SendPacket(socket_.get(), BytesOf(answer), absl::MakeConstSpan(fds, kFirstRangeFd + answer.ranges));
  if (sent == Io::kNoMemory || sent == Io::kTryLater) {
    return Short(
        absl::ResourceExhaustedError("the kernel has no memory for the answer, or too many descriptors under way"));
  }
  // A client that has disconnected already shows as kDisconnected. Otherwise it must not wait for a lost answer.
  if (sent == Io::kClosed) shutdown(socket_.get(), SHUT_RDWR);
  link.segment = std::move(segment_);
  rings_.reset();
  link.socket = std::move(socket_);
  link.peer = peer_;
  // Endpoints of this listener are of this class.
  return static_cast<ShmEndpoint*>(endpoint)->Adopt(std::move(link));
}

}  // namespace farlook::rdma::shm
