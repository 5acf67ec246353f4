#include "server/session.h"

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
  if (has_gaps_) [[unlikely]]
    PassOver(number);
  Entry& entry = at(number);
  if (entry.number == number && entry.state != State::kFree) {
    // Sent again with other contents? What another server answered is kept without its type.
    if (entry.type != type && entry.state != State::kRecalled) return Claim::kImpossible;
    if (entry.state == State::kUnderWay) return Claim::kUnderWay;
    if (entry.state == State::kRecalled) entry.type = type;  // which says what its answer bears
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

// A client sends what has no answer in the order of its numbers, before all that is new (Session::Repeat() in
// client/session.cc). So what it leaves out it has the former primary's answer to, and will never send.
void Session::PassOver(uint64_t number) {
  for (uint64_t n = std::max(passed_, floor_) + 1; n < number; ++n) {
    Entry& entry = at(n);
    if (entry.number == n && entry.state != State::kFree) continue;
    entry = Entry();
    entry.number = n;
    entry.state = State::kAnswered;
    highest_ = std::max(highest_, n);
  }
  passed_ = std::max(passed_, number);
  RaiseFloor();
}

void Session::Release(uint64_t number) { at(number).state = State::kFree; }

// What is not among these was a read, or did not come that far: it is carried out when it is sent again. But where some
// of what it was told was forgotten, such a request may have been carried out.
void Session::Recall(const Outcomes::Of& told) {
  wrote_ = restored_ = has_gaps_ = true;
  epoch_ = confirmed_epoch_ = told.epoch;
  if (!told.told.empty()) highest_ = told.told.back().number;
  const uint64_t first = highest_ - std::min<uint64_t>(highest_, window_) + 1;
  const auto recall = [this](const Outcomes::Told& one) {
    Entry& entry = at(one.number);
    entry.number = one.number;
    entry.version = one.told;
    entry.code = one.code;
    entry.state = State::kRecalled;
  };
  for (uint64_t number = first; number <= std::min(highest_, told.unknown_up_to); ++number) {
    recall({.number = number, .code = kv::Code::kOutcomeUnknown});
  }
  for (const Outcomes::Told& one : told.told) {
    if (one.number >= first) recall(one);
  }
}

bool Session::Admits(const kv::Hello& hello, absl::string_view* why) const {
  // Of a restored one it is not known to how many connections it was welcome that wrote nothing, nor what it read.
  if (hello.epoch < confirmed_epoch_ || (!restored_ && hello.epoch > epoch_)) {
    *why = "the session has another epoch";
  } else if (((hello.flags & kv::Hello::kReadOnly) != 0) != read_only_) {
    *why = "the session was opened with other rights";
  } else if (hello.user != user_) {
    *why = "the session is another user's";
  } else if (hello.acknowledged > (has_gaps_ ? kMaxAcknowledged : floor_)) {
    *why = "the session never gave the answers that the client says it has";
  } else {
    return true;
  }
  return false;
}

void Session::Resume(const kv::Hello& hello) {
  if (restored_) epoch_ = hello.epoch;
  restored_ = false;
  if (has_gaps_) {
    floor_ = passed_ = std::max(floor_, hello.acknowledged);
    highest_ = std::max(highest_, floor_);
    RaiseFloor();  // over what it is told from now on, and may say that it was told when it comes again
  }
  confirmed_epoch_ = hello.epoch;
  ++epoch_;
}

SessionTable::SessionTable(SessionOptions options) : options_(std::move(options)) {}

Session* SessionTable::Create(bool read_only, absl::string_view user) {
  uint64_t id;
  do {
    id = options_.random() / kMaxWorkers * kMaxWorkers + static_cast<uint64_t>(options_.worker);
  } while (id == 0 || sessions_.contains(id) || lost_.contains(id));  // 0 means "none" in a Hello
  auto session = std::make_unique<Session>(id, read_only, options_.window, user);
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
  if (revived == nullptr) *why = "the session is not known, or no more";
  return revived;
}

// A session that is not known wrote nothing, if no session was lost that did. It gets another id: who knows an id, but
// not the epoch, must not become the session of somebody who comes back later.
Session* SessionTable::Revive(const kv::Hello& hello) {
  const bool read_only = (hello.flags & kv::Hello::kReadOnly) != 0;
  if (OwnerOf(hello.session) != options_.worker || lost_more_ || lost_.contains(hello.session)) return nullptr;
  if (hello.acknowledged > kMaxAcknowledged || (!read_only && HasAsManyAsMayBe(hello.user))) {
    return nullptr;
  }
  Session* session = Create(read_only, hello.user);
  session->epoch_ = session->confirmed_epoch_ = hello.epoch;
  session->floor_ = session->highest_ = hello.acknowledged;
  return session;
}

bool SessionTable::Tell(OutcomesToTell* rest, OutcomesListener* listener) const {
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
    if (found != sessions_.end() && !TellOne(*found->second, rest, listener)) return false;
  }
  for (; !rest->lost.empty(); rest->lost.pop_back()) {
    if (!listener->TellLost(rest->lost.back())) return false;
  }
  return !rest->lost_more || listener->TellLost(0);
}

bool SessionTable::TellOne(const Session& session, OutcomesToTell* rest, OutcomesListener* listener) {
  if (!rest->is_introduced && !listener->Introduce(session)) return false;
  rest->is_introduced = true;
  const uint64_t first = session.highest_ - std::min<uint64_t>(session.highest_, session.window_) + 1;
  for (uint64_t number = std::max(first, rest->passed + 1); number <= session.highest_; ++number) {
    const Session::Entry& entry = session.at(number);
    const bool told =
        entry.state == Session::State::kRecalled || (entry.state == Session::State::kAnswered && IsWrite(entry.type));
    if (entry.number == number && told && !listener->Tell(session, number, session.Remembered(number))) return false;
    rest->passed = number;
  }
  return true;
}

void SessionTable::Restore(uint64_t incarnation, const Outcomes& outcomes, int64_t now_ns) {
  former_incarnation_ = incarnation;
  lost_more_ = lost_more_ || outcomes.forgot_more();
  for (const auto& [id, highest] : outcomes.forgotten()) {
    if (OwnerOf(id) == options_.worker) Lose(id);
  }
  // Which of these clients are gone the backup did not hear: so those that were heard of last are kept, and no more
  // than leave room for others to come.
  std::vector<const Outcomes::Of*> kept;
  std::map<absl::string_view, size_t> of_user;
  for (auto told = outcomes.sessions().rbegin(); told != outcomes.sessions().rend(); ++told) {
    if (OwnerOf(told->session) != options_.worker) continue;
    const bool has_room = kept.size() < std::max<size_t>(1, options_.max_kept / 2) &&
                          (told->user.empty() || of_user[told->user] < std::max<size_t>(1, options_.max_kept_each / 2));
    if (!told->is_known || !has_room) {
      Lose(told->session);
      continue;
    }
    kept.push_back(&*told);
    if (!told->user.empty()) ++of_user[told->user];
  }
  for (; !kept.empty(); kept.pop_back()) {
    const Outcomes::Of& told = *kept.back();
    auto session = std::make_unique<Session>(told.session, /*read_only=*/false, options_.window, told.user);
    session->Recall(told);
    Session* const raw = session.get();
    if (sessions_.emplace(told.session, std::move(session)).second) Detach(raw, now_ns);
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
  const bool matters = session->wrote() && !session->said_goodbye();
  if (matters && options_.max_kept > 0) {
    session->kept_since_ns_ = std::max<int64_t>(now_ns, 1);
    session->kept_place_ = kept_.insert(kept_.end(), session);
    if (!session->user().empty()) ++kept_of_[session->user()];
    return;
  }
  if (matters) return Lose(session->id());
  sessions_.erase(session->id());
}

bool SessionTable::attached(uint64_t id) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && found->second->kept_since_ns_ == 0;
}

bool SessionTable::full(int64_t now_ns, absl::string_view user) {
  EvictExpired(now_ns);
  return HasAsManyAsMayBe(user);
}

bool SessionTable::HasAsManyAsMayBe(absl::string_view user) const {
  if (options_.max_kept == 0) return false;
  return kept_.size() >= options_.max_kept || HasItsShare(user);
}

bool SessionTable::HasItsShare(absl::string_view user) const {
  const auto found = kept_of_.find(user);
  return found != kept_of_.end() && found->second >= options_.max_kept_each;
}

// It is kept no more.
void SessionTable::Forget(const Session& kept) {
  const auto found = kept_of_.find(kept.user());
  if (found != kept_of_.end() && --found->second == 0) kept_of_.erase(found);
}

int64_t SessionTable::full_until_ns(absl::string_view user) const {
  auto first = kept_.begin();
  if (HasItsShare(user)) {
    first = std::find_if(first, kept_.end(), [user](const Session* kept) { return kept->user() == user; });
  }
  return first == kept_.end() ? 0 : (*first)->kept_since_ns_ + options_.keep_ns;
}

void SessionTable::EvictExpired(int64_t now_ns) {
  while (!kept_.empty() && now_ns - kept_.front()->kept_since_ns_ > options_.keep_ns) {
    const uint64_t id = kept_.front()->id();
    Forget(*kept_.front());
    kept_.pop_front();
    Lose(id);
  }
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
