#include "server/session/reply_cache.h"

#include <algorithm>

namespace farlook::server {

ReplyCache::Of& ReplyCache::Refresh(uint64_t session) {
  const auto [place, is_new] = positions_.try_emplace(session);
  if (!is_new) {
    sessions_.splice(sessions_.end(), sessions_, place->second);
    return *place->second;
  }
  place->second = sessions_.insert(sessions_.end(), Of{.session = session});
  Of& of = *place->second;
  if (forgot_more_) of.unknown_up_to = kAll;  // it may be a forgotten one
  if (const auto found = forgotten_.find(session); found != forgotten_.end()) {
    of.unknown_up_to = found->second;
    forgotten_.erase(found);
  }
  return of;
}

void ReplyCache::NoteSession(uint64_t session, absl::string_view user, uint32_t epoch) {
  Of& of = Refresh(session);
  of.is_known = true;
  of.user = std::string(user);
  of.epoch = std::max(of.epoch, epoch);
  Trim();
}

void ReplyCache::Note(uint64_t session, const Reply& reply) {
  std::deque<Reply>& all = Refresh(session).replies;
  // Numbers arrive nearly in order, and a second record of a request, which undoes the first, follows it closely.
  auto at = all.end();
  while (at != all.begin() && (at - 1)->number >= reply.number) --at;
  if (at != all.end() && at->number == reply.number) {
    *at = reply;
    return;
  }
  all.insert(at, reply);
  ++size_;
  while (all.front().number + kv::kMaxWindow <= all.back().number) {
    all.pop_front();
    --size_;
  }
  Trim();
}

void ReplyCache::NoteLost(uint64_t session) {
  if (session == 0) {
    forgot_more_ = true;
    return;
  }
  const auto place = positions_.find(session);
  if (place == positions_.end()) return Forget(session, kAll);
  size_ -= place->second->replies.size();
  sessions_.erase(place->second);
  positions_.erase(place);
  Forget(session, kAll);
}

void ReplyCache::Trim() {
  while (size_ + sessions_.size() > most_ && sessions_.size() > 1) {
    const Of& oldest = sessions_.front();
    size_ -= oldest.replies.size();
    const uint64_t highest = oldest.replies.empty() ? 0 : oldest.replies.back().number;
    Forget(oldest.session, std::max(highest, oldest.unknown_up_to));
    positions_.erase(oldest.session);
    sessions_.pop_front();
  }
}

void ReplyCache::Forget(uint64_t session, uint64_t highest) {
  if (forgotten_.size() < most_forgotten_) {
    forgotten_[session] = highest;
  } else {
    forgot_more_ = true;
  }
}

}  // namespace farlook::server
