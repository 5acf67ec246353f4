#include "cluster/configuration.h"

#include <algorithm>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cluster/record_fields.h"
#include "kv/fields.h"

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
  kFirstReplica = 64
};
enum ReplicaTag : uint16_t { kIncarnation = 1, kKind = 2, kAddress = 3 };

kv::FieldUse TakeReplicaField(uint16_t tag, absl::string_view value, Replica* replica) {
  switch (tag) {
    case kIncarnation:
      return TakeNumber(value, &replica->incarnation);
    case kKind: {
      uint8_t kind = 0;
      if (TakeNumber(value, &kind) != kv::FieldUse::kTaken || kind < 1 || kind > 2) return kv::FieldUse::kMalformed;
      replica->kind = static_cast<Replica::Kind>(kind);
      return kv::FieldUse::kTaken;
    }
    case kAddress:
      replica->address = std::string(value);
      return kv::FieldUse::kTaken;
    default:
      return kv::FieldUse::kUnknown;
  }
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

const Replica& Configuration::primary() const {
  return *std::find_if(members.begin(), members.end(),
                       [](const Replica& member) { return member.kind == Replica::Kind::kPrimary; });
}

absl::Status Configuration::Check() const {
  const auto bad = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("configuration of a group: ", what));
  };
  if (group == 0 || epoch == 0 || epoch >> 62 != 0) return bad("its group or epoch is out of range");
  if (lease_us < kMinLeaseUs || lease_us > kMaxLeaseUs) {
    return bad(absl::StrCat("a lease of ", lease_us, " us; from ", kMinLeaseUs, " to ", kMaxLeaseUs));
  }
  if (replicas < 1 || replicas > kMaxReplicas || min_insync < 1 || min_insync > replicas) {
    return bad(
        absl::StrCat("wants ", replicas, " replicas, ", min_insync, " of them at least: at most ", kMaxReplicas));
  }
  if (!cluster.empty() && !kv::IsClusterName(cluster)) return bad("a cluster's name that is none");
  if (cluster.empty() && slots.any()) return bad("slots, and no cluster");
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
  AppendNumber(kLayout, configuration.layout, &bytes);
  AppendNumber(kReplicas, configuration.replicas, &bytes);
  AppendNumber(kMinInsync, configuration.min_insync, &bytes);
  if (!configuration.cluster.empty()) AppendText(kCluster, configuration.cluster, &bytes);
  if (configuration.slots.any()) AppendSlots(kSlots, configuration.slots, &bytes);
  uint16_t tag = kFirstReplica;
  for (const Replica& member : configuration.members) {
    std::string fields;
    AppendNumber(kIncarnation, member.incarnation, &fields);
    AppendNumber(kKind, static_cast<uint8_t>(member.kind), &fields);
    AppendText(kAddress, member.address, &fields);
    AppendText(tag++, fields, &bytes);
  }
  return bytes;
}

absl::StatusOr<Configuration> DecodeConfiguration(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) {
    return absl::InvalidArgumentError("configuration of a group: these bytes are none");
  }
  Configuration configuration;
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
            return TakeNumber(value, &configuration.layout);
          case kReplicas:
            return TakeNumber(value, &configuration.replicas);
          case kMinInsync:
            return TakeNumber(value, &configuration.min_insync);
          case kCluster:
            configuration.cluster = std::string(value);
            return kv::FieldUse::kTaken;
          case kSlots:
            return TakeSlots(value, &configuration.slots);
          default:
            break;
        }
        if (tag < kFirstReplica || tag >= kFirstReplica + kMaxReplicas) return kv::FieldUse::kUnknown;
        Replica replica;
        inner.Update(
            kv::ReadFields("replica of a group", value, [&replica](uint16_t field, absl::string_view bytes_of) {
              return TakeReplicaField(field, bytes_of, &replica);
            }));
        configuration.members.push_back(std::move(replica));
        return kv::FieldUse::kTaken;
      });
  status.Update(inner);
  if (status.ok()) status = configuration.Check();
  if (!status.ok()) return status;
  return configuration;
}

}  // namespace farlook::cluster
