#include "server/roster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farlook::server {
namespace {

absl::string_view NameOf(Roster::State state) {
  switch (state) {
    case Roster::State::kUnproven:
      return "unproven";
    case Roster::State::kWelcome:
      return "welcome";
    case Roster::State::kBackup:
      return "backup";
    case Roster::State::kDeaf:
      return "deaf";
    case Roster::State::kClosing:
      return "closing";
    case Roster::State::kAtomic:
      return "atomic";
    case Roster::State::kKicked:
      break;
  }
  return "kicked";
}

// Without what would end a line or a field: peers' names are not all ours.
std::string Field(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  }
  return text.empty() ? "-" : text;
}

}  // namespace

Roster::Entry::Entry(Roster* roster, std::string peer, int worker, int64_t now_ns)
    : roster_(roster), peer_(Field(std::move(peer))), worker_(worker), since_ns_(now_ns), user_("-"), role_("-") {
  if (roster_ == nullptr) return;
  absl::MutexLock lock(&roster_->mutex_);
  id_ = ++roster_->last_id_;
  roster_->entries_.emplace(id_, this);
}

Roster::Entry::~Entry() { Leave(); }

bool Roster::Entry::Leave() {
  if (roster_ == nullptr) return true;
  absl::MutexLock lock(&roster_->mutex_);
  const bool has_place = state_.load(std::memory_order_relaxed) != State::kKicked;
  if (roster_->entries_.erase(id_) > 0 && (kicked() || !has_place)) roster_->Remember(id_);
  return has_place;
}

void Roster::Entry::StayWithinAtomic() {
  if (roster_ == nullptr) return;
  absl::MutexLock lock(&roster_->mutex_);
  Set(kicked() && roster_->places_->Vacate() ? State::kKicked : State::kAtomic);
}

void Roster::Entry::Welcome(absl::string_view user, absl::string_view role) {
  Set(State::kWelcome);
  if (roster_ == nullptr) return;
  absl::MutexLock lock(&roster_->mutex_);
  user_ = Field(std::string(user));
  role_ = std::string(role);
}

std::string Roster::List(uint64_t after, size_t most, int64_t now_ns, uint64_t* left) const {
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

void Roster::Remember(uint64_t id) {
  gone_.push_back(id);
  if (gone_.size() > kMostRemembered) gone_.pop_front();
}

Roster::Kick Roster::KickOut(uint64_t id) {
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
      if (!places_->Vacate()) return Kick::kRefused;
      entry.Set(State::kKicked);
      return Kick::kVacated;
    default:
      entry.kicked_.store(true, std::memory_order_relaxed);
      kicks_.fetch_add(1, std::memory_order_release);
      return Kick::kEnding;
  }
}

}  // namespace farlook::server
