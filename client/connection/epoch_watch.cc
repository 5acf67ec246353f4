#include "client/connection/epoch_watch.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "client/op/work_request_id.h"
#include "kv/layout/region.h"
#include "kv/layout/words.h"

namespace farlook::client {
namespace {

constexpr size_t kMostMembers = 64;  // the limit of kv::ReadLease

}  // namespace

void EpochWatch::Begin(rdma::Connection* primary, const kv::ServerRange& table, const kv::Welcome& welcome,
                       std::vector<std::string> members) {
  if (welcome.group_epoch == 0) return;
  members.resize(std::clamp<size_t>(members.size(), 1, kMostMembers));
  for (std::string& address : members) members_.emplace_back().address = std::move(address);
  shown_.assign(members_.size(), {.connection = primary});
  Reach(&members_[0], primary, table);
  open_ = kv::EpochWord::Open(welcome.group_epoch);
  lease_ns_ = int64_t{welcome.lease_us} * 1000;
  BeginLease();
  Poll(/*waiting=*/true);
}

// Makes the member's word readable from now on.
void EpochWatch::Reach(Member* member, rdma::Connection* connection, const kv::ServerRange& table) {
  member->connection = connection;
  member->table = table;
  const char* const word = connection->Mapped(table.address + kv::kEpochWordOffset, sizeof(uint64_t), table.rkey);
  if (word != nullptr) shown_[static_cast<size_t>(member - members_.data())] = {word, connection};
}

// `seen` is the value of the word, if it is mapped.
bool EpochWatch::NotOpen(const Shown& shown, kv::EpochWord seen) {
  if (shown.word != kNoWord) Saw(members_[static_cast<size_t>(&shown - shown_.data())], seen);
  return false;
}

void EpochWatch::Lost() {
  members_.clear();
  shown_.clear();
  lease_.reset();
  wanted_ = proven_ = renewed_ = primary_shut_ = false;
  next_look_ns_ = 0;
  former_rounds_ = 0;
  suspect_since_ns_.reset();
  successor_.reset();
}

// Begins a new lease in the same epoch: earlier values of the words no longer count.
void EpochWatch::BeginLease() {
  round_ = 0;
  if (lease_.has_value()) former_rounds_ += lease_->begun();
  lease_.emplace(open_.epoch(), members_.size(), lease_ns_);
  for (Member& member : members_) member.round = 0;
  renewed_ = false;
}

// ---- Judging.

EpochWatch::Verdict EpochWatch::Judge(int64_t completed_ns, uint64_t begun) {
  if (local()) return OpenNow() ? Verdict::kBelieved : Suspect();
  if (options_->fencing == Fencing::kStrict) {
    const bool believed = lease_->BelievesStrictly(std::max(begun, former_rounds_) - former_rounds_);
    return believed ? Verdict::kBelieved : Suspect();
  }
  if (!lease_->Believes(completed_ns)) return Suspect();
  if (!lease_->Believes(completed_ns + lease_ns_ / 3)) wanted_ = true;
  return Verdict::kBelieved;
}

EpochWatch::Verdict EpochWatch::Suspect() {
  wanted_ = true;
  const int64_t now_ns = time_->NowNs();
  if (!suspect_since_ns_.has_value()) suspect_since_ns_ = now_ns;
  next_look_ns_ = std::min(next_look_ns_, now_ns + kLookAgainNs);
  const int64_t patience_ns = std::max(lease_ns_, kLeastPatienceNs);
  return primary_shut_ || now_ns - *suspect_since_ns_ > patience_ns ? Verdict::kAsk : Verdict::kNotYet;
}

bool EpochWatch::TakeProven() { return std::exchange(proven_, false); }

// Handles a word that differs from the one that all members show while this configuration is in force.
void EpochWatch::Saw(const Member& member, kv::EpochWord word) {
  const bool is_primary = &member == &members_[0];
  if (word.epoch() > open_.epoch()) successor_ = is_primary ? "" : member.address;
  if (is_primary) primary_shut_ = true;
}

// ---- Rounds.

void EpochWatch::Poll(bool waiting) {
  const int64_t now_ns = time_->NowNs();
  for (size_t i = 1; i < members_.size(); ++i) {
    if (members_[i].own == nullptr && now_ns >= members_[i].dial_ns) Dial(&members_[i], now_ns);
  }
  if (local()) {
    if (waiting) OpenNow();
    return;
  }
  if (now_ns >= next_look_ns_ ? waiting || wanted_ : wanted_ && renewed_) Look(now_ns);
}

int64_t EpochWatch::due_ns() const { return local() ? time_->last_ns() + kLocalLookNs : next_look_ns_; }

// Begins a round. If one that may still succeed is in flight, READs again the words that arrived. `now_ns` was read
// before anything is posted.
void EpochWatch::Look(int64_t now_ns) {
  if (words_ == nullptr) {
    auto words = endpoint_->Allocate(kMostMembers * sizeof(uint64_t), /*readable_by_peers=*/false);
    if (!words.ok()) return;  // nothing is believed, and gets go by messages
    words_ = *std::move(words);
  }
  const bool under_way = round_ != 0 && now_ns - round_ns_ < lease_ns_ &&
                         std::any_of(members_.begin(), members_.end(),
                                     [this](const Member& member) { return member.pending && member.round == round_; });
  if (!under_way) {
    round_ = lease_->BeginRound(now_ns);
    round_ns_ = now_ns;
    wanted_ = renewed_ = false;
  }
  next_look_ns_ = now_ns + (suspect_since_ns_.has_value() ? kLookAgainNs : lease_ns_ / 3);
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (member.connection == nullptr || member.pending) continue;
    const rdma::Sge to = {words_->bytes().data() + i * sizeof(uint64_t), sizeof(uint64_t)};
    if (!member.connection->PostRead(WorkRequestId::OfNumber(WorkRequestId::Owner::kWords, i),
                                     absl::MakeConstSpan(&to, 1), member.table.address + kv::kEpochWordOffset,
                                     member.table.rkey)) {
      next_look_ns_ = now_ns + kLookAgainNs;
      continue;
    }
    member.pending = true;
    member.round = round_;
    member.connection->Ring();
  }
}

void EpochWatch::Handle(const rdma::Completion& completion) {
  if (!active()) return;
  if (completion.opcode == rdma::Opcode::kRead) {
    const size_t i = WorkRequestId::NumberOf(completion.wr_id);
    if (i >= members_.size() || members_[i].connection != completion.connection) return;
    members_[i].pending = false;
    if (completion.status != rdma::WcStatus::kSuccess) return;
    const auto word = kv::EpochWord::FromBits(kv::LoadAs<uint64_t>(words_->bytes().data() + i * sizeof(uint64_t)));
    if (i == 0) primary_shut_ = false;
    if (word != open_) Saw(members_[i], word);
    lease_->WordRead(members_[i].round, i, word);
    if (lease_->over()) {
      next_look_ns_ = std::min(next_look_ns_, time_->last_ns() + kLookAgainNs);
      return BeginLease();
    }
    if (renewed_ || !lease_->IsProven()) return;
    proven_ = renewed_ = true;
    suspect_since_ns_.reset();
    return;
  }
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.own != nullptr && member.own.get() == completion.connection;
  });
  if (found == members_.end()) return;
  switch (completion.opcode) {
    case rdma::Opcode::kConnected: {
      kv::Hello hello;
      hello.flags = kv::Hello::kReadOnly;
      found->greeting.emplace(options_);
      if (!found->greeting->Connected(found->own.get()).ok()) return Drop(&*found);
      found->greeting->SendHello(hello);
      if (!found->greeting->Post()) return Drop(&*found);
      return found->own->Ring();
    }
    case rdma::Opcode::kReceive:
      return OnMessage(&*found, {completion.message.data(), completion.message.size()});
    case rdma::Opcode::kDisconnected:
      return Drop(&*found);
    case rdma::Opcode::kRead:
    case rdma::Opcode::kFetchAdd:
    case rdma::Opcode::kCompareSwap:
      return;
  }
}

// ---- Connections to the other members.

void EpochWatch::Dial(Member* member, int64_t now_ns) {
  member->dial_ns = now_ns + member->redial_ns;
  // An attempt whose reply was lost must not last as long as an operation may: until the next one nothing is believed.
  const int64_t timeout_ms = std::min(options_->timeout_ms, (kLeastAttemptNs + member->redial_ns) / 1'000'000);
  member->redial_ns = std::min(2 * member->redial_ns, kMostRedialNs);
  kv::ConnectData data;
  data.flags = kv::ConnectData::kReadOnly | kv::ConnectData::kWatch;
  auto connection = endpoint_->Connect(member->address, data.Encode(), timeout_ms);
  if (connection.ok()) member->own = *std::move(connection);
}

void EpochWatch::Drop(Member* member) {
  member->own.reset();
  member->connection = nullptr;
  shown_[static_cast<size_t>(member - members_.data())] = {.connection = members_[0].connection};
  member->greeting.reset();
  member->pending = false;
  member->dial_ns = time_->last_ns() + member->redial_ns;
}

void EpochWatch::OnMessage(Member* member, absl::string_view message) {
  if (!member->greeting.has_value() || member->connection != nullptr) return Drop(member);
  if (member->greeting->asked() && kv::IsFirstMessage(message, kv::FirstMessage::kChallenge)) {
    if (!member->greeting->Answer(message).ok() || !member->greeting->Post()) return Drop(member);
    return member->own->Ring();
  }
  const auto welcome = kv::Welcome::Decode(message);
  if (!welcome.ok()) return Drop(member);  // also a refusal
  if (member->greeting->asked() && !member->greeting->TakeGrant(*welcome).ok()) return Drop(member);
  Reach(member, member->own.get(), member->greeting->table());
  member->redial_ns = kLeastRedialNs;
  next_look_ns_ = 0;
}

}  // namespace farlook::client
