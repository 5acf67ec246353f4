#include "rdma/sim/listener.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/sim/endpoint.h"

namespace farlook::rdma::sim {

class SimRequest : public ConnectionRequest {
 public:
  SimRequest(Network* network, std::shared_ptr<Wire> wire, std::string hello, Party party)
      : network_(network), wire_(std::move(wire)), hello_(std::move(hello)), party_(party) {}
  ~SimRequest() override {
    if (!answered_) Reject("the server gave no reason");
  }

  absl::string_view hello() const override { return hello_; }
  std::string peer() const override { return absl::StrCat("party ", wire_->side(Wire::kClient).party); }

  absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                     absl::Span<const uint32_t> rkeys) override {
    if (welcome.size() > kMaxWelcomeBytes) return absl::InvalidArgumentError("the welcome is too long");
    answered_ = true;
    auto connection = std::make_unique<SimConnection>(wire_, Wire::kServer);
    Wire::Side& side = wire_->side(Wire::kServer);
    side.party = party_;
    side.endpoint = static_cast<SimEndpoint*>(endpoint);
    side.connection = connection.get();
    side.state = Wire::State::kUp;
    side.receives = network_->options.receives[kServer];
    wire_->granted.assign(rkeys.begin(), rkeys.end());
    side.last_arrival_ns = network_->now_ns() + network_->DrawDelay(NetworkFault::kSlowConnect, kServer);
    const bool lost = network_->Happens(NetworkFault::kLostConnect, kServer);
    network_->scheduler().At(side.last_arrival_ns, [wire = wire_, lost, text = std::string(welcome)] {
      Wire::Side& client = wire->side(Wire::kClient);
      if (client.state != Wire::State::kConnecting) {
        wire->faulty_ = true;
        wire->End(Wire::kServer, absl::UnavailableError("the client is gone"));
      } else if (!lost && wire->side(Wire::kServer).state == Wire::State::kUp) {
        client.state = Wire::State::kUp;
        wire->welcome = text;
        if (wire->network().on_accept) wire->network().on_accept(client.party, text);
        client.endpoint->Push({0, client.connection, Opcode::kConnected, WcStatus::kSuccess, {}});
      }
    });
    if (lost) GiveUp();
    return connection;
  }

  void Reject(absl::string_view reason) override {
    answered_ = true;
    network_->scheduler().After(network_->DrawDelay(), [wire = wire_, text = std::string(reason)] {
      if (wire->side(Wire::kClient).state != Wire::State::kConnecting) return;
      wire->End(Wire::kClient, absl::PermissionDeniedError(absl::StrCat("the server rejects this client: ", text)));
    });
  }

 private:
  // A server whose answer was lost notices that when the client does not connect.
  void GiveUp() {
    network_->scheduler().After(network_->DrawNotice(kServer), [wire = wire_] {
      wire->faulty_ = true;
      if (wire->side(Wire::kClient).state == Wire::State::kUp) return;
      wire->End(Wire::kServer, absl::UnavailableError("the client never came"));
    });
  }

  Network* const network_;
  const std::shared_ptr<Wire> wire_;
  const std::string hello_;
  const Party party_;
  bool answered_ = false;
};

SimListener::SimListener(Network* network, absl::string_view name, Party party, std::function<void()> wake)
    : network_(network), name_(name), party_(party), wake_(std::move(wake)) {
  network_->Register(name, this);
}

SimListener::~SimListener() {
  network_->Unregister(this);
  // On one host mapped memory stays mapped.
  if (network_->options.capabilities.local) return;
  for (const uint32_t rkey : rkeys_) network_->Withdraw(rkey);
}

absl::StatusOr<RemoteRange> SimListener::Offer(const SharedRange& range, Access access) {
  const RemoteRange& remote = network_->Offer({range.base, range.bytes, access, party_, nullptr, {}});
  rkeys_.push_back(remote.rkey);
  return remote;
}

AtomicDomain SimListener::atomic_domain() const {
  return network_->options.capabilities.atomics ? AtomicDomain::kCpu : AtomicDomain::kNone;
}

absl::StatusOr<std::unique_ptr<Endpoint>> SimListener::CreateEndpoint() {
  return network_->CreateEndpoint(party_, wake_, kServer);
}

std::unique_ptr<ConnectionRequest> SimListener::Next() {
  if (waiting_.empty()) return nullptr;
  auto request = std::move(waiting_.front());
  waiting_.pop_front();
  return request;
}

void SimListener::Arrive(std::shared_ptr<Wire> wire, std::string hello) {
  waiting_.push_back(std::make_unique<SimRequest>(network_, std::move(wire), std::move(hello), party_));
  if (wake_) wake_();
}

}  // namespace farlook::rdma::sim
