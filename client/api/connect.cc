// Connecting a client to its server: over the transport in the address or, for auto://, over the first that works. The
// client keeps the transport that it found: it reconnects over the same one.
//
// A group of a cluster reports the cluster when it admits the client, and has its map, by which the client connects to
// the other groups. So any server suffices; farlook:// names several and the cluster.
#include <algorithm>
#include <cstdint>
#include <functional>
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
#include "base/steady_time.h"
#include "client/api/client_impl.h"
#include "client/api/cluster.h"
#include "client/connection/credentials.h"
#include "client/core/core.h"
#include "client/op/view.h"
#include "farlook/client.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/handshake.h"
#include "rdma/choices.h"
#include "rdma/clock.h"
#include "rdma/transport.h"

namespace farlook {
namespace {

// Maximum time for one transport while the client waits for a server that may answer over either.
constexpr int64_t kMostForOneMs = 1000;

// Time of the first attempt at each of the servers that farlook:// names, doubled in each round, so that those that do
// not answer cost little. For auto:// a device has to answer in half of it.
constexpr int64_t kFirstForSeedMs = 50, kFirstForAutoSeedMs = 500;

// Maximum time for which a new server is asked for its map, and the interval.
constexpr int64_t kMostForMapMs = 200, kAskMapAgainMs = 10;

// A group that has left the cluster leads to another one, which may leave it too.
constexpr int kMostElsewhere = 3;

// A timeout that begins now, and ends early if ClientOptions::while_waiting says so.
class TimeLeft {
 public:
  TimeLeft(int64_t timeout_ms, const ClientOptions& options)
      : while_waiting_(options.while_waiting), begin_(SteadyNow()), end_(begin_ + absl::Milliseconds(timeout_ms)) {}
  // Rounded up, so that no attempt ends before the timeout.
  int64_t ms() const {
    return std::max<int64_t>(absl::ToInt64Milliseconds(absl::Ceil(end_ - SteadyNow(), absl::Milliseconds(1))), 0);
  }
  int64_t passed_ms() const { return absl::ToInt64Milliseconds(SteadyNow() - begin_); }
  void Sleep(int64_t ms) {
    while (ms > 0 && this->ms() > 0) {
      int64_t slice_ms = ms;
      if (while_waiting_ != nullptr) {
        const int64_t next_ms = while_waiting_();
        if (next_ms < 0) end_ = begin_;
        slice_ms = std::clamp<int64_t>(next_ms, 1, ms);
      }
      absl::SleepFor(absl::Milliseconds(std::min(slice_ms, this->ms())));
      ms -= slice_ms;
    }
  }

 private:
  const std::function<int64_t()> while_waiting_;
  const absl::Time begin_;
  absl::Time end_;
};

// Pauses between rounds of attempts, as long as the user waits for a server.
class Pauses {
 public:
  explicit Pauses(const ClientOptions& options)
      : next_ms_(std::max<int64_t>(options.min_backoff_ms, 1)),
        most_ms_(std::max<int64_t>(options.max_backoff_ms, 1)) {}
  void Pause(TimeLeft* time) {
    time->Sleep(std::min(next_ms_, most_ms_));
    next_ms_ = std::min(2 * next_ms_, most_ms_);
  }

 private:
  int64_t next_ms_;
  const int64_t most_ms_;
};

absl::Status CheckRanges(const ClientOptions& options) {
  const struct {
    absl::string_view name;
    int64_t value, least, most;
  } all[] = {{"min_backoff_ms", options.min_backoff_ms, 0, kMaxBackoffMs},
             {"max_backoff_ms", options.max_backoff_ms, 0, kMaxBackoffMs},
             {"spin_us", options.spin_us, 0, kMaxSpinUs},
             {"liveness_ms", options.liveness_ms, 1, kMaxLivenessMs}};
  for (const auto& option : all) {
    if (option.value >= option.least && option.value <= option.most) continue;
    return absl::InvalidArgumentError(absl::StrCat("the option ", option.name, " is from ", option.least, " to ",
                                                   option.most, ", and not ", option.value));
  }
  return absl::OkStatus();
}

// Result of an attempt over one transport.
struct Attempt {
  std::unique_ptr<ClientImpl> impl;  // null: it does not lead to the server
  absl::Status status;
  bool usable = false;    // this host has the transport
  bool answered = false;  // the server refused: it would also refuse over the others
  bool may_pass = false;  // the reason may pass
};

// The first of several addresses determines the backend, and on rdma the device, for all.
std::string FirstOf(const std::string& addresses) { return addresses.substr(0, addresses.find(',')); }

bool MayPass(const absl::Status& refused) {
  return refused.ok() || absl::IsUnavailable(refused) || absl::IsResourceExhausted(refused) ||
         absl::IsDeadlineExceeded(refused);
}

// Gets use messages if a READ takes the server's CPU too.
ClientOptions OptionsFor(const std::string& address, const ClientOptions& options) {
  ClientOptions its = options;
  if (its.lookups == Lookups::kAuto) {
    its.lookups = absl::StartsWith(address, "tcp://") ? Lookups::kMessages : Lookups::kReads;
  }
  return its;
}

// `resolve_ms`: see rdma::TransportOptions.
absl::StatusOr<std::unique_ptr<client::ClientCore>> MakeCore(const std::string& address, const ClientOptions& options,
                                                             int64_t resolve_ms) {
  rdma::TransportOptions transport;
  transport.resolve_ms = resolve_ms;
  transport.liveness_ms = options.liveness_ms;
  transport.max_outstanding = options.max_outstanding;
  auto endpoint = rdma::CreateEndpoint(FirstOf(address), transport);
  if (!endpoint.ok()) return endpoint.status();
  return std::make_unique<client::ClientCore>(*std::move(endpoint), address, OptionsFor(address, options),
                                              rdma::Clock::Real(), std::random_device()());
}

Attempt Try(const std::string& address, const ClientOptions& options, int64_t timeout_ms, bool wait) {
  Attempt attempt;
  const TimeLeft time(timeout_ms, options);
  auto core = MakeCore(address, options, timeout_ms);
  attempt.status = core.status();
  if (!core.ok()) return attempt;
  attempt.usable = true;
  auto impl = std::make_unique<ClientImpl>(*std::move(core), address, options);
  attempt.status = impl->waiter.Connect(impl->first.get(), time.ms(), wait);
  attempt.answered = impl->first->turned_away();
  attempt.may_pass = MayPass(impl->first->refused());
  if (attempt.status.ok()) attempt.impl = std::move(impl);
  return attempt;
}

// Tries both transports, in rounds while the user waits for a server.
Attempt TryEach(const std::string& address, ClientOptions options, int64_t timeout_ms) {
  const std::string by_rdma = absl::StrReplaceAll(address, {{"auto://", "rdma://"}});
  const std::string by_tcp = absl::StrReplaceAll(address, {{"auto://", "tcp://"}});
  const bool wait = std::exchange(options.wait_for_server, false);  // no attempt waits, since the other transport may
                                                                    // work
  const int64_t most_ms = wait ? kMostForOneMs : std::max<int64_t>(timeout_ms, 0);
  TimeLeft time(timeout_ms, options);
  const auto try_rdma = [&] { return Try(by_rdma, options, std::min(time.ms() / 2, most_ms), /*wait=*/false); };

  for (Pauses pauses(options);; pauses.Pause(&time)) {
    Attempt rdma = try_rdma();
    Attempt tcp;
    if (rdma.impl == nullptr && !rdma.answered) {
      tcp = Try(by_tcp, options, std::min(time.ms(), most_ms), /*wait=*/false);
      // The server may have begun to listen after the first attempt.
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

// Connects to one server, or to the servers of one group.
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

// Connects to one of the servers that farlook:// names.
absl::StatusOr<std::unique_ptr<ClientImpl>> ReachOne(const client::ClusterAddress& address,
                                                     const ClientOptions& options, TimeLeft* time) {
  ClientOptions once = options;
  once.wait_for_server = false;  // no seed is waited for, since another may work
  int64_t most_ms = rdma::IsAuto(address.seeds[0]) ? kFirstForAutoSeedMs : kFirstForSeedMs;
  for (Pauses pauses(options);; most_ms *= 2) {
    std::vector<std::string> reasons;
    bool may_pass = false, is_slow = false;
    absl::StatusCode code = absl::StatusCode::kUnavailable;
    for (size_t i = 0; i < address.seeds.size(); ++i) {
      // Each seed has at most its share of the remaining time.
      const int64_t share_ms = time->ms() / static_cast<int64_t>(address.seeds.size() - i);
      const int64_t began_ms = time->passed_ms();
      auto reached = Reach(address.seeds[i], once, std::min(share_ms, most_ms));
      if (reached.ok()) return reached;
      is_slow |= share_ms > most_ms && time->passed_ms() - began_ms >= most_ms;
      if (absl::IsInvalidArgument(reached.status())) return reached.status();
      may_pass |= MayPass(reached.status());
      code = reached.status().code();
      reasons.emplace_back(reached.status().message());
    }
    if (is_slow && time->ms() > 0) continue;
    if (!options.wait_for_server || !may_pass || time->ms() == 0) {
      return absl::Status(may_pass ? absl::StatusCode::kUnavailable : code,
                          absl::StrCat("no server accepts this client: ", absl::StrJoin(reasons, "; ")));
    }
    pauses.Pause(time);
  }
}

// Returns the map of a server; a complete one if it exists in time. A server that has just started may have none yet.
absl::StatusOr<kv::ClusterMap> AskMap(ClientImpl* impl, const ClientOptions& options, TimeLeft* time) {
  for (;;) {
    absl::StatusOr<kv::ClusterMap> map = client::AskMap(impl, impl->first.get(), time->ms());
    const absl::Status status = map.ok() ? client::CheckComplete(*map) : map.status();
    const bool goes_on = MayPass(status) && (options.wait_for_server || time->passed_ms() < kMostForMapMs);
    if (status.ok() || !goes_on || time->ms() == 0) return map;
    time->Sleep(kAskMapAgainMs);
  }
}

// Connects to the other groups of the cluster. `all`: fail unless all slots can be served. If the group that was
// reached has left the cluster, sets `*elsewhere` to the servers of another group, and does nothing.
absl::Status Spread(ClientImpl* impl, const ClientOptions& options, TimeLeft* time, bool all, std::string* elsewhere) {
  auto map = AskMap(impl, options, time);
  if (!map.ok()) return map.status();
  if (all) {
    if (absl::Status complete = client::CheckComplete(*map); !complete.ok()) return complete;
  }
  const kv::Welcome& welcome = impl->first->welcome();
  // Also called later, from calls that must not wait for the resolution of a name.
  const auto make = [impl, options](const kv::ClusterMap::Group& group) -> absl::StatusOr<client::ClientCore*> {
    auto core = MakeCore(absl::StrJoin(group.members, ","), options, /*resolve_ms=*/0);
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
    return absl::UnavailableError("the group that was reached is no longer in the cluster: try again");
  }
  impl->cores.Spread(*map, std::move(cores), make);
  if (absl::Status status = impl->cores.JoinDescriptors(); !status.ok()) return status;
  return impl->waiter.ConnectAll(time->ms(), options.wait_for_server);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(std::string_view address, const ClientOptions& given) {
  if (absl::Status status = CheckRanges(given); !status.ok()) return status;
  ClientOptions options = given;
  if (absl::Status status = client::FindCredentials(&options); !status.ok()) return status;
  if (options.timeout_ms < 0) {
    return absl::InvalidArgumentError(absl::StrCat("timeout_ms is ", options.timeout_ms, ", and must not be negative"));
  }
  TimeLeft time(options.timeout_ms, options);
  absl::StatusOr<client::ClusterAddress> cluster = client::ClusterAddress::Parse(client::View(address));
  if (!cluster.ok()) return cluster.status();
  auto impl = cluster->seeds.empty() ? Reach(std::string(address), options, options.timeout_ms)
                                     : ReachOne(*cluster, options, &time);
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
    const absl::Status status = Spread(impl->get(), options, &time, /*all=*/!cluster->seeds.empty(), &elsewhere);
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
