#include "server/outcomes.h"

#include <algorithm>

namespace farlook::server {

void Outcomes::Note(uint64_t session, const Told& told) {
  const auto [place, is_new] = places_.try_emplace(session);
  if (is_new) {
    place->second = sessions_.insert(sessions_.end(), Of{.session = session});
  } else {
    sessions_.splice(sessions_.end(), sessions_, place->second);
  }
  std::deque<Told>& all = place->second->told;
  // A second record of a request, which undoes the first, follows it closely.
  const auto same =
      std::find_if(all.rbegin(), all.rend(), [&told](const Told& one) { return one.number == told.number; });
  if (same != all.rend()) {
    *same = told;
    return;
  }
  all.push_back(told);
  ++size_;
  if (all.size() > kv::kMaxWindow) {
    all.pop_front();
    --size_;
  }
  while (size_ > most_ && sessions_.size() > 1) {
    size_ -= sessions_.front().told.size();
    forgotten_.push_back(sessions_.front().session);
    places_.erase(sessions_.front().session);
    sessions_.pop_front();
  }
}

}  // namespace farlook::server
