#include "rdma/tcp/listener.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "rdma/tcp/channel.h"
#include "rdma/tcp/endpoint.h"
#include "rdma/tcp/frame.h"
#include "rdma/tcp/socket.h"

namespace farlook::rdma::tcp {
namespace {

class TcpRequest final : public ConnectionRequest {
 public:
  TcpRequest(Caller caller, ReadServer* server)
      : caller_(std::move(caller)), peer_(PeerOf(caller_.socket.get())), server_(server) {}
  ~TcpRequest() override {
    if (caller_.socket.ok()) Reject("the server gave no answer");
  }

  absl::string_view hello() const override { return caller_.hello; }
  std::string peer() const override { return peer_; }
  void WithholdReads() override { withheld_ = true; }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                     absl::Span<const uint32_t> rkeys) override {
    if (welcome.size() > kMaxWelcomeBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("a welcome of ", welcome.size(), " bytes; the limit is ", kMaxWelcomeBytes));
    }
    std::shared_ptr<ReadGrant> grant = server_->Admit(rkeys, withheld_);
    if (grant == nullptr) return absl::UnavailableError("the kernel gives no random numbers");
    // Made by a listener of this kind: see Accept() in transport.h.
    return static_cast<TcpEndpoint*>(endpoint)->Adopt(std::move(caller_.socket), std::move(grant), server_, welcome);
  }

  void Reject(absl::string_view reason) override {
    Channel channel(std::move(caller_.socket), /*spare=*/nullptr);
    AppendFrame(FrameType::kReject, Greeting(), reason.substr(0, kMaxRejectBytes), "", &channel.unsent());
    channel.Flush();
  }

 private:
  Caller caller_;
  const std::string peer_;
  ReadServer* const server_;
  bool withheld_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TcpListener>> TcpListener::Create(const Address& address,
                                                                 const TransportOptions& options) {
  absl::StatusOr<std::vector<UniqueFd>> listening = ListenAt(address);
  if (!listening.ok()) return listening.status();
  std::vector<std::string> bound;
  for (const UniqueFd& socket : *listening) bound.push_back(ThisSideOf(socket.get()));
  absl::StatusOr<std::unique_ptr<ReadServer>> server = ReadServer::Start(*std::move(listening), options.liveness_ms);
  if (!server.ok()) return server.status();
  return std::unique_ptr<TcpListener>(
      new TcpListener(FormatAddress(address), std::move(bound), options, *std::move(server)));
}

TcpListener::TcpListener(std::string address, std::vector<std::string> bound, const TransportOptions& options,
                         std::unique_ptr<ReadServer> server)
    : address_(std::move(address)), bound_(std::move(bound)), options_(options), server_(std::move(server)) {}

// TCP has no atomics, so memory for them can only be read.
absl::StatusOr<RemoteRange> TcpListener::Offer(const SharedRange& range, Access /*access*/) {
  return server_->Offer(range);
}

absl::StatusOr<std::unique_ptr<Endpoint>> TcpListener::CreateEndpoint() {
  absl::StatusOr<std::unique_ptr<TcpEndpoint>> endpoint = TcpEndpoint::Create(options_);
  if (!endpoint.ok()) return endpoint.status();
  return *std::move(endpoint);
}

std::unique_ptr<ConnectionRequest> TcpListener::Next() {
  std::optional<Caller> caller = server_->Next();
  if (!caller.has_value()) return nullptr;
  return std::make_unique<TcpRequest>(*std::move(caller), server_.get());
}

}  // namespace farlook::rdma::tcp
