#include "cluster/group_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cluster/breaks.h"

namespace farlook::cluster {
namespace {

using kv::EpochWord;

constexpr size_t kMostPosted = 6;

// Whether the break has it look at this member's word.
bool Looks(const Replica& member) {
  if (broken == Break::kPrimaryWordOnly) return member.kind == Replica::Kind::kPrimary;
  if (broken == Break::kBackupWordsOnly) return member.kind == Replica::Kind::kBackup;
  return true;
}

}  // namespace

std::string GroupReader::Step(absl::Time now) {
  now_ns_ = absl::ToUnixNanos(now);
  if (!configuration_.has_value()) {
    const Entry entry = surroundings_.record(Any(3));
    if (entry.revision != 0) Begin(*DecodeConfiguration(entry.value));
    return "";
  }
  if (answer_.has_value() && (broken == Break::kNoLease || Believes())) return End();
  // One that came too late waits for the next round, or is given up.
  if (!is_strict_ && Any(8) != 0 && lease_->BelievesStrictly(0)) answer_.reset();
  switch (Any(8)) {
    case 0:
      if (posted_.size() < kMostPosted) BeginRound();
      break;
    case 1:
      if (Any(6) == 0) Forget();
      break;
    case 2:
    case 3:
      if (!answer_.has_value()) ReadTable();
      break;
    default:
      if (!posted_.empty()) ReadWord();
  }
  return "";
}

void GroupReader::Begin(const Configuration& configuration) {
  configuration_ = configuration;
  const std::vector<Replica>& members = configuration_->members;
  const auto primary = static_cast<size_t>(&configuration_->primary() - members.data());
  lease_.emplace(configuration_->epoch, members.size(), primary, int64_t{configuration_->lease_us} * 1'000);
  BeginRound();
}

std::string GroupReader::End() {
  const int answer = *std::exchange(answer_, std::nullopt);
  *surroundings_.known = std::max(*surroundings_.known, answer);
  ++gets_;
  return answer < floor_ ? absl::StrCat("a get returned ", answer, " after ", floor_, " was known") : "";
}

void GroupReader::Forget() {
  configuration_.reset();
  lease_.reset();
  posted_.clear();
  answer_.reset();
}

// Posts a READ of each member's word.
void GroupReader::BeginRound() {
  const uint64_t round = lease_->BeginRound(now_ns_);
  for (size_t i = 0; i < configuration_->members.size(); ++i) {
    posted_.push_back({.round = round, .member = i, .word = {}});
  }
}

// The adapter reads a word, or the reader sees such a READ complete: then, or later, perhaps in another round.
void GroupReader::ReadWord() {
  const auto posted = posted_.begin() + static_cast<std::ptrdiff_t>(Any(posted_.size()));
  if (!posted->word.has_value()) {
    const Replica& member = configuration_->members[posted->member];
    posted->word = surroundings_.reach(member.incarnation).value_or(Shown()).word;
    if (!Looks(member)) posted->word = EpochWord::Open(configuration_->epoch);
    if (Any(4) == 0) return;
  }
  lease_->WordRead(posted->round, posted->member, *posted->word);
  posted_.erase(posted);
  if (lease_->over()) Forget();
}

void GroupReader::ReadTable() {
  const std::optional<Shown> shown = surroundings_.reach(configuration_->primary().incarnation);
  if (!shown.has_value() || (!lease_->MayRead() && broken != Break::kReadsBeforeOpen)) return;
  floor_ = *surroundings_.known;
  answer_ = shown->table;
  answered_ns_ = now_ns_;
  noted_ = lease_->begun();
}

}  // namespace farlook::cluster
