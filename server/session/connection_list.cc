#include "server/session/connection_list.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

absl::string_view NameOf(ConnectionList::State state) {
  switch (state) {
    case ConnectionList::State::kUnproven:
      return "unproven";
    case ConnectionList::State::kWelcome:
      return "welcome";
    case ConnectionList::State::kBackup:
      return "backup";
    case ConnectionList::State::kPaused:
      return "paused";
    case ConnectionList::State::kClosing:
      return "closing";
    case ConnectionList::State::kAtomic:
      return "atomic";
    case ConnectionList::State::kKicked:
      break;
  }
  return "kicked";
}

// Replaces control characters, which could end a line or a field: the text may come from a peer.
std::string Field(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return text.empty() ? "-" : text;
}

}  // namespace

ConnectionList::Entry::Entry(ConnectionList* list, std::string peer, int worker, int64_t now_ns)
    : list_(list), peer_(Field(std::move(peer))), worker_(worker), since_ns_(now_ns), user_("-"), role_("-") {
  if (list_ == nullptr) return;
  absl::MutexLock lock(&list_->mutex_);
  id_ = ++list_->last_id_;
  list_->entries_.emplace(id_, this);
}

ConnectionList::Entry::~Entry() { Leave(); }

bool ConnectionList::Entry::Leave() {
  if (list_ == nullptr) return true;
  absl::MutexLock lock(&list_->mutex_);
  const bool has_place = state_.load(std::memory_order_relaxed) != State::kKicked;
  if (list_->entries_.erase(id_) > 0 && (kicked() || !has_place)) list_->Remember(id_);
  return has_place;
}

void ConnectionList::Entry::StayWithinAtomic() {
  if (list_ == nullptr) return;
  absl::MutexLock lock(&list_->mutex_);
  Set(kicked() && list_->quota_->Vacate() ? State::kKicked : State::kAtomic);
}

void ConnectionList::Entry::Welcome(absl::string_view user, absl::string_view role) {
  Set(State::kWelcome);
  if (list_ == nullptr) return;
  absl::MutexLock lock(&list_->mutex_);
  user_ = Field(std::string(user));
  role_ = std::string(role);
}

std::string ConnectionList::List(uint64_t after, size_t most, int64_t now_ns, uint64_t* left) const {
  std::string text;
  *left = 0;
  absl::MutexLock lock(&mutex_);
  for (auto it = entries_.upper_bound(after); it != entries_.end(); ++it) {
    const Entry& entry = *it->second;
    const std::string line =
        absl::StrCat(entry.id_, "\t", entry.peer_, "\t", entry.user_, "\t", entry.role_, "\t", entry.worker_, "\t",
                     NameOf(entry.state_.load(std::memory_order_relaxed)), "\t",
                     std::max<int64_t>(0, now_ns - entry.since_ns_) / 1'000'000'000, "\t", entry.requests.value(), "\t",
                     entry.kept_bytes.value(), "\t", entry.gets_per_s.value(), "\t", entry.get_p99_ns.value(), "\n");
    if (text.size() + line.size() > most) {
      *left = static_cast<uint64_t>(std::distance(it, entries_.end()));
      break;
    }
    text += line;
  }
  return text;
}

void ConnectionList::Remember(uint64_t id) {
  gone_.push_back(id);
  if (gone_.size() > kMostRemembered) gone_.pop_front();
}

ConnectionList::Kick ConnectionList::KickOut(uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) {
    return std::find(gone_.begin(), gone_.end(), id) == gone_.end() ? Kick::kAbsent : Kick::kGone;
  }
  Entry& entry = *found->second;
  switch (entry.state_.load(std::memory_order_relaxed)) {
    case State::kKicked:
      return Kick::kVacated;
    case State::kAtomic:
      if (!quota_->Vacate()) return Kick::kRefused;
      entry.Set(State::kKicked);
      return Kick::kVacated;
    default:
      entry.kicked_.store(true, std::memory_order_relaxed);
      kicks_.fetch_add(1, std::memory_order_release);
      return Kick::kEnding;
  }
}

}  // namespace farlook::server
