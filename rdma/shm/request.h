// A client that sent its hello and waits for the server's answer.
#ifndef FARLOOK_RDMA_SHM_REQUEST_H_
#define FARLOOK_RDMA_SHM_REQUEST_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/life_sign.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/segment.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

// State of the listener that requests use, possibly on other threads.
struct Offers {
  struct Offer {
    int fd;
    RangeEntry entry;
  };
  std::unique_ptr<LifeSign> life;
  std::vector<Offer> offers;  // fixed before the first Accept
};

class ShmRequest final : public ConnectionRequest {
 public:
  ShmRequest(UniqueFd socket, const HelloPacket& hello, std::shared_ptr<const Offers> offers);
  ~ShmRequest() override;

  // ConnectionRequest:
  absl::string_view hello() const override { return absl::string_view(hello_.hello, hello_.hello_bytes); }
  std::string peer() const override { return peer_; }
  const PeerCredentials* credentials() const override { return &credentials_; }
  void Prepare() override;
  absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                     absl::Span<const uint32_t> rkeys) override;
  void Reject(absl::string_view reason) override;  // also after Accept() returned RESOURCE_EXHAUSTED

 private:
  // Notes a shortage, which may pass. Unless the request is then rejected with a reason, the client sees the end of the
  // connection, because a reject would be final.
  absl::Status Short(absl::Status status);

  UniqueFd socket_;  // until answered
  Segment segment_;  // made by Prepare()
  UniqueFd rings_;   // descriptor of the segment
  bool short_ = false;
  const HelloPacket hello_;
  const PeerCredentials credentials_;
  const std::string peer_;
  const std::shared_ptr<const Offers> offers_;
};

// Sends the client at the other end the reason of its refusal. Never blocks; the client may be gone.
void SendReject(int socket, absl::string_view reason);

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_REQUEST_H_
