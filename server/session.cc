#include "server/session.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace farlook::server {

Session::Session(uint64_t id, bool read_only, uint32_t window)
    : id_(id), read_only_(read_only), window_(window), mask_(std::bit_ceil(uint64_t{window}) - 1), ring_(mask_ + 1) {}

Session::Claim Session::Begin(uint64_t number, kv::RequestType type) {
  confirmed_epoch_ = epoch_;
  if (number == 0 || number > floor_ + window_) return Claim::kImpossible;
  if (number + window_ <= highest_) return Claim::kForgotten;
  Entry& entry = at(number);
  if (entry.number == number && entry.state != State::kFree) {
    if (entry.type != type) return Claim::kImpossible;  // sent again with other contents
    if (entry.state == State::kUnderWay) return Claim::kUnderWay;
    return IsWrite(type) ? Claim::kAnswered : Claim::kExecute;
  }
  if (IsWrite(type) && !read_only_) wrote_ = true;
  entry.number = number;
  entry.type = type;
  entry.state = State::kUnderWay;
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

void Session::Finish(uint64_t number, const Outcome& outcome) {
  Entry& entry = at(number);
  entry.version = kv::IsCounterRequest(entry.type) ? static_cast<uint64_t>(outcome.counter.value) : outcome.version;
  entry.slot = outcome.slot;
  entry.code = outcome.code;
  entry.state = State::kAnswered;
  while (floor_ < highest_) {
    const Entry& next = at(floor_ + 1);
    if (next.number != floor_ + 1 || next.state != State::kAnswered) break;
    ++floor_;
  }
}

void Session::Release(uint64_t number) { at(number).state = State::kFree; }

bool Session::Admits(const kv::Hello& hello, absl::string_view* why) const {
  if (hello.epoch < confirmed_epoch_ || hello.epoch > epoch_) {
    *why = "the session has another epoch";
  } else if (((hello.flags & kv::Hello::kReadOnly) != 0) != read_only_) {
    *why = "the session was opened with other rights";
  } else if (hello.acknowledged > floor_) {
    *why = "the session never gave the answers that the client says it has";
  } else {
    return true;
  }
  return false;
}

void Session::Resume(const kv::Hello& hello) {
  confirmed_epoch_ = hello.epoch;
  ++epoch_;
}

SessionTable::SessionTable(SessionOptions options) : options_(std::move(options)) {}

Session* SessionTable::Create(bool read_only) {
  uint64_t id;
  do {
    id = options_.random() / kMaxWorkers * kMaxWorkers + static_cast<uint64_t>(options_.worker);
  } while (id == 0 || sessions_.contains(id) || lost_.contains(id));  // 0 means "none" in a Hello
  auto session = std::make_unique<Session>(id, read_only, options_.window);
  Session* raw = session.get();
  sessions_.emplace(id, std::move(session));
  return raw;
}

Session* SessionTable::FindResumable(const kv::Hello& hello, int64_t now_ns, absl::string_view* why) {
  EvictExpired(now_ns);
  if (hello.incarnation != options_.incarnation) {
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
  constexpr uint64_t kMaxAcknowledged = uint64_t{1} << 62;  // far from where numbers would wrap
  if (OwnerOf(hello.session) != options_.worker || lost_more_ || lost_.contains(hello.session)) return nullptr;
  if (hello.acknowledged > kMaxAcknowledged ||
      (!read_only && options_.max_kept > 0 && kept_.size() >= options_.max_kept)) {
    return nullptr;
  }
  Session* session = Create(read_only);
  session->epoch_ = session->confirmed_epoch_ = hello.epoch;
  session->floor_ = session->highest_ = hello.acknowledged;
  return session;
}

void SessionTable::Attach(Session* session) {
  if (session->kept_since_ns_ == 0) return;
  kept_.erase(session->kept_place_);
  session->kept_since_ns_ = 0;
}

void SessionTable::Detach(Session* session, int64_t now_ns) {
  session->link = nullptr;
  EvictExpired(now_ns);
  const bool matters = session->wrote() && !session->said_goodbye();
  if (matters && options_.max_kept > 0) {
    session->kept_since_ns_ = std::max<int64_t>(now_ns, 1);
    session->kept_place_ = kept_.insert(kept_.end(), session);
    return;
  }
  if (matters) return Lose(session->id());
  sessions_.erase(session->id());
}

bool SessionTable::attached(uint64_t id) const {
  const auto found = sessions_.find(id);
  return found != sessions_.end() && found->second->kept_since_ns_ == 0;
}

bool SessionTable::full(int64_t now_ns) {
  EvictExpired(now_ns);
  return options_.max_kept > 0 && kept_.size() >= options_.max_kept;
}

int64_t SessionTable::full_until_ns() const {
  return kept_.empty() ? 0 : kept_.front()->kept_since_ns_ + options_.keep_ns;
}

void SessionTable::EvictExpired(int64_t now_ns) {
  while (!kept_.empty() && now_ns - kept_.front()->kept_since_ns_ > options_.keep_ns) {
    const uint64_t id = kept_.front()->id();
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
