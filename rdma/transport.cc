#include "rdma/transport.h"

#include <utility>

#include "rdma/address.h"
#include "rdma/shm/endpoint.h"
#include "rdma/shm/listener.h"
#include "rdma/tcp/endpoint.h"
#include "rdma/tcp/listener.h"
#include "rdma/verbs/endpoint.h"
#include "rdma/verbs/listener.h"

namespace farlook::rdma {
absl::StatusOr<std::unique_ptr<Listener>> Listen(absl::string_view address, const TransportOptions& options) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->scheme == Scheme::kRdma) {
    absl::StatusOr<std::unique_ptr<verbs::VerbsListener>> listener = verbs::VerbsListener::Create(*parsed, options);
    if (!listener.ok()) return listener.status();
    return *std::move(listener);
  }
  if (parsed->scheme == Scheme::kTcp) {
    absl::StatusOr<std::unique_ptr<tcp::TcpListener>> listener = tcp::TcpListener::Create(*parsed, options);
    if (!listener.ok()) return listener.status();
    return *std::move(listener);
  }
  absl::StatusOr<std::unique_ptr<shm::ShmListener>> listener = shm::ShmListener::Create(parsed->path, options);
  if (!listener.ok()) return listener.status();
  return *std::move(listener);
}

absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(absl::string_view address, const TransportOptions& options) {
  absl::StatusOr<Address> parsed = ParseAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->scheme == Scheme::kRdma) {
    absl::StatusOr<std::unique_ptr<verbs::VerbsEndpoint>> endpoint = verbs::VerbsEndpoint::ForClient(*parsed, options);
    if (!endpoint.ok()) return endpoint.status();
    return *std::move(endpoint);
  }
  if (parsed->scheme == Scheme::kTcp) {
    absl::StatusOr<std::unique_ptr<tcp::TcpEndpoint>> endpoint = tcp::TcpEndpoint::Create(options);
    if (!endpoint.ok()) return endpoint.status();
    return *std::move(endpoint);
  }
  absl::StatusOr<std::unique_ptr<shm::ShmEndpoint>> endpoint = shm::ShmEndpoint::Create();
  if (!endpoint.ok()) return endpoint.status();
  return *std::move(endpoint);
}

}  // namespace farlook::rdma
