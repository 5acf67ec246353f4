// The handshake of admitted clients, and the ends of those that must not stay. How clients are admitted: door_admit.cc.
#include "server/worker/door.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kv/wire/gets.h"
#include "kv/wire/proof.h"
#include "kv/wire/puts.h"
#include "server/executor/pull_queue.h"

namespace farlook::server {
namespace {

// Time for a refused client to read the reason and to disconnect by itself.
constexpr int64_t kRefusalLingerNs = 100'000'000;
// No session has this id, and a Welcome must name one.
constexpr uint64_t kWatchersSession = ~uint64_t{0};

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

// Restricts what a client asks for to what its user may do.
void Restrict(const User& user, kv::Hello* hello) {
  hello->user = user.name;
  if (!user.may_write) hello->flags |= kv::Hello::kReadOnly;
}

// Returns the account on which the session is kept when its connection breaks.
Session::Account AccountOf(const Link& link, const Users* users) {
  Session::Account account;
  if (link.who.process.has_value()) {
    account.user = absl::StrCat("uid ", link.who.process->uid);
    account.peer = absl::StrCat("pid ", link.who.process->pid);
  } else {
    const std::string peer = link.connection->peer();
    account.user = account.peer = peer.substr(0, peer.rfind(':'));  // the host
  }
  if (users != nullptr) account.user = link.who.user.name;
  return account;
}

}  // namespace

// --- The handshake ---

bool Door::Greet(Link& link, absl::string_view message) {
  LinkCloser& closer = *context_.closer;
  if (link.refused) return true;
  if (link.predecessor != nullptr) {
    closer.Drop(link, "sent a message before its Welcome");
    return true;
  }
  if (link.is_watching) return false;
  if (link.who.unproven != nullptr && !link.who.unproven->challenge.empty()) {
    CheckProof(link, message);
    return true;
  }
  if (!kv::IsFirstMessage(message, kv::FirstMessage::kHello)) {
    closer.Drop(link, "another message before the hello");
    return true;
  }
  const absl::StatusOr<kv::Hello> hello = kv::Hello::Decode(message);
  if (!hello.ok()) {
    kv::Refusal refusal;
    refusal.code = kv::RefusalFor(hello.status());
    refusal.text = std::string(hello.status().message());
    Refuse(link, std::move(refusal));
    return true;
  }
  link.hello = *hello;
  if (link.who.unproven != nullptr) {
    Challenge(link, message);
  } else {
    Restrict(link.who.user, &link.hello);
    Consider(link);
  }
  return true;
}

// The client names its user, and has to prove that it knows the user's secret.
void Door::Challenge(Link& link, absl::string_view hello) {
  if (link.hello.user.empty() || link.hello.nonce == kv::Nonce{}) {
    return Refuse(link, NotAuthenticated("the server requires authentication: give a user and its secret"));
  }
  kv::Challenge challenge;
  challenge.version = link.hello.version;
  challenge.nonce = kv::RandomNonce();
  link.who.unproven->hello = std::string(hello);
  link.who.unproven->challenge = challenge.Encode();
  outbox_.Send(link, link.who.unproven->challenge, {});
}

// For a user that does not exist, or has no secret, it takes as long and the answer is the same.
void Door::CheckProof(Link& link, absl::string_view message) {
  static constexpr absl::string_view kNobodysSecret = "what is computed with this is thrown away";
  const Shared& shared = context_.shared;
  const absl::StatusOr<kv::Proof> proof = kv::Proof::Decode(message);
  if (!proof.ok()) return context_.closer->Drop(link, proof.status().message());
  const std::shared_ptr<const UserList> users = shared.users->now();
  const User* const user = users->Named(link.hello.user);
  const bool has_secret = user != nullptr && !user->secret.empty();
  const absl::string_view secret = has_secret ? absl::string_view(user->secret) : kNobodysSecret;
  const std::string address = link.connection->server_address();
  const kv::Transcript transcript = {link.who.unproven->hello, link.who.unproven->challenge, shared.incarnation,
                                     address};
  const bool same = kv::SameMac(proof->mac, kv::ClientProof(secret, transcript));
  if (!same || !has_secret) {
    context_.stats.failed_proofs.Add();
    return Refuse(link,
                  NotAuthenticated(absl::StrCat("unknown user ", link.hello.user, " or wrong secret or address")));
  }
  link.who.user = *user;
  link.who.proof = kv::ServerProof(secret, transcript);
  link.who.granted = link.who.unproven->table;
  link.who.unproven.reset();
  LeaveUnproven(link);
  Restrict(link.who.user, &link.hello);
  Consider(link);
}

// Decides about a client that is known: it is welcome, waits for its session's former connection, or is refused.
void Door::Consider(Link& link) {
  if (context_.drain.begun()) return Refuse(link, ShuttingDown());
  if (link.watches) return WelcomeWatcher(link);
  Admission::Decision decision = admission_.Decide(link.hello, context_.now_ns);
  if (!decision.lost.empty()) {
    context_.stats.refused_resumptions.Add();
    Log(LogLevel::kDebug, "client gets a new session", {{"peer", link.connection->peer()}, {"why", decision.lost}});
  }
  if (decision.must_wait) return WaitForPredecessor(link, *decision.session->link);
  Welcome(link, decision.session, decision.resumed);
}

// Closes the former connection, which may not know yet that it is dead.
void Door::WaitForPredecessor(Link& link, Link& old) {
  if (old.successor != nullptr) {
    old.successor->predecessor = nullptr;
    context_.closer->Drop(*old.successor, "a later connection resumed its session");
  }
  old.successor = &link;
  link.predecessor = &old;
  silent_.Remove(&link);
  context_.closer->Close(old);
}

void Door::Welcome(Link& link, Session* session, bool resumed) {
  const Shared& shared = context_.shared;
  silent_.Remove(&link);
  link.session = session;
  session->link = &link;
  session->account = AccountOf(link, context_.shared.users);
  link.pulls = std::make_unique<PullQueue>(shared.table, shared.locks, shared.clock, shared.time, &context_.stats,
                                           link.connection.get(), shared.gate);
  link.pulls->SetSession(session->id());
  kv::Welcome welcome = admission_.WelcomeFor(*session, resumed, link.cells.range, context_.now_ns);
  if (context_.hits.wanted()) welcome.sample = context_.hits.sample();
  welcome.figures_ms = context_.figures.interval_ms();
  welcome.gets = uint32_t{kv::kMaxGets};
  welcome.puts = uint32_t{kv::kMaxPuts};
  if (shared.serving != nullptr) {
    Serving::Announcement announced = shared.serving->announced();
    welcome.members = std::move(announced.members);
    welcome.cluster = std::move(announced.cluster);
    welcome.group_epoch = announced.epoch;
    welcome.lease_us = announced.lease_us;
    welcome.history = announced.history;
    welcome.slots = announced.slots;
  }
  link.welcome_ns = context_.now_ns;
  outbox_.times().Welcome(session->window(), &link.open);
  link.cells.has_key = welcome.counters.rkey != 0;
  if (!GrantTable(link, &welcome)) return;
  const absl::string_view writes = session->read_only() ? "read" : "write";
  link.entry->Welcome(link.who.user.name, link.who.user.admin ? absl::StrCat(writes, ",admin") : writes);
  outbox_.Send(link, welcome.Encode(), {});
  Log(LogLevel::kDebug, "client connected",
      {{"peer", link.connection->peer()},
       {"user", link.who.user.name},
       {"session", absl::Hex(session->id())},
       {"epoch", session->epoch()}});
  if (resumed) context_.stats.resumed.Add();
  UpdateGauges();
}

// Welcomes a client that only READs the epoch word of this member: it has no session.
void Door::WelcomeWatcher(Link& link) {
  silent_.Remove(&link);
  link.is_watching = true;
  kv::Welcome welcome;
  welcome.flags = kv::Welcome::kReadOnly;
  welcome.session = kWatchersSession;
  welcome.window = 1;
  welcome.time_us = context_.shared.time.At(context_.now_ns);
  if (!GrantTable(link, &welcome)) return;
  link.entry->Welcome(link.who.user.name, "watch");
  outbox_.Send(link, welcome.Encode(), {});
}

// Grants READs of the table to a client that was authenticated by proof; other clients got them at the accept. Returns
// false if the connection was dropped.
bool Door::GrantTable(Link& link, kv::Welcome* welcome) {
  if (link.who.granted.rkey == 0) return true;
  welcome->table = link.who.granted;
  welcome->proof = link.who.proof;
  const absl::Status status = link.connection->Grant(link.cells.has_key);
  if (!status.ok()) context_.closer->Drop(link, status.message());
  return status.ok();
}

void Door::Refuse(Link& link, kv::Refusal refusal) {
  uint64_t suppressed;
  if (reject_log_.Allow(context_.now_ns, &suppressed)) {
    Log(LogLevel::kWarning, "client refused",
        {{"peer", link.connection->peer()}, {"reason", refusal.text}, {"suppressed", suppressed}});
  }
  context_.stats.refused.Add();
  outbox_.Send(link, refusal.Encode(), {});
  link.refused = true;
  link.due_ns = context_.now_ns + kRefusalLingerNs;
  silent_.Remove(&link);
  CloseAtDueTime(link);
}

// --- Ends ---

// Closes it at its due_ns, unless it is taken from silent_ before.
void Door::CloseAtDueTime(Link& link) {
  silent_.Add(&link);
  silent_due_ns_ = std::min(silent_due_ns_, link.due_ns);
}

size_t Door::CloseDue(int64_t looked_ns) {
  context_.ReadClock();
  std::vector<Link*> late;
  silent_due_ns_ = WorkerContext::kNever;
  for (Link* link = silent_.front(); link != nullptr; link = silent_.Next(link)) {
    if (link->due_ns <= looked_ns) {
      late.push_back(link);
    } else {
      silent_due_ns_ = std::min(silent_due_ns_, link->due_ns);
    }
  }
  for (Link* link : late) {
    silent_.Remove(link);
    if (link->refused) {
      context_.closer->Close(*link);
      continue;
    }
    context_.stats.silent_drops.Add();
    context_.closer->Drop(*link, link->who.unproven != nullptr && !link->who.unproven->challenge.empty()
                                     ? "did not authenticate in time"
                                     : "sent no hello in time");
  }
  context_.WakeBy(silent_due_ns_);
  return late.size();
}

size_t Door::DropRevoked() {
  context_.ReadClock();
  users_seen_ = context_.shared.users->generation();
  const std::shared_ptr<const UserList> users = context_.shared.users->now();
  std::vector<Link*> revoked;
  for (auto& [link, owned] : links_) {
    if (link->closing || link->refused || link->who.unproven != nullptr) continue;
    const User* const user =
        link->who.process.has_value() ? users->Of(*link->who.process) : users->Named(link->who.user.name);
    if (user == nullptr || *user != link->who.user) revoked.push_back(link);
  }
  for (Link* link : revoked) {
    context_.closer->Drop(*link, "its user was revoked, or its roles or secret changed");
  }
  return revoked.size();
}

size_t Door::DropKicked() {
  context_.ReadClock();
  kicks_seen_ = context_.shared.connections->kicks();
  std::vector<Link*> kicked;
  for (auto& [link, owned] : links_) {
    if (link->entry->kicked() && !link->closing) kicked.push_back(link);
  }
  for (Link* link : kicked) context_.closer->Drop(*link, "an operator ended its connection");
  return kicked.size();
}

void Door::LeaveUnproven(Link& link) {
  if (std::exchange(link.counts_as_unproven, false)) --unproven_;
}

void Door::StopWaiting(Link& link) {
  LeaveUnproven(link);
  probes_.Remove(&link);
  silent_.Remove(&link);
  if (link.predecessor != nullptr) {  // it will not be welcome when that one has drained
    link.predecessor->successor = nullptr;
    link.predecessor = nullptr;
  }
}

void Door::Destroy(Link* link, bool leaves_place) {
  const Place place = link->place;
  links_.erase(link);  // destroys the queue pair: nothing of its can arrive
  if (leaves_place) LeavePlace(place);
  load_.fetch_sub(1, std::memory_order_relaxed);
}

void Door::Part(Session* session, Link* successor) {
  const bool has_ended = session->has_goodbye();
  session->link = nullptr;
  if (successor != nullptr && !has_ended) {
    successor->predecessor = nullptr;
    Consider(*successor);
  }
  if (session->link == nullptr) admission_.Ended(session, context_.now_ns);
  if (successor != nullptr && has_ended) {
    successor->predecessor = nullptr;
    successor->hello.session = 0;  // a session that said goodbye cannot be resumed
    Consider(*successor);
  }
}

void Door::UpdateGauges() {
  WorkerStats& stats = context_.stats;
  stats.connections.Set(links_.size());
  stats.sessions.Set(admission_.sessions().size());
  stats.kept_sessions.Set(admission_.sessions().kept());
}

}  // namespace farlook::server
