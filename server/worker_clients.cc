// How a worker's clients come; worker.cc serves them, worker_ends.cc tells how they go.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kv/proof.h"
#include "server/worker.h"

namespace farlook::server {
namespace {

// How long a client that is refused may take to read why and to go by itself.
constexpr int64_t kRefusalLingerNs = 100'000'000;
// Nobody has it, and a Welcome must name one.
constexpr uint64_t kWatchersSession = ~uint64_t{0};
// What a client may need to prove who it is, before it makes room for another.
constexpr int64_t kProofNs = 50'000'000;

kv::ServerRange ToServerRange(const rdma::RemoteRange& range) { return {range.address, range.bytes, range.rkey}; }

kv::Refusal ShuttingDown() {
  kv::Refusal refusal;
  refusal.code = kv::RefusalCode::kShuttingDown;
  refusal.text = std::string(kShuttingDownReason);
  return refusal;
}

kv::Refusal NotAuthenticated(absl::string_view why) {
  kv::Refusal refusal;
  refusal.code = kv::RefusalCode::kNotAuthenticated;
  refusal.text = std::string(why);
  return refusal;
}

// What a client may do of what it asks for.
void Restrict(const User& user, kv::Hello* hello) {
  hello->user = user.name;
  if (!user.may_write) hello->flags |= kv::Hello::kReadOnly;
}

}  // namespace

// --- Letting clients in ---

// Who it is, as far as it can be known before it says anything. PERMISSION_DENIED: nobody that may come.
absl::StatusOr<Visitor> Worker::Identify(const rdma::ConnectionRequest& request) const {
  Visitor who;
  const rdma::PeerCredentials* const process = request.credentials();
  if (process != nullptr) who.process = *process;
  if (shared_.users == nullptr) {
    who.user.may_write = true;
    return who;
  }
  if (process == nullptr) {
    who.unproven = std::make_unique<Visitor::Unproven>();
    who.user.may_write = true;  // perhaps
    return who;
  }
  // A list that is replaced meanwhile ends with the last who holds it.
  const std::shared_ptr<const UserList> users = shared_.users->now();
  const User* const user = users->Of(*process);
  if (user == nullptr) {
    return absl::PermissionDeniedError(absl::StrCat("no user of the server's --users has the uid ", process->uid,
                                                    ", or one of the groups, of this ", "process"));
  }
  who.user = *user;
  return who;
}

// One client, if it is time: while others have requests, those who come and go get no more than their share.
size_t Worker::AdmitInTurn() {
  LookAtClock();
  const int64_t alone_ns = pull_turns_.empty() ? others_ns_ + kOthersNs : kNever;  // unless a request comes before
  const int64_t turn_ns = std::min(comings_.due_ns(), alone_ns);
  if (now_ns_ < turn_ns && !drain_.begun()) {
    arrivals_rest_ = true;
    due_ns_ = std::min(due_ns_, turn_ns);
    return 0;
  }
  Admit(mailbox_.Take());
  comings_.Took(now_ns_, shared_.clock->NowNs());
  return 1;
}

// They would else be told nothing of why, and take it for a refusal that is meant for them.
void Worker::TurnAwayTheRest() {
  while (!mailbox_.empty()) Admit(mailbox_.Take());
}

// Accepts a connection, which is still silent.
void Worker::Admit(Arrival arrival) {
  if (drain_.begun()) return Reject(arrival, kv::RefusalCode::kShuttingDown, kShuttingDownReason);
  absl::StatusOr<Visitor> who = Identify(*arrival.request);
  if (!who.ok()) return Reject(arrival, kv::RefusalCode::kNotAllowed, who.status().message());
  const bool watches = (arrival.connect.flags & kv::ConnectData::kWatch) != 0;
  if (shared_.serving != nullptr && !watches && !shared_.serving->now()) {
    const Serving::Told told = shared_.serving->told();
    if (!told.loss.empty()) return Reject(arrival, kv::RefusalCode::kGroupLost, told.loss);
    return Reject(arrival, kv::RefusalCode::kNotPrimary, told.primary);
  }
  std::string why;
  const bool returns = who->unproven != nullptr && Returns(arrival.connect.session);
  const bool counts = who->unproven != nullptr && !returns;
  if (counts && !HasRoomForUnproven()) {
    return Reject(arrival, kv::RefusalCode::kFull,
                  absl::StrCat("as many clients as may, of this worker's share of --max_clients, have yet to prove who "
                               "they are: ",
                               shared_.max_unproven()));
  }
  const bool operates = IsOperator(arrival.connect, *who) && shared_.places->TakeAsOperator();
  if (!operates && !admission_.Enter(arrival.connect.session, &why)) {
    return Reject(arrival, kv::RefusalCode::kFull, why);
  }
  const Port& port = ports_[static_cast<size_t>(arrival.port)];
  const bool may_write = who->user.may_write && (arrival.connect.flags & kv::ConnectData::kReadOnly) == 0;
  const bool cells = may_write && !watches && port.cells.rkey != 0;
  kv::AcceptData accept;
  accept.version = arrival.connect.version();
  accept.incarnation = shared_.incarnation;
  if (shared_.serving != nullptr) accept.flags |= kv::AcceptData::kGroup;
  const kv::ServerRange table = ToServerRange(arrival.request->Current(port.table));
  if (who->unproven != nullptr) {
    accept.flags |= kv::AcceptData::kAuthentication;
    who->unproven->table = table;
    arrival.request->WithholdReads();
  } else {
    accept.table = table;
  }
  const kv::ServerRange counters = cells ? ToServerRange(arrival.request->Current(port.cells)) : kv::ServerRange{};
  const std::array<uint32_t, 2> rkeys = {port.table.rkey, port.cells.rkey};
  auto connection =
      arrival.request->Accept(port.endpoint, accept.Encode(), absl::MakeConstSpan(rkeys).first(cells ? 2 : 1));
  if (!connection.ok()) {
    LeavePlace(operates);
    return NoRoomFor(arrival, connection.status());
  }
  auto link = std::make_unique<Link>(*std::move(connection), *std::move(who), shared_.roster, number_, now_ns_);
  link->watches = watches;
  link->operates = operates;
  link->counters = counters;
  if (returns) link->who.unproven->session = arrival.connect.session;
  link->counts_as_unproven = counts;
  if (counts) ++unproven_;
  link->due_ns = now_ns_ + (link->who.unproven != nullptr ? std::min(shared_.hello_timeout_ns, shared_.proof_timeout_ns)
                                                          : shared_.hello_timeout_ns);
  ExpectSoon(*link);
  links_.emplace(link.get(), std::move(link));
  stats_.accepted.Add();
  UpdateGauges();
}

// Whether it comes for an operator, as far as the kernel vouches for that: a process of root's, or of the server's own
// user, or where there are users of one with the role admin.
bool Worker::IsOperator(const kv::ConnectData& connect, const Visitor& who) const {
  static constexpr uint32_t kBoth = kv::ConnectData::kOperator | kv::ConnectData::kReadOnly;
  if ((connect.flags & kBoth) != kBoth || !who.process.has_value()) return false;
  if (shared_.users != nullptr) return who.user.admin;
  return who.process->uid == 0 || who.process->uid == geteuid();
}

void Worker::LeavePlace(bool operates) { operates ? shared_.places->GiveAsOperator() : admission_.Leave(); }

// Whether it means to go on with a session that is here. Its id is random, so who does not know it cannot hold places
// with it: such a client comes in beyond the bound, one at a time for each session.
bool Worker::Returns(uint64_t session) {
  if (session == 0 || admission_.FindSession(session) == nullptr) return false;
  return std::none_of(silent_.begin(), silent_.end(), [session](const Link* link) {
    return link->who.unproven != nullptr && link->who.unproven->session == session;
  });
}

// For one more that has yet to prove who it is. Where there are as many as may be, the one that has waited longest
// makes room, if it had the time that a proof takes: so whoever only holds places does not keep others out.
bool Worker::HasRoomForUnproven() {
  if (unproven_ < shared_.max_unproven()) return true;
  const int64_t timeout_ns = std::min(shared_.hello_timeout_ns, shared_.proof_timeout_ns);
  const auto had_time = [&](const Link* link) {
    return link->counts_as_unproven && (link->refused || link->due_ns - timeout_ns + kProofNs <= now_ns_);
  };
  const auto found = std::find_if(silent_.begin(), silent_.end(), had_time);
  if (found == silent_.end()) return false;
  stats_.silent_drops.Add();
  Drop(**found, "did not prove who it is before others came");
  return true;
}

void Worker::LeaveUnproven(Link& link) {
  if (std::exchange(link.counts_as_unproven, false)) --unproven_;
}

// Memory or descriptors are short, or the device failed.
void Worker::NoRoomFor(Arrival& arrival, const absl::Status& status) {
  load_.fetch_sub(1, std::memory_order_relaxed);
  uint64_t suppressed;
  if (reject_log_.Allow(now_ns_, &suppressed)) {
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

void Worker::Reject(Arrival& arrival, kv::RefusalCode code, absl::string_view reason) {
  uint64_t suppressed;
  // Clients of a group look for its primary.
  if (code != kv::RefusalCode::kNotPrimary && reject_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client rejected",
        {{"peer", arrival.request->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  stats_.rejected.Add();
  kv::RejectData data;
  data.code = code;
  data.text = std::string(reason);
  arrival.request->Reject(data.Encode(rdma::kMaxRejectBytes));
  arrival.request.reset();
  load_.fetch_sub(1, std::memory_order_relaxed);
}

// What a connection says before it is welcome.
void Worker::Greet(Link& link, absl::string_view message) {
  if (link.refused) return;
  if (link.predecessor != nullptr) return Drop(link, "spoke before it was welcome");
  if (link.is_watching) {
    return TakeOther(link, message, absl::InvalidArgumentError("came to watch, and asks for something"));
  }
  if (link.who.unproven != nullptr && !link.who.unproven->challenge.empty()) return CheckProof(link, message);
  if (!kv::IsFirstMessage(message, kv::FirstMessage::kHello)) return Drop(link, "another message before the hello");
  const absl::StatusOr<kv::Hello> hello = kv::Hello::Decode(message);
  if (!hello.ok()) {
    kv::Refusal refusal;
    refusal.code = kv::RefusalFor(hello.status());
    refusal.text = std::string(hello.status().message());
    return Refuse(link, std::move(refusal));
  }
  link.hello = *hello;
  if (link.who.unproven != nullptr) return Challenge(link, message);
  Restrict(link.who.user, &link.hello);
  Consider(link);
}

// It says who it is, and has to prove it.
void Worker::Challenge(Link& link, absl::string_view hello) {
  if (link.hello.user.empty() || link.hello.nonce == kv::Nonce{}) {
    return Refuse(link, NotAuthenticated("this server asks its clients who they are: give a user and its secret"));
  }
  kv::Challenge challenge;
  challenge.version = link.hello.version;
  challenge.nonce = kv::RandomNonce();
  link.who.unproven->hello = std::string(hello);
  link.who.unproven->challenge = challenge.Encode();
  Send(link, link.who.unproven->challenge, {});
}

// Of a user that does not exist, or has no secret, it takes as long and says the same.
void Worker::CheckProof(Link& link, absl::string_view message) {
  static constexpr absl::string_view kNobodysSecret = "what is computed with this is thrown away";
  const absl::StatusOr<kv::Proof> proof = kv::Proof::Decode(message);
  if (!proof.ok()) return Drop(link, proof.status().message());
  const std::shared_ptr<const UserList> users = shared_.users->now();
  const User* const user = users->Named(link.hello.user);
  const bool has_secret = user != nullptr && !user->secret.empty();
  const absl::string_view secret = has_secret ? absl::string_view(user->secret) : kNobodysSecret;
  const std::string address = link.connection->server_address();
  const kv::Transcript transcript = {link.who.unproven->hello, link.who.unproven->challenge, shared_.incarnation,
                                     address};
  const bool same = kv::SameMac(proof->mac, kv::ClientProof(secret, transcript));
  if (!same || !has_secret) {
    stats_.failed_proofs.Add();
    return Refuse(link, NotAuthenticated(absl::StrCat("the server knows no user ", link.hello.user,
                                                      " with this secret, or at this address")));
  }
  link.who.user = *user;
  link.who.proof = kv::ServerProof(secret, transcript);
  link.who.granted = link.who.unproven->table;
  link.who.unproven.reset();
  LeaveUnproven(link);
  Restrict(link.who.user, &link.hello);
  Consider(link);
}

void Worker::Consider(Link& link) {
  if (drain_.begun()) return Refuse(link, ShuttingDown());
  if (link.watches) return WelcomeWatcher(link);
  Admission::Decision decision = admission_.Decide(link.hello, now_ns_);
  if (!decision.lost.empty()) {
    stats_.refused_resumptions.Add();
    Log(LogLevel::kDebug, "client gets a new session", {{"peer", link.connection->peer()}, {"why", decision.lost}});
  }
  if (decision.session == nullptr) return Refuse(link, std::move(decision.refusal));
  if (decision.must_wait) return WaitForPredecessor(link, *decision.session->link);
  Welcome(link, decision.session, decision.resumed);
}

// In the place of a connection that may not know yet that it is dead.
void Worker::WaitForPredecessor(Link& link, Link& old) {
  if (old.successor != nullptr) {
    old.successor->predecessor = nullptr;
    Drop(*old.successor, "a later connection goes on with its session");
  }
  old.successor = &link;
  link.predecessor = &old;
  std::erase(silent_, &link);
  Close(old);
}

void Worker::Welcome(Link& link, Session* session, bool resumed) {
  std::erase(silent_, &link);
  link.session = session;
  session->link = &link;
  link.pulls = std::make_unique<PullQueue>(shared_.table, shared_.locks, shared_.clock, shared_.time, &stats_,
                                           link.connection.get(), shared_.gate);
  link.pulls->SetSession(session->id());
  kv::Welcome welcome = admission_.WelcomeFor(*session, resumed, link.counters, now_ns_);
  if (touches_.wanted()) welcome.sample = touches_.sample();
  welcome.figures_ms = figures_.interval_ms();
  welcome.gets = uint32_t{kv::kMaxGets};
  welcome.puts = uint32_t{kv::kMaxPuts};
  if (shared_.serving != nullptr) {
    Serving::Told told = shared_.serving->told();
    welcome.members = std::move(told.members);
    welcome.cluster = std::move(told.cluster);
    welcome.group_epoch = told.epoch;
    welcome.lease_us = told.lease_us;
    welcome.slots = told.slots;
  }
  link.welcome_ns = now_ns_;
  times_.Welcome(session->window(), &link.open);
  link.has_cells_key = welcome.counters.rkey != 0;
  if (!GrantTable(link, &welcome)) return;
  const absl::string_view writes = session->read_only() ? "read" : "write";
  link.entry->Welcome(link.who.user.name, link.who.user.admin ? absl::StrCat(writes, ",admin") : writes);
  Send(link, welcome.Encode(), {});
  Log(LogLevel::kDebug, "client connected",
      {{"peer", link.connection->peer()},
       {"user", link.who.user.name},
       {"session", absl::Hex(session->id())},
       {"epoch", session->epoch()}});
  if (resumed) stats_.resumed.Add();
  UpdateGauges();
}

// Of one that READs the epoch word of this member, and nothing else: it has no session.
void Worker::WelcomeWatcher(Link& link) {
  std::erase(silent_, &link);
  link.is_watching = true;
  kv::Welcome welcome;
  welcome.flags = kv::Welcome::kReadOnly;
  welcome.session = kWatchersSession;
  welcome.window = 1;
  welcome.time_us = shared_.time.At(now_ns_);
  if (!GrantTable(link, &welcome)) return;
  link.entry->Welcome(link.who.user.name, "watch");
  Send(link, welcome.Encode(), {});
}

// To one who has proved who it is. False: its connection is of no use.
bool Worker::GrantTable(Link& link, kv::Welcome* welcome) {
  if (link.who.granted.rkey == 0) return true;  // the accept told it
  welcome->table = link.who.granted;
  welcome->proof = link.who.proof;
  const absl::Status status = link.connection->Grant(link.has_cells_key);
  if (!status.ok()) Drop(link, status.message());
  return status.ok();
}

// Tells it why, and leaves it some time to read that.
void Worker::Refuse(Link& link, kv::Refusal refusal) {
  uint64_t suppressed;
  if (reject_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client refused",
        {{"peer", link.connection->peer()}, {"reason", refusal.text}, {"suppressed", suppressed}});
  }
  stats_.refused.Add();
  Send(link, refusal.Encode(), {});
  link.refused = true;
  link.due_ns = now_ns_ + kRefusalLingerNs;
  std::erase(silent_, &link);
  ExpectSoon(link);
}

}  // namespace farlook::server
