// How a worker's connections end: who is silent, revoked, kicked, gone; and what operators ask for.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/worker.h"

namespace farlook::server {

// Closes it at its due_ns, unless it is taken from silent_ before.
void Worker::ExpectSoon(Link& link) {
  silent_.push_back(&link);
  silent_due_ns_ = std::min(silent_due_ns_, link.due_ns);
}

// Closes those who had their time; returns how many.
size_t Worker::CloseSilent(int64_t looked_ns) {
  LookAtClock();
  std::vector<Link*> late;
  silent_due_ns_ = kNever;
  for (Link* link : silent_) {
    if (link->due_ns <= looked_ns) {
      late.push_back(link);
    } else {
      silent_due_ns_ = std::min(silent_due_ns_, link->due_ns);
    }
  }
  for (Link* link : late) {
    std::erase(silent_, link);
    if (link->refused) {
      Close(*link);
      continue;
    }
    stats_.silent_drops.Add();
    Drop(*link, link->who.unproven != nullptr && !link->who.unproven->challenge.empty()
                    ? "did not prove in time who it is"
                    : "said no hello in time");
  }
  return late.size();
}

// Closes the connections of users who are not what they were; returns how many.
size_t Worker::DropRevoked() {
  LookAtClock();
  users_seen_ = shared_.users->generation();
  const std::shared_ptr<const UserList> users = shared_.users->now();
  std::vector<Link*> revoked;
  for (auto& [link, owned] : links_) {
    if (link->closing || link->refused || link->who.unproven != nullptr) continue;
    const User* const user =
        link->who.process.has_value() ? users->Of(*link->who.process) : users->Named(link->who.user.name);
    if (user == nullptr || *user != link->who.user) revoked.push_back(link);
  }
  for (Link* link : revoked) Drop(*link, "its user was revoked, or has other roles or another secret now");
  return revoked.size();
}

// What operators ask for. Where there are users, only who has the role admin is answered.
Outcome Worker::Administer(const Link& link, const kv::Request& request, absl::string_view* payload) {
  if (shared_.roster == nullptr) return Outcome(kv::Code::kUnsupported);
  if (shared_.users != nullptr && !link.who.user.admin) return Outcome(kv::Code::kNotAllowed);
  absl::string_view what = request.key;
  if (shared_.cluster && absl::ConsumePrefix(&what, "cluster ")) {
    page_ = shared_.cluster(what);
    *payload = page_;
    return Outcome(page_.empty() ? kv::Code::kUnsupported : kv::Code::kOk);
  }
  uint64_t id = 0;
  if (absl::ConsumePrefix(&what, "clients@") && absl::SimpleAtoi(what, &id)) {
    uint64_t left = 0;
    page_ = shared_.roster->List(id, kv::kMaxReplyPayloadBytes, now_ns_, &left);
    *payload = page_;
    return Outcome(kv::Code::kOk, left);
  }
  if (!absl::ConsumePrefix(&what, "kick ") || !absl::SimpleAtoi(what, &id)) return Outcome(kv::Code::kUnsupported);
  return Kick(link, id, payload);
}

Outcome Worker::Kick(const Link& link, uint64_t id, absl::string_view* payload) {
  const Roster::Kick kick = shared_.roster->KickOut(id);
  if (kick == Roster::Kick::kAbsent) return Outcome(kv::Code::kNotFound);
  if (kick == Roster::Kick::kGone) return Outcome(kv::Code::kOk);
  if (kick == Roster::Kick::kRefused) {
    page_ =
        absl::StrCat("refused: ", shared_.places->max(), " clients that were stopped within atomics are kicked, as ",
                     "many as --max_clients, and not gone: end the processes of these first");
    *payload = page_;
    return Outcome(kv::Code::kOk);
  }
  // Each is logged: only operators do that, and somebody is to answer for it.
  Log(LogLevel::kInfo,
      kick == Roster::Kick::kVacated ? "operator gives the place of a client within an atomic to others"
                                     : "operator kicks a client",
      {{"peer", link.connection->peer()}, {"user", link.who.user.name}, {"id", id}});
  if (shared_.wake_workers) shared_.wake_workers();
  return Outcome(kv::Code::kOk);
}

size_t Worker::DropKicked() {
  LookAtClock();
  kicks_seen_ = shared_.roster->kicks();
  std::vector<Link*> kicked;
  for (auto& [link, owned] : links_) {
    if (link->entry->kicked() && !link->closing) kicked.push_back(link);
  }
  for (Link* link : kicked) Drop(*link, "an operator ended its connection");
  return kicked.size();
}

// --- Letting them go ---

void Worker::Drop(Link& link, absl::string_view reason) {
  if (link.closing) return;
  uint64_t suppressed;
  if (drop_log_.Allow(now_ns_, &suppressed)) {
    Log(LogLevel::kWarning, "client dropped",
        {{"peer", link.connection->peer()}, {"reason", reason}, {"suppressed", suppressed}});
  }
  stats_.dropped.Add();
  Close(link);
}

// Ends a connection. What it had queued is discarded; its numbers that were claimed and not executed are released,
// those of pulls as their READs complete.
void Worker::Close(Link& link) {
  if (link.closing) return;
  link.closing = true;
  link.entry->Set(Roster::State::kClosing);
  LeaveUnproven(link);
  std::erase(silent_, &link);
  if (link.predecessor != nullptr) {  // it will not be welcome when that one has drained
    link.predecessor->successor = nullptr;
    link.predecessor = nullptr;
  }
  Discard(link);
  link.connection->Disconnect();
}

void Worker::Discard(Link& link) {
  link.replies.Clear();
  if (link.welcome()) {
    for (const uint64_t number : link.held.Clear()) link.session->Release(number);
    for (const uint64_t number : link.room.Clear()) link.session->Release(number);
    link.pulls->Close();
    AnswerEndedPulls(link);
    room_turns_.Remove(&link);
  }
  Balance(link);
}

void Worker::OnDisconnected(Link& link) {
  link.closing = true;
  LeaveUnproven(link);
  Discard(link);
  Log(LogLevel::kDebug, "client disconnected",
      {{"peer", link.connection->peer()},
       {"session", absl::Hex(link.welcome() ? link.session->id() : 0)},
       {"reason", link.connection->status().message()}});
  Session* const session = link.session;
  Link* const successor = link.successor;
  if (session != nullptr) {
    link.pulls->OnDisconnected();
    AnswerEndedPulls(link);
    link.pulls.reset();
  }
  if (link.predecessor != nullptr) link.predecessor->successor = nullptr;
  std::erase(unrung_, &link);
  if (link.pulling) std::erase(pull_turns_, &link);
  if (link.stuck) std::erase(stuck_, &link);
  looks_due_ = std::min(looks_due_, stuck_.size());  // looks at nobody would keep the worker awake
  room_turns_.Remove(&link);
  std::erase(silent_, &link);
  if (shared_.gate != nullptr) ForgetInGroup(link);
  if (link.told != nullptr) figures_.Forget(link.told.get());
  const bool operates = link.operates;
  const bool gone = counter_links_ == nullptr || counter_links_->Closed(link, now_ns_);
  links_.erase(&link);  // destroys the queue pair: nothing of its can arrive
  if (gone) LeavePlace(operates);
  load_.fetch_sub(1, std::memory_order_relaxed);
  if (session != nullptr) Part(session, successor);
  if (shared_.client_gone) shared_.client_gone();
  UpdateGauges();
}

// The session goes on over the successor, if there is one.
void Worker::Part(Session* session, Link* successor) {
  const bool over = session->said_goodbye();
  session->link = nullptr;
  if (successor != nullptr && !over) {
    successor->predecessor = nullptr;
    Consider(*successor);
  }
  if (session->link == nullptr) admission_.Ended(session, now_ns_);
  if (successor != nullptr && over) {
    successor->predecessor = nullptr;
    successor->hello.session = 0;  // what was bidden goodbye is not gone on with
    Consider(*successor);
  }
}

void Worker::UpdateGauges() {
  stats_.connections.Set(links_.size());
  if (counter_links_ != nullptr) stats_.clients_within_atomics.Set(counter_links_->within_atomics());
  stats_.waiting_for_room.Set(room_turns_.size());
  stats_.sessions.Set(admission_.sessions().size());
  stats_.kept_sessions.Set(admission_.sessions().kept());
}

// Returns whether anything moved.
bool Worker::AdvanceDrain(bool idle) {
  LookAtClock();
  due_ns_ = std::min(due_ns_, now_ns_ + Drain::kPollNs);
  const bool changed = drain_.Advance(now_ns_, {idle, !links_.empty(), Unfinished() || !room_turns_.empty()});
  if (changed && drain_.disconnects()) {
    for (auto& [link, owned] : links_) Close(*link);
  }
  return changed;
}

}  // namespace farlook::server
