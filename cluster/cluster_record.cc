#include "cluster/cluster_record.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cluster/configuration.h"
#include "cluster/record_fields.h"
#include "kv/wire/fields.h"

namespace farlook::cluster {
namespace {

constexpr absl::string_view kMagic = "flkclust";

enum Tag : uint16_t { kId = 1, kHashSeed = 2, kLayout = 3, kFirstGroup = 64 };
enum GroupTag : uint16_t { kName = 1, kFirstSlots = 2, kHasLeft = 3 };

// Each slot belongs to one group, so all groups together have no more ranges than there are slots.
static_assert(kMagic.size() + 3 * (kv::kFieldHeadBytes + 8) +
                      kv::kMaxGroups * (5 * kv::kFieldHeadBytes + kv::kMaxClusterNameBytes) +
                      kv::kClusterSlots * kRangeBytes <=
                  kMaxRecordBytes,
              "a directory takes the record of any cluster");
static_assert(kFirstGroup + kv::kMaxGroups < kv::kCriticalTag, "each group has a tag");

// Limits for a group that enters: this many attempts, as other groups may come first one after the other, and this many
// lost answers.
constexpr size_t kMostAttempts = 2 * kv::kMaxGroups;
constexpr int kMostUnknown = 8;
constexpr size_t kMostTextBytes = 80;  // of slots, in an error message

kv::FieldUse TakeGroupField(uint16_t tag, absl::string_view value, ClusterRecord::Group* group) {
  switch (tag) {
    case kName:
      group->name = std::string(value);
      return kv::FieldUse::kTaken;
    case kFirstSlots:
      return TakeSlots(value, &group->first_slots);
    case kHasLeft: {
      uint8_t has_left = 0;
      if (TakeNumber(value, &has_left) != kv::FieldUse::kTaken || has_left != 1) return kv::FieldUse::kMalformed;
      group->has_left = true;
      return kv::FieldUse::kTaken;
    }
    default:
      return kv::FieldUse::kUnknown;
  }
}

std::string Brief(const kv::SlotSet& slots) {
  std::string text = kv::FormatSlots(slots);
  if (text.empty()) return "none";
  if (text.size() > kMostTextBytes) text = absl::StrCat(text.substr(0, kMostTextBytes), "...");
  return text;
}

}  // namespace

const ClusterRecord::Group* ClusterRecord::Find(absl::string_view group) const {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [group](const Group& one) { return one.name == group; });
  return found == groups.end() ? nullptr : &*found;
}

absl::Status ClusterRecord::Check() const {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("record of a cluster: ", what));
  };
  if (id == 0) return bad("it has no id");
  if (groups.size() > kv::kMaxGroups) return bad(absl::StrCat(groups.size(), " groups; at most ", kv::kMaxGroups));
  kv::SlotSet taken;
  for (const Group& group : groups) {
    if (!kv::IsClusterName(group.name)) return bad("a group's name that is none");
    if (Find(group.name) != &group) return bad("a group is there twice");
    if ((taken & group.first_slots).any()) return bad("two groups began with one slot");
    taken |= group.first_slots;
  }
  return absl::OkStatus();
}

std::string EncodeClusterRecord(const ClusterRecord& record) {
  std::string bytes(kMagic);
  AppendNumber(kId, record.id, &bytes);
  AppendNumber(kHashSeed, record.hash_seed, &bytes);
  if (!record.layout.empty()) AppendNumber(kLayout, record.layout.word(), &bytes);
  uint16_t tag = kFirstGroup;
  for (const ClusterRecord::Group& group : record.groups) {
    std::string fields;
    AppendText(kName, group.name, &fields);
    AppendSlots(kFirstSlots, group.first_slots, &fields);
    if (group.has_left) AppendNumber(kHasLeft, uint8_t{1}, &fields);
    AppendText(tag++, fields, &bytes);
  }
  return bytes;
}

absl::StatusOr<ClusterRecord> DecodeClusterRecord(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) {
    return absl::InvalidArgumentError("record of a cluster: these bytes are none; is the name that of a group?");
  }
  ClusterRecord record;
  uint32_t layout = 0;
  absl::Status inner;
  absl::Status status =
      kv::ReadFields("record of a cluster", bytes, [&](uint16_t tag, absl::string_view value) -> kv::FieldUse {
        if (tag == kId) return TakeNumber(value, &record.id);
        if (tag == kHashSeed) return TakeNumber(value, &record.hash_seed);
        if (tag == kLayout) return TakeNumber(value, &layout);
        if (tag < kFirstGroup || tag >= kFirstGroup + kv::kMaxGroups) return kv::FieldUse::kUnknown;
        ClusterRecord::Group group;
        inner.Update(kv::ReadFields("group of a cluster", value, [&group](uint16_t field, absl::string_view bytes_of) {
          return TakeGroupField(field, bytes_of, &group);
        }));
        record.groups.push_back(std::move(group));
        return kv::FieldUse::kTaken;
      });
  status.Update(inner);
  record.layout = TableLayout(layout);
  if (status.ok()) status = record.Check();
  if (!status.ok()) return status;
  return record;
}

namespace {

// Changes the record by `change`, which is called with the present record, or with a new one without groups, and
// returns whether anything must be changed; the attempts are bounded. Returns the resulting record.
absl::StatusOr<ClusterRecord> ChangeRecord(Directory* directory, absl::string_view cluster, const ClusterRecord& first,
                                           absl::FunctionRef<absl::StatusOr<bool>(ClusterRecord*)> change) {
  int unknown = 0;
  for (size_t attempt = 0; attempt < kMostAttempts; ++attempt) {
    const absl::StatusOr<Entry> entry = directory->Get(cluster, Freshness::kLatest);
    if (!entry.ok()) return entry.status();
    absl::StatusOr<ClusterRecord> record = first;
    if (entry->revision != 0) record = DecodeClusterRecord(entry->value);
    if (!record.ok()) return record;
    const absl::StatusOr<bool> changed = change(&*record);
    if (!changed.ok()) return changed.status();
    if (!*changed) return record;
    const CasResult result = directory->Cas(cluster, entry->revision, EncodeClusterRecord(*record));
    switch (result.outcome) {
      case CasOutcome::kDone:
        return record;
      case CasOutcome::kNotDone:
        return result.why;
      case CasOutcome::kConflict:  // another group was first, or it was done and the answer was lost
        break;
      case CasOutcome::kUnknown:
        if (++unknown == kMostUnknown) return result.why;
        break;
    }
  }
  return absl::UnavailableError(
      absl::StrCat("the record of cluster ", cluster, " was changed by others during each attempt: try again"));
}

}  // namespace

absl::Status CheckEntry(const ClusterRecord& record, absl::string_view cluster, absl::string_view group,
                        const kv::SlotSet& first_slots) {
  if (const ClusterRecord::Group* const there = record.Find(group); there != nullptr) {
    if (there->has_left) {
      return absl::FailedPreconditionError(
          absl::StrCat("group ", group, " has left cluster ", cluster, " for good: begin a group with another name"));
    }
    if (there->first_slots == first_slots) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("group ", group, " is in cluster ", cluster, " with first slots ",
                                                      Brief(there->first_slots), ", and not ", Brief(first_slots),
                                                      ": begin it with those, or give it another name"));
  }
  if (record.groups.size() == kv::kMaxGroups) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cluster ", cluster, " has ", kv::kMaxGroups, " groups, and there can be no more"));
  }
  for (const ClusterRecord::Group& other : record.groups) {
    const kv::SlotSet common = other.first_slots & first_slots;
    if (common.none()) continue;
    return absl::FailedPreconditionError(absl::StrCat("group ", other.name, " of cluster ", cluster,
                                                      " began with slots ", Brief(common), ": group ", group,
                                                      " can begin with slots that no other group began with"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ClusterRecord> EnterCluster(Directory* directory, absl::string_view cluster, absl::string_view group,
                                           const kv::SlotSet& first_slots, uint64_t hash_seed, TableLayout layout) {
  ClusterRecord first;
  first.id = RandomId();  // the same at each attempt: one that is executed late does not create another cluster
  first.hash_seed = hash_seed;
  first.layout = layout;
  return ChangeRecord(directory, cluster, first, [&](ClusterRecord* record) -> absl::StatusOr<bool> {
    if (absl::Status status = CheckEntry(*record, cluster, group, first_slots); !status.ok()) return status;
    if (record->Find(group) != nullptr) return false;
    record->groups.push_back({std::string(group), first_slots});
    return true;
  });
}

absl::Status LeaveCluster(Directory* directory, absl::string_view cluster, absl::string_view group) {
  return ChangeRecord(directory, cluster, ClusterRecord(),
                      [&](ClusterRecord* record) -> absl::StatusOr<bool> {
                        for (ClusterRecord::Group& one : record->groups) {
                          if (one.name == group) return !std::exchange(one.has_left, true);
                        }
                        return absl::NotFoundError(absl::StrCat("cluster ", cluster, " has no group ", group));
                      })
      .status();
}

}  // namespace farlook::cluster
