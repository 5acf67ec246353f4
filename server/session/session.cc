#include "server/session/session.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace farlook::server {
namespace {

constexpr uint64_t kMaxAcknowledged = uint64_t{1} << 62;  // far from where numbers would wrap

}  // namespace

Session::Session(uint64_t id, bool read_only, uint32_t window, absl::string_view user)
    : id_(id),
      read_only_(read_only),
      window_(window),
      user_(user),
      mask_(std::bit_ceil(uint64_t{window}) - 1),
      ring_(mask_ + 1) {}

Session::Claim Session::BeginOther(uint64_t number, kv::RequestType type) {
  confirmed_epoch_ = epoch_;
  if (number == 0 || number > floor_ + window_) return Claim::kImpossible;
  if (number + window_ <= highest_) return Claim::kForgotten;
  if (restored_ != nullptr) [[unlikely]]
    PassOver(number);
  Entry& entry = at(number);
  if (entry.number == number && entry.state != State::kFree) {
    // A repeated request with another type breaks the protocol. An answer of the former primary is kept without its
    // type.
    if (entry.type != type && entry.state != State::kRecalled) return Claim::kImpossible;
    if (entry.state == State::kUnderWay) return Claim::kUnderWay;
    if (entry.state == State::kRecalled) entry.type = type;  // determines how its answer is encoded
    if (!IsWrite(type)) entry.state = State::kUnderWay;      // a read is executed again, but not twice at a time
    return IsWrite(type) ? Claim::kAnswered : Claim::kExecute;
  }
  Take(&entry, number, type);
  highest_ = std::max(highest_, number);
  return Claim::kExecute;
}

Outcome Session::Remembered(uint64_t number) const {
  const Entry& entry = at(number);
  Outcome outcome;
  outcome.code = entry.code;
  if (kv::IsCounterRequest(entry.type)) {
    outcome.counter.value = static_cast<int64_t>(entry.version);
  } else {
    outcome.version = entry.version;
    outcome.slot = entry.slot;
  }
  return outcome;
}

// A client repeats its unanswered requests in the order of their numbers, before all new ones (Session::Repeat() in
// client/writes/session.cc). So it has the former primary's answer to each number that it leaves out, and will never
// send it.
void Session::PassOver(uint64_t number) {
  for (uint64_t n = std::max(restored_->OnRequest(number), floor_) + 1; n < number; ++n) {
    Entry& entry = at(n);
    if (entry.number == n && entry.state != State::kFree) continue;
    entry = Entry();
    entry.number = n;
    entry.state = State::kAnswered;
    highest_ = std::max(highest_, n);
  }
  RaiseFloor();
}

void Session::Release(uint64_t number) { at(number).state = State::kFree; }

// A number without a remembered answer was a read, or was not executed: it is executed when it is sent again. Where
// some answers were forgotten, such a request may have been executed.
void Session::Recall(const ReplyCache::Of& cached) {
  wrote_ = true;
  restored_ = std::make_unique<RestoredSession>();
  epoch_ = confirmed_epoch_ = cached.epoch;
  if (!cached.replies.empty()) highest_ = cached.replies.back().number;
  const uint64_t first = highest_ - std::min<uint64_t>(highest_, window_) + 1;
  const auto recall = [this](const ReplyCache::Reply& one) {
    Entry& entry = at(one.number);
    entry.number = one.number;
    entry.version = one.result;
    entry.code = one.code;
    entry.state = State::kRecalled;
  };
  for (uint64_t number = first; number <= std::min(highest_, cached.unknown_up_to); ++number) {
    recall({.number = number, .code = kv::Code::kOutcomeUnknown});
  }
  for (const ReplyCache::Reply& one : cached.replies) {
    if (one.number >= first) recall(one);
  }
}

bool Session::Admits(const kv::Hello& hello, absl::string_view* why) const {
  // After a failover the exact epoch is unknown, and so are the answers that the client has: see RestoredSession.
  const bool awaits_client = restored_ != nullptr && restored_->awaits_client();
  if (hello.epoch < confirmed_epoch_ || (!awaits_client && hello.epoch > epoch_)) {
    *why = "the session has another epoch";
  } else if (((hello.flags & kv::Hello::kReadOnly) != 0) != read_only_) {
    *why = "the session was opened with other rights";
  } else if (hello.user != user_) {
    *why = "the session is another user's";
  } else if (hello.acknowledged > (restored_ != nullptr ? kMaxAcknowledged : floor_)) {
    *why = "the client claims replies that the session never gave";
  } else {
    return true;
  }
  return false;
}

void Session::Resume(const kv::Hello& hello) {
  if (restored_ != nullptr) {
    if (restored_->awaits_client()) epoch_ = hello.epoch;
    floor_ = std::max(floor_, hello.acknowledged);
    restored_->OnResume(floor_);
    highest_ = std::max(highest_, floor_);
    RaiseFloor();  // raises it over the answers remembered here, which the client may acknowledge when it reconnects
  }
  confirmed_epoch_ = hello.epoch;
  ++epoch_;
}

SessionTable::SessionTable(SessionOptions options)
    : options_(std::move(options)), lost_more_(options_.follows_others) {}

Session* SessionTable::Create(bool read_only, absl::string_view user) {
  uint64_t id;
  do {
    id = options_.random() / kMaxWorkers * kMaxWorkers + static_cast<uint64_t>(options_.worker);
  } while (id == 0 || sessions_.contains(id) || lost_.contains(id));  // 0 means "none" in a Hello
  auto session = std::make_unique<Session>(id, read_only, options_.window, user);
  session->account.user = std::string(user);
  Session* raw = session.get();
  sessions_.emplace(id, std::move(session));
  return raw;
}

Session* SessionTable::FindResumable(const kv::Hello& hello, int64_t now_ns, absl::string_view* why) {
  EvictExpired(now_ns);
  const bool is_known = hello.incarnation == options_.incarnation || hello.incarnation == former_incarnation_;
  if (!is_known || hello.incarnation == 0) {
    *why = "the session belongs to another incarnation of the table";
    return nullptr;
  }
  const auto found = sessions_.find(hello.session);
  if (found != sessions_.end()) return found->second->Admits(hello, why) ? found->second.get() : nullptr;
  Session* revived = Revive(hello);
  if (revived == nullptr) *why = "the session is unknown or was forgotten";
  return revived;
}

// Returns a new session for an unknown one, which wrote nothing if no session that wrote was lost. It has another id: a
// client that knows an id, but not the epoch, must not get the session of a client that reconnects later.
Session* SessionTable::Revive(const kv::Hello& hello) {
  if (OwnerOf(hello.session) != options_.worker || lost_more_ || lost_.contains(hello.session)) return nullptr;
  if (hello.acknowledged > kMaxAcknowledged) return nullptr;
  Session* session = Create((hello.flags & kv::Hello::kReadOnly) != 0, hello.user);
  session->epoch_ = session->confirmed_epoch_ = hello.epoch;
  session->floor_ = session->highest_ = hello.acknowledged;
  return session;
}

bool SessionTable::Report(OutcomesToReport* rest, OutcomesListener* listener) const {
  if (!rest->begun) {
    rest->begun = true;
    for (const auto& [id, session] : sessions_) {
      if (session->wrote()) rest->sessions.push_back(id);
    }
    rest->lost.assign(lost_.begin(), lost_.end());
    rest->lost_more = lost_more_;
  }
  for (; !rest->sessions.empty(); rest->sessions.pop_back(), rest->passed = 0, rest->is_introduced = false) {
    const auto found = sessions_.find(rest->sessions.back());
    if (found != sessions_.end() && !ReportOne(*found->second, rest, listener)) return false;
  }
  for (; !rest->lost.empty(); rest->lost.pop_back()) {
    if (!listener->ReportLost(rest->lost.back())) return false;
  }
  return !rest->lost_more || listener->ReportLost(0);
}

bool SessionTable::ReportOne(const Session& session, OutcomesToReport* rest, OutcomesListener* listener) {
  if (!rest->is_introduced && !listener->Introduce(session)) return false;
  rest->is_introduced = true;
  const uint64_t first = session.highest_ - std::min<uint64_t>(session.highest_, session.window_) + 1;
  for (uint64_t number = std::max(first, rest->passed + 1); number <= session.highest_; ++number) {
    const Session::Entry& entry = session.at(number);
    const bool replied =
        entry.state == Session::State::kRecalled || (entry.state == Session::State::kAnswered && IsWrite(entry.type));
    if (entry.number == number && replied && !listener->Report(session, number, session.Remembered(number)))
      return false;
    rest->passed = number;
  }
  return true;
}

void SessionTable::Restore(uint64_t incarnation, const ReplyCache& outcomes, int64_t now_ns) {
  former_incarnation_ = incarnation;
  lost_more_ = lost_more_ || outcomes.forgot_more();
  for (const auto& [id, highest] : outcomes.forgotten()) {
    if (OwnerOf(id) == options_.worker) Lose(id);
  }
  // A backup does not know which of these clients are gone. So it keeps those with the latest records, and only as many
  // as leave room for new ones.
  std::vector<const ReplyCache::Of*> kept;
  std::map<absl::string_view, size_t> of_user;
  for (auto cached = outcomes.sessions().rbegin(); cached != outcomes.sessions().rend(); ++cached) {
    if (OwnerOf(cached->session) != options_.worker) continue;
    const bool has_room =
        kept.size() < std::max<size_t>(1, options_.max_kept / 2) &&
        (cached->user.empty() || of_user[cached->user] < std::max<size_t>(1, options_.max_kept_each / 2));
    if (!cached->is_known || !has_room) {
      Lose(cached->session);
      continue;
    }
    kept.push_back(&*cached);
    if (!cached->user.empty()) ++of_user[cached->user];
  }
  for (; !kept.empty(); kept.pop_back()) {
    const ReplyCache::Of& cached = *kept.back();
    auto session = std::make_unique<Session>(cached.session, /*read_only=*/false, options_.window, cached.user);
    session->account.user = cached.user;
    session->Recall(cached);
    Session* const raw = session.get();
    if (sessions_.emplace(cached.session, std::move(session)).second) Detach(raw, now_ns);
  }
}

void SessionTable::Attach(Session* session) {
  if (session->kept_since_ns_ == 0) return;
  kept_.erase(session->kept_place_);
  Forget(*session);
  session->kept_since_ns_ = 0;
}

void SessionTable::Detach(Session* session, int64_t now_ns) {
  session->link = nullptr;
  EvictExpired(now_ns);
  const bool matters = session->wrote() && !session->has_goodbye();
  if (matters && options_.max_kept > 0) {
    session->kept_since_ns_ = std::max<int64_t>(now_ns, 1);
    session->kept_place_ = kept_.insert(kept_.end(), session);
    KeptOf& kept_of = kept_of_[session->account.user];
    ++kept_of.count;
    ++kept_of.of_peer[session->account.peer];
    return EvictExcess(*session);
  }
  if (matters) return Lose(session->id());
  sessions_.erase(session->id());
}

bool SessionTable::attached(uint64_t id) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && found->second->kept_since_ns_ == 0;
}

// Removes a session that is no longer kept from the counts.
void SessionTable::Forget(const Session& kept) {
  const auto of_user = kept_of_.find(kept.account.user);
  if (--of_user->second.count == 0) {
    kept_of_.erase(of_user);
    return;
  }
  const auto of_peer = of_user->second.of_peer.find(kept.account.peer);
  if (--of_peer->second == 0) of_user->second.of_peer.erase(of_peer);
}

void SessionTable::EvictExpired(int64_t now_ns) {
  while (!kept_.empty() && now_ns - kept_.front()->kept_since_ns_ > options_.keep_ns) Evict(kept_.begin());
}

// Called after one more session is kept.
void SessionTable::EvictExcess(const Session& latest) {
  const auto of_user = kept_of_.find(latest.account.user);
  if (of_user->second.count > options_.max_kept_each) return EvictOneOf(of_user->first, of_user->second);
  if (kept_.size() <= options_.max_kept) return;
  const auto fewer = [](const auto& a, const auto& b) { return a.second.count < b.second.count; };
  const auto most = std::max_element(kept_of_.begin(), kept_of_.end(), fewer);
  const auto& [user, kept_of] = most->second.count > of_user->second.count ? *most : *of_user;
  EvictOneOf(user, kept_of);
}

// Evicts that user's longest kept session, among those of the peers with most sessions.
void SessionTable::EvictOneOf(absl::string_view user, const KeptOf& kept_of) {
  size_t most = 0;
  for (const auto& [peer, count] : kept_of.of_peer) most = std::max(most, count);
  Evict(std::find_if(kept_.begin(), kept_.end(), [&](const Session* kept) {
    return kept->account.user == user && kept_of.of_peer.find(kept->account.peer)->second == most;
  }));
}

void SessionTable::Evict(std::list<Session*>::iterator kept) {
  const uint64_t id = (*kept)->id();
  Forget(**kept);
  kept_.erase(kept);
  Lose(id);
}

void SessionTable::Lose(uint64_t id) {
  sessions_.erase(id);
  if (lost_.size() < kMaxLost) {
    lost_.insert(id);
  } else {
    lost_more_ = true;
  }
}

}  // namespace farlook::server
