// Admission of clients by a Door: each is accepted, and then silent until its Hello, or rejected.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "server/worker/door.h"

namespace farlook::server {
namespace {

// Time that a client gets for its Hello, its proof or its probe before it must make room for another.
constexpr int64_t kHelloNs = 5'000'000;
constexpr int64_t kProofNs = 50'000'000;
constexpr int64_t kProbeNs = 50'000'000;

kv::ServerRange ToServerRange(const rdma::RemoteRange& range) { return {range.address, range.bytes, range.rkey}; }

// Returns whether the client may have an operator's place, by its process credentials. Without users this is a process
// of root or of the server's own user; with users, one of a user with the role admin.
bool MayOperate(const Visitor& who, const Users* users) {
  if (!who.process.has_value()) return false;
  if (users != nullptr) return who.user.admin;
  return who.process->uid == 0 || who.process->uid == geteuid();
}

}  // namespace

// Returns the client, as far as it is known before it sends anything. PERMISSION_DENIED: no user of the server's.
absl::StatusOr<Visitor> Door::Identify(const rdma::ConnectionRequest& request) const {
  Visitor who;
  const rdma::PeerCredentials* const process = request.credentials();
  if (process != nullptr) who.process = *process;
  if (context_.shared.users == nullptr) {
    who.user.may_write = true;
    return who;
  }
  if (process == nullptr) {
    who.unproven = std::make_unique<Visitor::Unproven>();
    who.user.may_write = true;  // perhaps
    return who;
  }
  // A list that is replaced meanwhile lives until its last holder releases it.
  const std::shared_ptr<const UserList> users = context_.shared.users->now();
  const User* const user = users->Of(*process);
  if (user == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("no user of the server's --users has the uid ", process->uid,
                                                    ", or one of the groups, of this ", "process"));
  }
  who.user = *user;
  return who;
}

// Admits one client, if it is time: while others have requests, clients that connect get no more than their share.
size_t Door::AdmitNext(int64_t alone_ns) {
  context_.ReadClock();
  const int64_t turn_ns = std::min(comings_.due_ns(), alone_ns);
  if (context_.now_ns < turn_ns && !context_.drain.begun()) {
    arrivals_rest_ = true;
    context_.WakeBy(turn_ns);
    return 0;
  }
  Admit(mailbox_.Take());
  Took(context_.now_ns);
  return 1;
}

void Door::Admit(Arrival arrival) {
  const Shared& shared = context_.shared;
  if (context_.drain.begun()) return Reject(arrival, kv::RefusalCode::kShuttingDown, kShuttingDownReason);
  absl::StatusOr<Visitor> who = Identify(*arrival.request);
  if (!who.ok()) return Reject(arrival, kv::RefusalCode::kNotAllowed, who.status().message());
  const bool watches = (arrival.connect.flags & kv::ConnectData::kWatch) != 0;
  if (shared.serving != nullptr && !watches && !shared.serving->now()) {
    const Serving::Announcement announced = shared.serving->announced();
    if (!announced.loss.empty()) return Reject(arrival, kv::RefusalCode::kGroupLost, announced.loss);
    return Reject(arrival, kv::RefusalCode::kNotPrimary, announced.primary);
  }
  const bool returns = who->unproven != nullptr && Returns(arrival.connect.session);
  if (who->unproven != nullptr && !returns && !HasRoomForUnproven()) {
    return Reject(arrival, kv::RefusalCode::kFull,
                  absl::StrCat("the limit of unauthenticated clients, a share of --max_clients, is reached: ",
                               shared.max_unproven()));
  }
  std::string why;
  const Place place = TakePlace(arrival.connect, *who, &why);
  if (place == Place::kNone) return Reject(arrival, kv::RefusalCode::kFull, why);
  Accept(arrival, *std::move(who), place, returns);
}

// Accepts a connection, which is silent until its Hello. `returns`: it means to resume a session that is here.
void Door::Accept(Arrival& arrival, Visitor who, Place place, bool returns) {
  const Shared& shared = context_.shared;
  const Port& port = ports_[static_cast<size_t>(arrival.port)];
  const bool watches = (arrival.connect.flags & kv::ConnectData::kWatch) != 0;
  const bool may_write = who.user.may_write && (arrival.connect.flags & kv::ConnectData::kReadOnly) == 0;
  const bool cells = may_write && !watches && port.cells.rkey != 0;
  const bool is_unproven = who.unproven != nullptr;
  kv::AcceptData accept;
  accept.version = arrival.connect.version();
  accept.incarnation = shared.incarnation;
  if (shared.serving != nullptr) accept.flags |= kv::AcceptData::kGroup;
  const kv::ServerRange table = ToServerRange(arrival.request->Current(port.table));
  if (is_unproven) {
    accept.flags |= kv::AcceptData::kAuthentication;
    who.unproven->table = table;
    if (returns) who.unproven->session = arrival.connect.session;
    arrival.request->WithholdReads();
  } else {
    accept.table = table;
  }
  const kv::ServerRange counters = cells ? ToServerRange(arrival.request->Current(port.cells)) : kv::ServerRange{};
  const std::array<uint32_t, 2> rkeys = {port.table.rkey, port.cells.rkey};
  auto connection =
      arrival.request->Accept(port.endpoint, accept.Encode(), absl::MakeConstSpan(rkeys).first(cells ? 2 : 1));
  if (!connection.ok()) {
    LeavePlace(place);
    return OnAcceptFailed(arrival, connection.status());
  }
  auto link = std::make_unique<Link>(*std::move(connection), std::move(who), shared.connections, context_.number,
                                     context_.now_ns);
  link->watches = watches;
  link->place = place;
  if (place == Place::kProbe) probes_.Add(link.get());
  link->cells.range = counters;
  link->counts_as_unproven = is_unproven && !returns;
  if (link->counts_as_unproven) ++unproven_;
  link->due_ns = context_.now_ns +
                 (is_unproven ? std::min(shared.hello_timeout_ns, shared.proof_timeout_ns) : shared.hello_timeout_ns);
  CloseAtDueTime(*link);
  links_.emplace(link.get(), std::move(link));
  context_.stats.accepted.Add();
  UpdateGauges();
}

// Takes a place for one more connection. Returns kNone, with the reason in `*why`, if there is none. A full server
// still admits operators and probes.
Place Door::TakePlace(const kv::ConnectData& connect, const Visitor& who, std::string* why) {
  static constexpr uint32_t kBoth = kv::ConnectData::kOperator | kv::ConnectData::kReadOnly;
  if (admission_.Enter(connect.session, /*replaces=*/false, why)) return Place::kClient;
  const bool asks = (connect.flags & kBoth) == kBoth;
  if (asks && MayOperate(who, context_.shared.users) && context_.shared.quota->TakeAsOperator())
    return Place::kOperator;
  if (asks && HasRoomForProbe()) return Place::kProbe;
  const bool replaces = DropSilent([](const Link& link) { return link.place == Place::kClient; },
                                   "sent no hello, and its place was needed");
  return replaces && admission_.Enter(connect.session, replaces, why) ? Place::kClient : Place::kNone;
}

void Door::LeavePlace(Place place) {
  if (place == Place::kClient) context_.shared.quota->Give();
  if (place == Place::kOperator) context_.shared.quota->GiveAsOperator();
}

// Returns whether a probe may connect. If the limit is reached, the oldest makes room when it had the time that a probe
// needs. So a client that stays in a probe's place does not block other probes.
bool Door::HasRoomForProbe() {
  if (probes_.size() < ConnectionQuota::kForProbes) return true;
  Link& first = *probes_.front();
  if (first.came_ns + kProbeNs > context_.now_ns) return false;
  context_.closer->Close(first);
  return true;
}

// Returns whether a client means to resume a session that is here. The id of a session is random, so a client that does
// not know it cannot hold places with it. Such a client is admitted beyond the bound, one at a time for each session.
bool Door::Returns(uint64_t session) const {
  if (session == 0 || admission_.FindSession(session) == nullptr) return false;
  return !silent_.Any(
      [session](const Link& link) { return link.who.unproven != nullptr && link.who.unproven->session == session; });
}

// Returns whether one more unauthenticated client may connect. If the limit is reached, one is dropped if possible.
bool Door::HasRoomForUnproven() {
  return unproven_ < context_.shared.max_unproven() ||
         DropSilent([](const Link& link) { return link.counts_as_unproven; },
                    "did not authenticate, and its place was needed");
}

// Drops a connection that is not welcome yet: of those that `counts` accepts, the one that has waited longest, if it
// had the time that a client needs. So connections that only hold places do not keep others out.
bool Door::DropSilent(absl::FunctionRef<bool(const Link&)> counts, absl::string_view reason) {
  const auto had_time = [&](const Link& link) {
    const int64_t needs_ns = link.who.unproven != nullptr ? kProofNs : kHelloNs;
    return counts(link) && (link.refused || link.came_ns + needs_ns <= context_.now_ns);
  };
  Link* found = silent_.front();
  while (found != nullptr && !had_time(*found)) found = silent_.Next(found);
  if (found == nullptr) return false;
  context_.stats.silent_drops.Add();
  context_.closer->Drop(*found, reason);
  return true;
}

// Memory or descriptors are short, or the device failed.
void Door::OnAcceptFailed(Arrival& arrival, const absl::Status& status) {
  load_.fetch_sub(1, std::memory_order_relaxed);
  uint64_t suppressed;
  if (reject_log_.Allow(context_.now_ns, &suppressed)) {
    Log(LogLevel::kWarning, "client could not be accepted", {{"reason", status.message()}, {"suppressed", suppressed}});
  }
  if (absl::IsResourceExhausted(status)) {
    kv::RejectData data;
    data.code = kv::RefusalCode::kFull;
    data.text = absl::StrCat("the server lacks room for another client: ", status.message());
    arrival.request->Reject(data.Encode(rdma::kMaxRejectBytes));
  }
  UpdateGauges();
}

void Door::Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason) {
  uint64_t suppressed;
  // Clients of a group look for its primary.
  if (code != kv::RefusalCode::kNotPrimary && reject_log_.Allow(context_.now_ns, &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", arrival.request->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  context_.stats.rejected.Add();
  kv::RejectData data;
  data.code = code;
  data.text = std::string(reason);
  arrival.request->Reject(data.Encode(rdma::kMaxRejectBytes));
  arrival.request.reset();
  load_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace farlook::server
