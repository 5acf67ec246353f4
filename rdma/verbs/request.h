// A client that sent its hello and waits for the server's answer.
#ifndef FARLOOK_RDMA_VERBS_REQUEST_H_
#define FARLOOK_RDMA_VERBS_REQUEST_H_

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/offers.h"
#include "rdma/verbs/handshake/envelope.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {

class VerbsRequest final : public ConnectionRequest {
 public:
  VerbsRequest(CmId id, const Envelope& client, absl::string_view hello, const ReadDepths& depths,
               std::shared_ptr<Offers> offers);
  ~VerbsRequest() override;

  // ConnectionRequest:
  absl::string_view hello() const override { return hello_; }
  std::string peer() const override { return peer_; }
  absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                     absl::Span<const uint32_t> rkeys) override;
  RemoteRange Current(const RemoteRange& offered) const override;
  void Reject(absl::string_view reason) override;
  void WithholdReads() override { withhold_ = true; }

 private:
  // Until answered. The listener drops events that arrive before; the answer shows whether the client has left.
  CmId id_;
  const Envelope client_;
  const std::string hello_;
  const ReadDepths depths_;
  const std::string peer_;
  const std::shared_ptr<Offers> offers_;
  bool withhold_ = false;
};

// Rejects a client and destroys its id.
void RejectId(CmId id, absl::string_view reason);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_REQUEST_H_
