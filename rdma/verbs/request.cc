#include "rdma/verbs/request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/endpoint.h"

namespace farlook::rdma::verbs {

void RejectId(CmId id, absl::string_view reason) {
  const std::string data = EncodeReject(reason);
  // Its failure means that the client has left.
  rdma_reject(id.get(), data.data(), static_cast<uint8_t>(data.size()));
}

VerbsRequest::VerbsRequest(CmId id, const Envelope& client, absl::string_view hello, const ReadDepths& depths,
                           std::shared_ptr<Offers> offers)
    : id_(std::move(id)),
      client_(client),
      hello_(hello),
      depths_(depths),
      peer_(ToText(rdma_get_peer_addr(id_.get()))),
      offers_(std::move(offers)) {}

VerbsRequest::~VerbsRequest() {
  if (id_ != nullptr) Reject("the server refused the connection");
}

void VerbsRequest::Reject(absl::string_view reason) {
  if (id_ != nullptr) RejectId(std::move(id_), reason);
}

absl::StatusOr<std::unique_ptr<Connection>> VerbsRequest::Accept(Endpoint* endpoint, absl::string_view welcome,
                                                                 absl::Span<const uint32_t> rkeys) {
  if (id_ == nullptr) return absl::FailedPreconditionError("the request was answered before");
  if (welcome.size() > kMaxWelcomeBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a welcome of ", welcome.size(), " bytes; the limit is ", kMaxWelcomeBytes));
  }
  bool atomics = false;
  for (const uint32_t rkey : rkeys) {
    const Offers::Offer* const offer = offers_->Named(rkey);
    if (offer == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("no range was offered with key ", rkey));
    }
    atomics = atomics || offer->access == Access::kRemoteReadAtomic;
  }
  // Endpoints of this listener are of this class.
  const Terms terms = {.atomics = atomics && offers_->device->traits().atomics, .withhold = withhold_};
  return static_cast<VerbsEndpoint*>(endpoint)->Accept(offers_, std::move(id_), client_, depths_, welcome, terms);
}

RemoteRange VerbsRequest::Current(const RemoteRange& offered) const {
  const Offers::Offer* const offer = offers_->Named(offered.rkey);
  RemoteRange current = offered;
  if (offer != nullptr) current.rkey = offer->rkey();
  return current;
}

}  // namespace farlook::rdma::verbs
