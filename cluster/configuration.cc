#include "cluster/configuration.h"

#include <algorithm>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cluster/record_fields.h"
#include "kv/layout/words.h"
#include "kv/wire/fields.h"

namespace farlook::cluster {
namespace {

constexpr absl::string_view kMagic = "flkgroup";

enum Tag : uint16_t {
  kGroup = 1,
  kEpoch = 2,
  kLease = 3,
  kHashSeed = 4,
  kLayout = 5,
  kReplicas = 6,
  kMinInsync = 7,
  kCluster = 8,
  kSlots = 9,
  kPrimaryLeft = 10,
  kLimits = 11,
  kHistory = 12,
  kFirstReplica = 64,
  kFirstMove = 128
};
enum ReplicaTag : uint16_t { kIncarnation = 1, kKind = 2, kAddress = 3 };
enum MoveTag : uint16_t { kMoveId = 1, kMoveKind = 2, kMoveGroup = 3, kMoveSlots = 4 };

// Takes a number from 1 to `most`.
template <typename Kind>
kv::FieldUse TakeKind(absl::string_view value, Kind most, Kind* kind) {
  uint8_t number = 0;
  if (TakeNumber(value, &number) != kv::FieldUse::kTaken || number < 1 || number > static_cast<uint8_t>(most)) {
    return kv::FieldUse::kMalformed;
  }
  *kind = static_cast<Kind>(number);
  return kv::FieldUse::kTaken;
}

kv::FieldUse TakeLimits(absl::string_view value, Limits* limits) {
  if (value.size() != 2 * sizeof(uint64_t)) return kv::FieldUse::kMalformed;
  limits->max_value_bytes = kv::LoadAs<uint64_t>(value.data());
  limits->memory_bytes = kv::LoadAs<uint64_t>(value.data() + sizeof(uint64_t));
  return *limits == Limits() ? kv::FieldUse::kMalformed : kv::FieldUse::kTaken;
}

kv::FieldUse TakeReplicaField(uint16_t tag, absl::string_view value, Replica* replica) {
  switch (tag) {
    case kIncarnation:
      return TakeNumber(value, &replica->incarnation);
    case kKind:
      return TakeKind(value, Replica::Kind::kPrimary, &replica->kind);
    case kAddress:
      replica->address = std::string(value);
      return kv::FieldUse::kTaken;
    default:
      return kv::FieldUse::kUnknown;
  }
}

kv::FieldUse TakeMoveField(uint16_t tag, absl::string_view value, Move* move) {
  switch (tag) {
    case kMoveId:
      return TakeNumber(value, &move->id);
    case kMoveKind:
      return TakeKind(value, Move::Kind::kGiven, &move->kind);
    case kMoveGroup:
      move->group = std::string(value);
      return kv::FieldUse::kTaken;
    case kMoveSlots:
      return TakeSlots(value, &move->slots);
    default:
      return kv::FieldUse::kUnknown;
  }
}

// Describes the problem with the moves; null: none.
const char* WrongWithMoves(const Configuration& configuration) {
  if (configuration.moves.size() > kMaxMoves) return "more moves than there can be";
  if (configuration.cluster.empty() && !configuration.moves.empty()) return "moves, and no cluster";
  kv::SlotSet away;  // slots that it does not own now
  for (const Move& move : configuration.moves) {
    if (move.id == 0 || configuration.FindMove(move.id) != &move) return "a move is there twice, or has no id";
    if (!kv::IsClusterName(move.group)) return "a move without a group";
    if (move.slots.any() == (move.kind == Move::Kind::kTaken))
      return "a move without slots, or one that names them still";
    if ((move.slots & (configuration.slots | away)).any()) return "a move of slots that it has, or twice";
    away |= move.slots;
  }
  return nullptr;
}

}  // namespace

uint64_t RandomId() {
  std::random_device device;
  return uint64_t{device()} << 32 | device() | 1;
}

const Replica* Configuration::Find(uint64_t incarnation) const {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [incarnation](const Replica& member) { return member.incarnation == incarnation; });
  return found == members.end() ? nullptr : &*found;
}

const Move* Configuration::FindMove(uint64_t id) const {
  const auto found = std::find_if(moves.begin(), moves.end(), [id](const Move& move) { return move.id == id; });
  return found == moves.end() ? nullptr : &*found;
}

const Replica& Configuration::primary() const {
  return *std::find_if(members.begin(), members.end(),
                       [](const Replica& member) { return member.kind == Replica::Kind::kPrimary; });
}

absl::Status Configuration::Check() const {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("configuration of a group: ", what));
  };
  if (group == 0 || epoch == 0 || epoch >> 62 != 0) return bad("its group or epoch is out of range");
  if (history > epoch) return bad("its table began later than this epoch");
  if (lease_us < kMinLeaseUs || lease_us > kMaxLeaseUs) {
    return bad(absl::StrCat("a lease of ", lease_us, " us; from ", kMinLeaseUs, " to ", kMaxLeaseUs));
  }
  if (replicas < 1 || replicas > kMaxReplicas || min_insync < 1 || min_insync > replicas) {
    return bad(
        absl::StrCat("wants ", replicas, " replicas, ", min_insync, " of them at least: at most ", kMaxReplicas));
  }
  if (!cluster.empty() && !kv::IsClusterName(cluster)) return bad("a cluster's name that is none");
  if (cluster.empty() && slots.any()) return bad("slots, and no cluster");
  if (const char* const wrong = WrongWithMoves(*this); wrong != nullptr) return bad(wrong);
  if (members.size() > kMaxReplicas) return bad(absl::StrCat(members.size(), " members; at most ", kMaxReplicas));
  size_t primaries = 0;
  for (const Replica& member : members) {
    if (member.incarnation == 0) return bad("a member without an incarnation");
    if (Find(member.incarnation) != &member) return bad("a member is there twice");
    if (member.address.empty() || member.address.size() > kMaxAddressBytes) return bad("an address's length");
    primaries += member.kind == Replica::Kind::kPrimary ? 1 : 0;
  }
  if (primaries != 1) return bad(absl::StrCat(primaries, " primaries"));
  return absl::OkStatus();
}

std::string EncodeConfiguration(const Configuration& configuration) {
  std::string bytes(kMagic);
  AppendNumber(kGroup, configuration.group, &bytes);
  AppendNumber(kEpoch, configuration.epoch, &bytes);
  AppendNumber(kLease, configuration.lease_us, &bytes);
  AppendNumber(kHashSeed, configuration.hash_seed, &bytes);
  AppendNumber(kLayout, configuration.layout.word(), &bytes);
  AppendNumber(kReplicas, configuration.replicas, &bytes);
  AppendNumber(kMinInsync, configuration.min_insync, &bytes);
  if (!configuration.cluster.empty()) AppendText(kCluster, configuration.cluster, &bytes);
  if (configuration.slots.any()) AppendSlots(kSlots, configuration.slots, &bytes);
  if (configuration.primary_left) AppendNumber(kPrimaryLeft, uint8_t{1}, &bytes);
  if (configuration.limits != Limits()) {
    char raw[2 * sizeof(uint64_t)];
    kv::StoreAs(raw, configuration.limits.max_value_bytes);
    kv::StoreAs(raw + sizeof(uint64_t), configuration.limits.memory_bytes);
    AppendText(kLimits, {raw, sizeof raw}, &bytes);
  }
  if (configuration.history != 0) AppendNumber(kHistory, configuration.history, &bytes);
  uint16_t tag = kFirstReplica;
  for (const Replica& member : configuration.members) {
    std::string fields;
    AppendNumber(kIncarnation, member.incarnation, &fields);
    AppendNumber(kKind, static_cast<uint8_t>(member.kind), &fields);
    AppendText(kAddress, member.address, &fields);
    AppendText(tag++, fields, &bytes);
  }
  tag = kFirstMove;
  for (const Move& move : configuration.moves) {
    std::string fields;
    AppendNumber(kMoveId, move.id, &fields);
    AppendNumber(kMoveKind, static_cast<uint8_t>(move.kind), &fields);
    AppendText(kMoveGroup, move.group, &fields);
    if (move.slots.any()) AppendSlots(kMoveSlots, move.slots, &fields);
    AppendText(tag++, fields, &bytes);
  }
  return bytes;
}

absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) {
    return absl::InvalidArgumentError("configuration of a group: these bytes are none");
  }
  Configuration configuration;
  uint32_t layout = 0;
  absl::Status inner;
  absl::Status status =
      kv::ReadFields("configuration of a group", bytes, [&](uint16_t tag, absl::string_view value) -> kv::FieldUse {
        switch (tag) {
          case kGroup:
            return TakeNumber(value, &configuration.group);
          case kEpoch:
            return TakeNumber(value, &configuration.epoch);
          case kLease:
            return TakeNumber(value, &configuration.lease_us);
          case kHashSeed:
            return TakeNumber(value, &configuration.hash_seed);
          case kLayout:
            return TakeNumber(value, &layout);
          case kReplicas:
            return TakeNumber(value, &configuration.replicas);
          case kMinInsync:
            return TakeNumber(value, &configuration.min_insync);
          case kCluster:
            configuration.cluster = std::string(value);
            return kv::FieldUse::kTaken;
          case kSlots:
            return TakeSlots(value, &configuration.slots);
          case kPrimaryLeft:
            configuration.primary_left = value == "\x01";
            return configuration.primary_left ? kv::FieldUse::kTaken : kv::FieldUse::kMalformed;
          case kLimits:
            return TakeLimits(value, &configuration.limits);
          case kHistory:
            return TakeNumber(value, &configuration.history);
          default:
            break;
        }
        if (tag >= kFirstMove && tag < kFirstMove + kMaxMoves) {
          inner.Update(kv::ReadFields(
              "move of slots", value,
              [&, move = &configuration.moves.emplace_back()](uint16_t field, absl::string_view bytes_of) {
                return TakeMoveField(field, bytes_of, move);
              }));
          return kv::FieldUse::kTaken;
        }
        if (tag < kFirstReplica || tag >= kFirstReplica + kMaxReplicas) return kv::FieldUse::kUnknown;
        inner.Update(kv::ReadFields(
            "replica of a group", value,
            [&, replica = &configuration.members.emplace_back()](uint16_t field, absl::string_view bytes_of) {
              return TakeReplicaField(field, bytes_of, replica);
            }));
        return kv::FieldUse::kTaken;
      });
  status.Update(inner);
  configuration.layout = TableLayout(layout);
  if (status.ok()) status = configuration.Check();
  if (!status.ok()) return status;
  return configuration;
}

}  // namespace farlook::cluster
