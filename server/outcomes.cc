#include "server/outcomes.h"

#include <algorithm>

namespace farlook::server {

Outcomes::Of& Outcomes::Heard(uint64_t session) {
  const auto [place, is_new] = places_.try_emplace(session);
  if (!is_new) {
    sessions_.splice(sessions_.end(), sessions_, place->second);
    return *place->second;
  }
  place->second = sessions_.insert(sessions_.end(), Of{.session = session});
  Of& of = *place->second;
  if (forgot_more_) of.unknown_up_to = kAll;  // it may be one of those
  if (const auto found = forgotten_.find(session); found != forgotten_.end()) {
    of.unknown_up_to = found->second;
    forgotten_.erase(found);
  }
  return of;
}

void Outcomes::NoteSession(uint64_t session, absl::string_view user, uint32_t epoch) {
  Of& of = Heard(session);
  of.is_known = true;
  of.user = std::string(user);
  of.epoch = std::max(of.epoch, epoch);
  Trim();
}

void Outcomes::Note(uint64_t session, const Told& told) {
  std::deque<Told>& all = Heard(session).told;
  // Numbers come nearly in order, and a second record of a request, which undoes the first, follows it closely.
  auto at = all.end();
  while (at != all.begin() && (at - 1)->number >= told.number) --at;
  if (at != all.end() && at->number == told.number) {
    *at = told;
    return;
  }
  all.insert(at, told);
  ++size_;
  while (all.front().number + kv::kMaxWindow <= all.back().number) {
    all.pop_front();
    --size_;
  }
  Trim();
}

void Outcomes::NoteLost(uint64_t session) {
  if (session == 0) {
    forgot_more_ = true;
    return;
  }
  const auto place = places_.find(session);
  if (place == places_.end()) return Forget(session, kAll);
  size_ -= place->second->told.size();
  sessions_.erase(place->second);
  places_.erase(place);
  Forget(session, kAll);
}

void Outcomes::Trim() {
  while (size_ + sessions_.size() > most_ && sessions_.size() > 1) {
    const Of& oldest = sessions_.front();
    size_ -= oldest.told.size();
    const uint64_t highest = oldest.told.empty() ? 0 : oldest.told.back().number;
    Forget(oldest.session, std::max(highest, oldest.unknown_up_to));
    places_.erase(oldest.session);
    sessions_.pop_front();
  }
}

void Outcomes::Forget(uint64_t session, uint64_t highest) {
  if (forgotten_.size() < most_forgotten_) {
    forgotten_[session] = highest;
  } else {
    forgot_more_ = true;
  }
}

}  // namespace farlook::server
