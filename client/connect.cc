// How a client comes to its server: over the transport that the address names, or, of auto://, over the first that
// leads there. Once found it stays: what breaks later is mended by the same one.
//
// A group of a cluster says so when it lets the client in, and has the map of it, by which the client connects to the
// other groups too. So any server will do; farlook:// names some, of which one suffices, and the cluster.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/client_impl.h"
#include "client/cluster.h"
#include "client/core.h"
#include "client/credentials.h"
#include "client/view.h"
#include "farlook/client.h"
#include "kv/cluster_map.h"
#include "kv/handshake.h"
#include "rdma/choices.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook {
namespace {

// Who waits for a server that may come by either way does not wait longer than this for one of them.
constexpr int64_t kMostForOneMs = 1000;

// A server that serves since now is asked for its map for so long, and so often.
constexpr int64_t kMostForMapMs = 200, kAskMapAgainMs = 10;

// A group that has left the cluster leads to another one, which may leave it just then.
constexpr int kMostElsewhere = 3;

// Of a time that begins now.
class TimeLeft {
 public:
  explicit TimeLeft(int64_t timeout_ms) : begin_(absl::Now()), end_(begin_ + absl::Milliseconds(timeout_ms)) {}
  int64_t ms() const { return std::max<int64_t>(absl::ToInt64Milliseconds(end_ - absl::Now()), 0); }
  int64_t passed_ms() const { return absl::ToInt64Milliseconds(absl::Now() - begin_); }

 private:
  const absl::Time begin_, end_;
};

// Between rounds of attempts, as long as the user waits for a server.
class Pauses {
 public:
  explicit Pauses(const ClientOptions& options)
      : next_ms_(std::max<int64_t>(options.min_backoff_ms, 1)),
        most_ms_(std::max<int64_t>(options.max_backoff_ms, 1)) {}
  void Pause(const TimeLeft& time) {
    absl::SleepFor(absl::Milliseconds(std::min({next_ms_, most_ms_, time.ms()})));
    next_ms_ = std::min(2 * next_ms_, most_ms_);
  }

 private:
  int64_t next_ms_;
  const int64_t most_ms_;
};

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

// Gets by messages where a READ takes the server's CPU too.
ClientOptions OptionsFor(const std::string& address, const ClientOptions& options) {
  ClientOptions its = options;
  if (its.lookups == Lookups::kAuto) {
    its.lookups = absl::StartsWith(address, "tcp://") ? Lookups::kMessages : Lookups::kReads;
  }
  return its;
}

absl::StatusOr<std::unique_ptr<client::ClientCore>> MakeCore(const std::string& address, const ClientOptions& options) {
  rdma::TransportOptions transport;
  transport.liveness_ms = options.liveness_ms;
  transport.max_outstanding = options.max_outstanding;
  auto endpoint = rdma::CreateEndpoint(FirstOf(address), transport);
  if (!endpoint.ok()) return endpoint.status();
  return std::make_unique<client::ClientCore>(*std::move(endpoint), address, OptionsFor(address, options),
                                              rdma::Clock::Real(), std::random_device()());
}

Attempt Try(const std::string& address, const ClientOptions& options, int64_t timeout_ms, bool wait) {
  Attempt attempt;
  auto core = MakeCore(address, options);
  attempt.status = core.status();
  if (!core.ok()) return attempt;
  attempt.usable = true;
  auto impl = std::make_unique<ClientImpl>(*std::move(core), address, options);
  attempt.status = impl->waiter.Connect(impl->first.get(), timeout_ms, wait);
  attempt.answered = impl->first->turned_away();
  attempt.may_pass = MayPass(impl->first->refused());
  if (attempt.status.ok()) attempt.impl = std::move(impl);
  return attempt;
}

// Both ways, in rounds while the user waits for a server.
Attempt TryEach(const std::string& address, ClientOptions options, int64_t timeout_ms) {
  const std::string by_rdma = absl::StrReplaceAll(address, {{"auto://", "rdma://"}});
  const std::string by_tcp = absl::StrReplaceAll(address, {{"auto://", "tcp://"}});
  const bool wait = std::exchange(options.wait_for_server, false);  // no attempt is to wait where another may do
  const int64_t most_ms = wait ? kMostForOneMs : std::max<int64_t>(timeout_ms, 0);
  const TimeLeft time(timeout_ms);
  const auto try_rdma = [&] { return Try(by_rdma, options, std::min(time.ms() / 2, most_ms), /*wait=*/false); };

  for (Pauses pauses(options);; pauses.Pause(time)) {
    Attempt rdma = try_rdma();
    Attempt tcp;
    if (rdma.impl == nullptr && !rdma.answered) {
      tcp = Try(by_tcp, options, std::min(time.ms(), most_ms), /*wait=*/false);
      // Who waits may have come before the server listened, and by now it does.
      if (tcp.impl != nullptr && wait && rdma.usable) rdma = try_rdma();
    }
    Attempt* const found = rdma.impl != nullptr || rdma.answered ? &rdma : &tcp;
    if (found->impl != nullptr) {
      if (wait) found->impl->first->WaitForServer();
      found->impl->reached =
          found == &rdma ? by_rdma : absl::StrCat(by_tcp, " (not rdma: ", rdma.status.message(), ")");
      return std::move(*found);
    }
    const bool may_pass = found->may_pass || (found == &tcp && !tcp.answered && rdma.may_pass);
    if (!wait || !may_pass || time.ms() == 0) {
      if (found == &tcp) {
        const absl::string_view over_tcp = tcp.status.message();
        tcp.status = absl::Status(tcp.status.code(),
                                  absl::StrCat("over rdma: ", rdma.status.message(), "; over tcp: ", over_tcp));
      }
      return std::move(*found);
    }
  }
}

// One server, or the servers of one group.
absl::StatusOr<std::unique_ptr<ClientImpl>> Reach(const std::string& address, const ClientOptions& options,
                                                  int64_t timeout_ms) {
  if (absl::Status status = rdma::Choices(FirstOf(address)).status(); !status.ok()) return status;
  const bool choose = rdma::IsAuto(address);
  Attempt attempt =
      choose ? TryEach(address, options, timeout_ms) : Try(address, options, timeout_ms, options.wait_for_server);
  if (attempt.impl != nullptr) return std::move(attempt.impl);
  if (!attempt.usable && !choose) return attempt.status;
  return absl::Status(attempt.status.code(),
                      absl::StrCat("cannot connect to ", address, ": ", attempt.status.message()));
}

// The servers that farlook:// names, one of which suffices.
absl::StatusOr<std::unique_ptr<ClientImpl>> ReachOne(const client::ClusterAddress& address,
                                                     const ClientOptions& options, const TimeLeft& time) {
  ClientOptions once = options;
  once.wait_for_server = false;  // no seed is waited for where another may do
  for (Pauses pauses(options);; pauses.Pause(time)) {
    std::vector<std::string> reasons;
    bool may_pass = false;
    absl::StatusCode code = absl::StatusCode::kUnavailable;
    for (size_t i = 0; i < address.seeds.size(); ++i) {
      // Each has its share of what is left.
      auto reached = Reach(address.seeds[i], once, time.ms() / static_cast<int64_t>(address.seeds.size() - i));
      if (reached.ok()) return reached;
      if (absl::IsInvalidArgument(reached.status())) return reached.status();
      may_pass |= MayPass(reached.status());
      code = reached.status().code();
      reasons.emplace_back(reached.status().message());
    }
    if (!options.wait_for_server || !may_pass || time.ms() == 0) {
      return absl::Status(may_pass ? absl::StatusCode::kUnavailable : code,
                          absl::StrCat("no server lets this client in: ", absl::StrJoin(reasons, "; ")));
    }
  }
}

// The map that a server has; a complete one if there will be one in time. Who serves since now may have none yet.
absl::StatusOr<kv::ClusterMap> AskMap(ClientImpl* impl, const ClientOptions& options, const TimeLeft& time) {
  for (;;) {
    absl::StatusOr<kv::ClusterMap> map = client::AskMap(impl, impl->first.get(), time.ms());
    const absl::Status status = map.ok() ? client::CheckComplete(*map) : map.status();
    const bool goes_on = MayPass(status) && (options.wait_for_server || time.passed_ms() < kMostForMapMs);
    if (status.ok() || !goes_on || time.ms() == 0) return map;
    absl::SleepFor(absl::Milliseconds(std::min<int64_t>(kAskMapAgainMs, time.ms())));
  }
}

// Connects to the other groups of the cluster as well. `all`: to keys of all slots, or not at all. Where the group that
// was reached is none of the cluster any more, `*elsewhere` are servers of one that is, and nothing is done.
absl::Status Spread(ClientImpl* impl, const ClientOptions& options, const TimeLeft& time, bool all,
                    std::string* elsewhere) {
  auto map = AskMap(impl, options, time);
  if (!map.ok()) return map.status();
  if (all) {
    if (absl::Status complete = client::CheckComplete(*map); !complete.ok()) return complete;
  }
  const kv::Welcome& welcome = impl->first->welcome();
  const auto make = [impl, options](const kv::ClusterMap::Group& group) -> absl::StatusOr<client::ClientCore*> {
    auto core = MakeCore(absl::StrJoin(group.members, ","), options);
    if (!core.ok()) return core.status();
    impl->others.push_back(*std::move(core));
    return impl->others.back().get();
  };
  std::vector<client::ClientCore*> cores;
  for (const kv::ClusterMap::Group& group : map->groups) {
    const bool is_home = std::any_of(group.members.begin(), group.members.end(), [&](const std::string& member) {
      return absl::StartsWith(absl::StrCat(welcome.members, ","), absl::StrCat(member, ","));
    });
    if (is_home && std::find(cores.begin(), cores.end(), impl->first.get()) == cores.end()) {
      cores.push_back(impl->first.get());
      continue;
    }
    if (group.members.empty()) continue;  // it has not begun
    auto core = make(group);
    if (!core.ok()) {
      return absl::Status(core.status().code(), absl::StrCat("group ", group.name, ": ", core.status().message()));
    }
    cores.push_back(*core);
  }
  if (std::find(cores.begin(), cores.end(), impl->first.get()) == cores.end()) {
    for (const kv::ClusterMap::Group& group : map->groups) {
      if (group.slots.any() && !group.members.empty()) *elsewhere = absl::StrJoin(group.members, ",");
    }
    return absl::UnavailableError("the group that was reached is not one of the cluster any more: try again");
  }
  impl->cores.Spread(*map, std::move(cores), make);
  if (absl::Status status = impl->cores.JoinDescriptors(); !status.ok()) return status;
  return impl->waiter.ConnectAll(time.ms(), options.wait_for_server);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::string_view address, const ClientOptions& given) {
  ClientOptions options = given;
  if (absl::Status status = client::FindCredentials(&options); !status.ok()) return status;
  const TimeLeft time(options.timeout_ms);
  absl::StatusOr<client::ClusterAddress> cluster = client::ClusterAddress::Parse(client::View(address));
  if (!cluster.ok()) return cluster.status();
  auto impl = cluster->seeds.empty() ? Reach(std::string(address), options, options.timeout_ms)
                                     : ReachOne(*cluster, options, time);
  std::string elsewhere;
  for (int attempt = 0;; ++attempt) {
    if (!impl.ok()) return impl.status();
    const std::string found = (*impl)->first->welcome().cluster;
    if (!cluster->seeds.empty()) {
      if (found != cluster->name) {
        return absl::FailedPreconditionError(
            absl::StrCat((*impl)->reached, " is of ", found.empty() ? "no cluster" : absl::StrCat("cluster ", found),
                         ", and ", cluster->name, " is wanted"));
      }
      (*impl)->reached = std::string(address);
    }
    if (found.empty()) break;
    elsewhere.clear();
    const absl::Status status = Spread(impl->get(), options, time, /*all=*/!cluster->seeds.empty(), &elsewhere);
    if (status.ok()) break;
    if (elsewhere.empty() || attempt == kMostElsewhere) {
      return absl::Status(status.code(), absl::StrCat("cannot connect to cluster ", found, ": ", status.message()));
    }
    impl = Reach(elsewhere, options, time.ms());
  }
  return std::unique_ptr<Client>(new Client(*std::move(impl)));
}

const std::string& Client::address() const { return impl_->reached; }

}  // namespace farlook
