// How a client comes to its server: over the transport that the address names, or, of auto://, over the first that
// leads there. Once found it stays: what breaks later is mended by the same one.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client_impl.h"
#include "client/credentials.h"
#include "client/view.h"
#include "farlook/client.h"
#include "rdma/choices.h"
#include "rdma/transport.h"

namespace farlook {
namespace {

// Who waits for a server that may come by either way does not wait longer than this for one of them.
constexpr int64_t kMostForOneMs = 1000;

// What became of one transport.
struct Attempt {
  std::unique_ptr<ClientImpl> impl;  // null: it does not lead there
  absl::Status status;
  bool usable = false;    // this host has it
  bool answered = false;  // the server said no: it would over the others, too
  bool may_pass = false;  // what keeps it from leading there
};

// Of several addresses the first says which backend, and on rdma which device, all are reached with.
std::string FirstOf(const std::string& addresses) { return addresses.substr(0, addresses.find(',')); }

bool MayPass(const absl::Status& refused) {
  return refused.ok() || absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused) ||
         absl::IsDeadlineExceeded(refused);
}

Attempt Try(const std::string& address, ClientOptions options, int64_t timeout_ms, bool wait) {
  if (options.lookups == Lookups::kAuto) {
    options.lookups = absl::StartsWith(address, "tcp://") ? Lookups::kMessages : Lookups::kReads;
  }
  rdma::TransportOptions transport;
  transport.liveness_ms = options.liveness_ms;
  transport.max_outstanding = options.max_outstanding;
  Attempt attempt;
  auto endpoint = rdma::CreateEndpoint(FirstOf(address), transport);
  attempt.status = endpoint.status();
  if (!endpoint.ok()) return attempt;
  attempt.usable = true;
  auto impl = std::make_unique<ClientImpl>(*std::move(endpoint), address, options);
  attempt.status = impl->waiter.Connect(timeout_ms, wait);
  attempt.answered = impl->core.turned_away();
  attempt.may_pass = MayPass(impl->core.refused());
  if (attempt.status.ok()) attempt.impl = std::move(impl);
  return attempt;
}

// Both ways, in rounds while the user waits for a server.
Attempt TryEach(const std::string& address, ClientOptions options) {
  const std::string by_rdma = absl::StrReplaceAll(address, {{"auto://", "rdma://"}});
  const std::string by_tcp = absl::StrReplaceAll(address, {{"auto://", "tcp://"}});
  const bool wait = std::exchange(options.wait_for_server, false);  // no attempt is to wait where another may do
  const int64_t most_ms = wait ? kMostForOneMs : std::max<int64_t>(options.timeout_ms, 0);
  const absl::Time end = absl::Now() + absl::Milliseconds(options.timeout_ms);
  const auto left_ms = [&] { return std::max<int64_t>(absl::ToInt64Milliseconds(end - absl::Now()), 0); };
  const auto try_rdma = [&] { return Try(by_rdma, options, std::min(left_ms() / 2, most_ms), /*wait=*/false); };

  for (int64_t pause_ms = std::max<int64_t>(options.min_backoff_ms, 1);; pause_ms *= 2) {
    Attempt rdma = try_rdma();
    Attempt tcp;
    if (rdma.impl == nullptr && !rdma.answered) {
      tcp = Try(by_tcp, options, std::min(left_ms(), most_ms), /*wait=*/false);
      // Who waits may have come before the server listened, and by now it does.
      if (tcp.impl != nullptr && wait && rdma.usable) rdma = try_rdma();
    }
    Attempt* const found = rdma.impl != nullptr || rdma.answered ? &rdma : &tcp;
    if (found->impl != nullptr) {
      if (wait) found->impl->core.WaitForServer();
      found->impl->reached =
          found == &rdma ? by_rdma : absl::StrCat(by_tcp, " (not rdma: ", rdma.status.message(), ")");
      return std::move(*found);
    }
    const bool may_pass = found->may_pass || (found == &tcp && !tcp.answered && rdma.may_pass);
    if (!wait || !may_pass || left_ms() == 0) {
      if (found == &tcp) {
        const absl::string_view over_tcp = tcp.status.message();
        tcp.status = absl::Status(tcp.status.code(),
                                  absl::StrCat("over rdma: ", rdma.status.message(), "; over tcp: ", over_tcp));
      }
      return std::move(*found);
    }
    pause_ms = std::min(pause_ms, std::max<int64_t>(options.max_backoff_ms, 1));
    absl::SleepFor(absl::Milliseconds(std::min(pause_ms, left_ms())));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::string_view address, const ClientOptions& given) {
  ClientOptions options = given;
  if (absl::Status status = client::FindCredentials(&options); !status.ok()) return status;
  const std::string text(address);
  if (absl::Status status = rdma::Choices(FirstOf(text)).status(); !status.ok()) return status;
  const bool choose = rdma::IsAuto(text);
  Attempt attempt = choose ? TryEach(text, options) : Try(text, options, options.timeout_ms, options.wait_for_server);
  if (attempt.impl != nullptr) return std::unique_ptr<Client>(new Client(std::move(attempt.impl)));
  if (!attempt.usable && !choose) return attempt.status;
  return absl::Status(attempt.status.code(), absl::StrCat("cannot connect to ", text, ": ", attempt.status.message()));
}

const std::string& Client::address() const { return impl_->reached; }

}  // namespace farlook
