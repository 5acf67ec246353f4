// The part of a simulated server in its group: it does the work of the group's two threads, and checks what the group
// says and keeps.
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/configuration.h"
#include "tests/sim/hook.h"
#include "tests/sim/keys.h"
#include "tests/sim/server.h"

namespace farlook::sim {

// Does what a server's start does. The directory answers: a server that finds none does not start.
void SimServer::OpenGroup(uint64_t incarnation) {
  server::Group::Options options;
  options.name = group_name();
  options.open_directory = [this] {
    return std::make_unique<cluster::SimulatedDirectory>(&world_->records, [this] {
      AwaitDirectory();
      return world_->DrawDirectoryFault();
    });
  };
  options.incarnation = incarnation;
  options.suspicion = absl::Milliseconds(world_->plan.suspicion_ms);
  options.lease = absl::Milliseconds(world_->plan.lease_ms);
  options.replicas = static_cast<uint32_t>(world_->plan.replicas);
  options.hash_seed = kHashSeed;
  if (world_->plan.groups > 1) {
    options.cluster = World::kCluster;
    options.slots = *kv::ParseSlots(world_->GroupOf(number_) == 0 ? "0-2047" : "2048-4095");
  }
  world_->opening = true;
  parts_->group = *server::Group::Open(std::move(options));
  if (!parts_->group->EnterCluster().ok()) std::abort();
  world_->opening = false;
  parts_->gate = std::make_unique<server::CommitGate>(parts_->table.get(), parts_->locks.get(), &clock_,
                                                      server::ServerTime(), parts_->group->stream());
  parts_->gate->SetServing(parts_->group->serving());
}

void SimServer::JoinGroup() {
  server::Group::Parts parts;
  parts.table = parts_->table.get();
  parts.locks = parts_->locks.get();
  parts.clock = &clock_;
  parts.gate = parts_->gate.get();
  parts.hash_seed = kHashSeed;
  parts.address = address();
  for (const auto& worker : parts_->workers) parts.workers.push_back(worker.get());
  parts.create_endpoint = [this](absl::string_view) -> absl::StatusOr<std::unique_ptr<rdma::Endpoint>> {
    return world_->network.CreateEndpoint(party(), [this] { Wake(); });
  };
  parts.deposed = [this] { deposed_ = true; };
  parts_->group->Attach(std::move(parts));
  has_begun_ = deposed_ = was_member_ = false;
  revision_ = 0;
  look_ns_ = others_ns_ = 0;
  described_epoch_ = 0;
  Wake();
}

void SimServer::OnRecord(cluster::Entry entry) {
  const auto group = cluster::DecodeConfiguration(entry.value);
  std::string text = absl::StrCat("server ", number_, " hears of revision ", entry.revision);
  if (group.ok()) {
    was_member_ = was_member_ || group->Find(incarnation_) != nullptr;
    absl::StrAppend(&text, ", epoch ", group->epoch, ":");
    for (const cluster::Replica& member : group->members) {
      absl::StrAppend(&text, " ", member.address, member.kind == cluster::Replica::Kind::kPrimary ? " (primary)" : "");
    }
    if (world_->plan.groups > 1) absl::StrAppend(&text, ", slots ", kv::FormatSlots(group->slots));
    for (const cluster::Move& move : group->moves) {
      constexpr absl::string_view kKinds[] = {"", "taking", "taken", "given"};
      absl::StrAppend(&text, ", ", kKinds[static_cast<size_t>(move.kind)], " ", kv::FormatSlots(move.slots));
      if (move.kind == cluster::Move::Kind::kTaken) world_->moves.insert(move.id);
    }
  }
  if (world_->noting) world_->Note(std::move(text));
  parts_->group->OnRecord(std::move(entry));
}

// Does the work of the two threads of its group. Returns whether there may be more to do at once.
bool SimServer::StepGroup() {
  server::Group& group = *parts_->group;
  if (!std::exchange(has_begun_, true)) group.Begin();
  if (world_->now_ns() >= look_ns_) {
    cluster::Entry entry = world_->records.Get(group_name());
    if (entry.revision > revision_) {
      revision_ = entry.revision;
      OnRecord(std::move(entry));
    }
    const bool is_slow = !world_->healed && world_->random.PerMillion(world_->plan.directory_faults / 20);
    look_ns_ = world_->now_ns() + world_->random.Between(1'000, is_slow ? 300'000'000 : 2'000'000);
  }
  if (world_->plan.groups > 1 && world_->now_ns() >= others_ns_) {
    group.RefreshMap();
    others_ns_ = world_->now_ns() + world_->random.Between(1'000, world_->random.OneIn(4) ? 200'000'000 : 20'000'000);
  }
  const bool more = group.Step();
  if (std::exchange(backup_is_full, false)) ExpectRoom();
  if (group.serving()->now()) {
    // The group's first primary, before it has received a request. The others join empty.
    if (world_->plan.fills && world_->served.empty()) AlmostFill(parts_->table.get());
    world_->served.insert(incarnation_);
  }
  ExpectDescribed();
  if (!timer_is_set_) {
    timer_is_set_ = true;
    world_->scheduler.After(absl::ToInt64Nanoseconds(server::Group::kTick), [this] {
      timer_is_set_ = false;
      Wake();
    });
  }
  return more;
}

// An operator receives no earlier epoch than clients do.
void SimServer::ExpectDescribed() {
  const uint64_t epoch = parts_->group->serving()->announced().epoch;
  if (std::exchange(described_epoch_, epoch) == epoch) return;
  const std::string status = parts_->group->Ask("status");
  if (absl::StrContains(status, absl::StrCat("\nepoch ", epoch, "\n")) || !world_->violation.empty()) return;
  world_->violation = absl::StrCat("server ", number_, " is in epoch ", epoch, ", and describes another one: ", status);
}

// A backup that was removed erases its copy only if the primary has served, which then has all of it.
void SimServer::ExpectCopyElsewhere() {
  if (parts_->group == nullptr || !was_member_) return;
  const uint64_t epoch = parts_->group->serving()->announced().epoch;
  for (size_t ago = 0, primary = 0;; ++ago) {
    const cluster::Entry entry = world_->records.Get(group_name(), ago);
    const auto record = cluster::DecodeConfiguration(entry.value);
    if (entry.revision == 0 || !record.ok()) return;
    if (record->epoch > epoch) continue;
    const cluster::Replica* const self = record->Find(incarnation_);
    if (record->epoch == epoch) primary = record->primary().incarnation;
    if (self == nullptr) continue;
    if (record->epoch == epoch || self->kind == cluster::Replica::Kind::kPrimary) return;
    if (world_->served.contains(primary)) return;
    return world_->Violate(
        absl::StrCat("server ", number_, " erases its copy, and the primary of epoch ", epoch, " has not served yet"));
  }
}

// A member is not lost for lack of room: no record was appended for which it has none.
void SimServer::ExpectRoom() {
  const auto record = cluster::DecodeConfiguration(world_->records.Get(group_name()).value);
  if (!record.ok() || record->Find(incarnation_) == nullptr) return;  // one that joins may be too small
  world_->Violate(absl::StrCat("server ", number_, " is a member, and has no room for a record"));
}

// Empty, like a process that replaces this one.
void SimServer::BeginAnew() {
  ExpectCopyElsewhere();
  world_->Note(absl::StrCat("server ", number_, " is to begin anew"));
  Destroy(/*in_order=*/true);
  world_->scheduler.After(world_->random.Between(10'000, 5'000'000), [this] {
    if (!alive() && !world_->over) Start();
  });
}

void SimServer::Ask(const std::string& what) {
  if (!alive() || busy_) return;
  const std::string answer = parts_->group->Ask(what);
  world_->Note(absl::StrCat("server ", number_, " is asked: ", what, ": ", answer));
}

void SimServer::EndInOrder() {
  // The last copy takes over first.
  if (!alive() || leaves() || !may_die()) return;
  constexpr int64_t kMostNs = 300'000'000;
  world_->Note(absl::StrCat("server ", number_, " is to end in order"));
  leaves_until_ns_ = world_->now_ns() + kMostNs;
  Wake();
}

}  // namespace farlook::sim
