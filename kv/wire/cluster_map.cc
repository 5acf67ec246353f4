#include "kv/wire/cluster_map.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace farlook::kv {
namespace {

constexpr size_t kMaxMembers = 16;
constexpr size_t kMaxAddressBytes = 256;

absl::Status Bad(absl::string_view line) {
  return absl::InvalidArgumentError(absl::StrCat("map of a cluster: not understood: ", line.substr(0, 80)));
}

bool TakeHex(absl::string_view text, uint64_t* number) {
  return text.size() == 16 && absl::SimpleHexAtoi(text, number);
}

bool TakeRange(absl::string_view first, absl::string_view last, SlotRange* range) {
  return absl::SimpleAtoi(first, &range->first) && absl::SimpleAtoi(last, &range->last) &&
         range->first <= range->last && range->last < kClusterSlots;
}

bool IsAddress(absl::string_view text) {
  return !text.empty() && text.size() <= kMaxAddressBytes &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isgraph(c) && c != ','; });
}

// Returns false if one of the slots is in the set already.
bool Add(const SlotRange& range, SlotSet* slots) {
  for (size_t slot = range.first; slot <= range.last; ++slot) {
    if (slots->test(slot)) return false;
    slots->set(slot);
  }
  return true;
}

}  // namespace

SlotWords WordsOf(const SlotSet& slots) {
  SlotWords words = {};
  for (size_t slot = 0; slot < kClusterSlots; ++slot) words[slot / 64] |= uint64_t{slots[slot]} << slot % 64;
  return words;
}

std::vector<SlotRange> RangesOf(const SlotSet& slots) {
  std::vector<SlotRange> ranges;
  for (size_t slot = 0; slot < kClusterSlots; ++slot) {
    if (!slots[slot]) continue;
    if (ranges.empty() || ranges.back().last + 1 != slot) ranges.push_back({slot, slot});
    ranges.back().last = slot;
  }
  return ranges;
}

std::string FormatSlots(const SlotSet& slots) {
  std::string text;
  for (const SlotRange& range : RangesOf(slots)) {
    absl::StrAppend(&text, text.empty() ? "" : ",", range.first);
    if (range.last != range.first) absl::StrAppend(&text, "-", range.last);
  }
  return text;
}

absl::StatusOr<SlotSet> ParseSlots(absl::string_view text) {
  SlotSet slots;
  if (text.empty()) return slots;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::vector<absl::string_view> ends = absl::StrSplit(part, '-');
    SlotRange range;
    if (ends.size() > 2 || !TakeRange(ends.front(), ends.back(), &range)) {
      return absl::InvalidArgumentError(
          absl::StrCat("slots ", text, ": from 0 to ", kClusterSlots - 1, ", as 0-2047,3000"));
    }
    if (!Add(range, &slots)) return absl::InvalidArgumentError(absl::StrCat("slots ", text, ": one is there twice"));
  }
  return slots;
}

bool IsClusterName(absl::string_view name) {
  return !name.empty() && name.size() <= kMaxClusterNameBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

const ClusterMap::Group* ClusterMap::Find(absl::string_view group) const {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [group](const Group& one) { return one.name == group; });
  return found == groups.end() ? nullptr : &*found;
}

SlotSet ClusterMap::Served() const {
  SlotSet served;
  for (const Group& group : groups) {
    if (!group.members.empty()) served |= group.slots;
  }
  return served;
}

std::string ClusterMap::Encode() const {
  std::string text = absl::StrCat("cluster ", name, " ", absl::Hex(id, absl::kZeroPad16), " ",
                                  absl::Hex(hash_seed, absl::kZeroPad16), "\n");
  for (const Group& group : groups) {
    absl::StrAppend(&text, "group ", group.name, " ", group.epoch, "\n");
    for (const std::string& member : group.members) absl::StrAppend(&text, "member ", member, "\n");
    for (const SlotRange& range : RangesOf(group.slots)) {
      absl::StrAppend(&text, "slots ", range.first, " ", range.last, "\n");
    }
  }
  return text;
}

absl::StatusOr<ClusterMap> ClusterMap::Decode(absl::string_view text) {
  ClusterMap map;
  SlotSet taken;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    const absl::string_view kind = words.front();
    if (kind == "cluster") {
      if (words.size() != 4 || !map.name.empty() || !IsClusterName(words[1]) || !TakeHex(words[2], &map.id) ||
          !TakeHex(words[3], &map.hash_seed)) {
        return Bad(line);
      }
      map.name = std::string(words[1]);
      continue;
    }
    if (map.name.empty()) return Bad(line);
    if (kind == "group") {
      Group group;
      if (words.size() != 3 || !IsClusterName(words[1]) || !absl::SimpleAtoi(words[2], &group.epoch) ||
          map.Find(words[1]) != nullptr || map.groups.size() == kMaxGroups) {
        return Bad(line);
      }
      group.name = std::string(words[1]);
      map.groups.push_back(std::move(group));
      continue;
    }
    if (map.groups.empty()) return Bad(line);
    Group& group = map.groups.back();
    SlotRange range;
    if (kind == "member" && words.size() == 2 && IsAddress(words[1]) && group.members.size() < kMaxMembers) {
      group.members.emplace_back(words[1]);
    } else if (kind == "slots" && words.size() == 3 && TakeRange(words[1], words[2], &range)) {
      if (!Add(range, &taken)) return absl::InvalidArgumentError("map of a cluster: two groups have one slot");
      Add(range, &group.slots);
    } else {
      return Bad(line);
    }
  }
  if (map.name.empty()) return Bad("nothing");
  return map;
}

}  // namespace farlook::kv
