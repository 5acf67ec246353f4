#include "tests/sim/run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cluster/configuration.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/message.h"
#include "server/base/log.h"
#include "tests/history/check.h"
#include "tests/history/history.h"
#include "tests/sim/client.h"
#include "tests/sim/faults.h"
#include "tests/sim/keys.h"
#include "tests/sim/server.h"
#include "tests/sim/world.h"

namespace farlook::sim {
namespace {

// No run takes this long; one that does hangs.
constexpr int64_t kMaxVirtualNs = 600'000'000'000;
constexpr uint64_t kMaxEvents = 20'000'000;

class Simulation {
 public:
  Simulation(const Plan& plan, bool noting);
  RunResult Run();

 private:
  void Setup();
  bool RunUntil(const std::function<bool()>& done, absl::string_view what);
  bool AnyHoldsForeign() const;
  void Extend(history::KeyHistory* history) const;
  static void AllowEvictions(history::KeyHistory* history);
  void Judge(RunResult* result);
  void Trace(int server, int key, const history::KeyHistory& history, RunResult* result);

  World world_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::unique_ptr<FaultMaker> faults_;
};

Simulation::Simulation(const Plan& plan, bool noting) : world_(plan) {
  server::SetLogLevel(noting ? server::LogLevel::kInfo : server::LogLevel::kNone);
  // One server's locks are taken while another is between two stores, and the reverse: there is one thread.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  SimServer::TakeArena();
  world_.noting = noting;
  world_.operations_left = plan.operations;
  if (plan.fills) world_.quiet_until_ns = world_.now_ns() + 100'000'000;  // members are filled first
  world_.keys = DrawKeys(plan.keys, plan.grows, &world_.random);
  world_.histories.resize(static_cast<size_t>(plan.tables() * plan.keys));
  world_.leases.resize(world_.histories.size());
}

void Simulation::Setup() {
  const Plan& plan = world_.plan;
  for (int i = 0; i < plan.servers; ++i) {
    servers_.push_back(std::make_unique<SimServer>(&world_, i));
    servers_.back()->Start();
  }
  // Histories of a table; in groups, of one group.
  const int each = std::max(plan.replicas, 1);
  std::vector<std::string> addresses(static_cast<size_t>(plan.servers / each));
  for (int i = 0; i < plan.servers; ++i) {
    std::string& address = addresses[static_cast<size_t>(i / each)];
    absl::StrAppend(&address, address.empty() ? "" : ",", servers_[static_cast<size_t>(i)]->address());
  }
  for (int i = 0; i < plan.clients; ++i) {
    clients_.push_back(std::make_unique<SimClient>(&world_, i + 1, i % plan.tables(),
                                                   addresses[static_cast<size_t>(i) % addresses.size()]));
  }
  faults_ = std::make_unique<FaultMaker>(&world_, &servers_, &clients_);
  for (const auto& client : clients_) {
    client->on_begin = [this, raw = client.get()] { faults_->OnOperation(raw); };
    client->Start();
  }
  load = [this](char* to, const char* from, size_t bytes) {
    world_.network.ReadMapped(world_.reader, to, from, bytes);
  };
  world_.network.on_healthy_end = [this](rdma::sim::Party party, bool is_server, rdma::sim::Party peer) {
    faults_->OnHealthyEnd(party, is_server, peer);
  };
  if (world_.noting) world_.network.trace = [this](const std::string& text) { world_.Note(text); };
}

bool Simulation::RunUntil(const std::function<bool()>& done, absl::string_view what) {
  const int64_t end_ns = world_.now_ns() + kMaxVirtualNs;
  while (world_.violation.empty() && !done()) {
    if (!world_.scheduler.RunOne(end_ns) || world_.scheduler.events() > kMaxEvents) {
      world_.Violate(absl::StrCat("hangs: ", what));
      for (const auto& client : clients_) world_.Note(client->State());
      for (const auto& server : servers_) world_.Note(server->State());
    }
  }
  return world_.violation.empty();
}

RunResult Simulation::Run() {
  Setup();
  const auto idle = [this] {
    return std::all_of(clients_.begin(), clients_.end(), [](const auto& client) { return client->idle(); });
  };
  bool good = RunUntil([&] { return world_.operations_left == 0 && idle(); }, "operations that never end");
  if (good) {
    // Whatever happened: once all is well again, every key can be read, by each client.
    faults_->Heal();
    for (const auto& client : clients_) client->ReadAll();
    good = RunUntil(
        [&] { return std::all_of(clients_.begin(), clients_.end(), [](const auto& c) { return c->has_read_all(); }); },
        "keys that cannot be read though there are no faults any more");
  }
  if (good) {
    RunUntil(
        [&] {
          return std::all_of(servers_.begin(), servers_.end(), [](const auto& s) { return s->cells_waiting() == 0; });
        },
        "cells of deleted counters that never become free");
  }
  if (good && world_.violation.empty() && world_.plan.groups > 1) {
    int64_t look_ns = 0;
    RunUntil(
        [&] {
          if (world_.now_ns() < look_ns) return false;
          look_ns = world_.now_ns() + 10'000'000;
          return !AnyHoldsForeign();
        },
        "items of slots that are another group's, and stay");
  }
  // The other replicas of a group are not notified of a client that ended.
  if (good && world_.violation.empty() && world_.plan.replicas == 0) {
    // A goodbye is best effort: it finds no room behind messages that were sent a moment ago.
    world_.scheduler.After(1'000'000'000, [this] { faults_->Part(); });
    RunUntil([&] { return faults_->heirs_answered(); }, "somebody who comes for a session and is not answered");
  }
  RunResult result;
  for (const auto& server : servers_) {
    result.splits += server->splits();
    result.merges += server->stats().merges;
    if (server->splits() > 0) result.moved_in_growth += server->stats().moved_items;
    result.moved_items += server->stats().moved_items;
    result.no_memory += server->no_memory();
    result.restarts += static_cast<uint64_t>(server->starts() - 1);
  }
  result.hostile_connections = faults_->hostile_connections();
  world_.over = true;
  faults_->End();
  world_.network.on_healthy_end = nullptr;
  world_.network.on_accept = nullptr;
  world_.network.on_first_message = nullptr;
  for (const auto& client : clients_) {
    client->Kill();
    const ClientStats& stats = client->stats();
    result.read_retries += stats.read_retries;
    result.cached_hits += stats.cached_hits;
    result.stale_locations += stats.stale_locations;
    result.server_gets += stats.server_gets;
    result.long_found += client->long_found();
    result.ended_at_once += client->ended_at_once();
    result.read_at_once += client->read_at_once();
    result.directory_refreshes += stats.directory_refreshes;
    result.reconnects += stats.reconnects;
    result.resent_requests += stats.resent_requests;
    result.pulled_values += stats.pulled_values;
    result.timeouts += stats.timeouts;
    result.atomics += stats.atomics;
    result.counter_requests += stats.counter_requests;
    result.dead_cells += stats.dead_cells;
    result.unknown_atomics += stats.unknown_atomics;
  }
  for (int i = 0; world_.plan.replicas > 0 && i < world_.plan.groups; ++i) {
    const auto group = cluster::DecodeConfiguration(world_.records.Get(World::GroupName(i)).value);
    if (group.ok()) result.epochs += group->epoch;
  }
  result.slot_moves = world_.moves.size();
  result.operations = static_cast<uint64_t>(world_.plan.operations - world_.operations_left);
  result.events = world_.scheduler.events();
  // The network counts full queues also where they are ample.
  result.occurred = (world_.occurred | world_.network.occurred) & world_.plan.faults;
  result.pauses = world_.pauses;
  result.ended_in_pauses = world_.ended_in_pauses;
  Judge(&result);
  return result;
}

// Returns whether a member of a group has a key that belongs to another group.
bool Simulation::AnyHoldsForeign() const {
  const kv::Hasher hasher(kHashSeed);
  for (int i = 0; i < world_.plan.groups; ++i) {
    const auto group = cluster::DecodeConfiguration(world_.records.Get(World::GroupName(i)).value);
    if (!group.ok() || !group->moves.empty()) return true;  // it is not known yet
    for (const auto& server : servers_) {
      if (group->Find(server->incarnation()) == nullptr) continue;
      for (const std::string& key : world_.keys) {
        if (!group->slots[kv::ClusterSlotOf(hasher(key))] && server->Holds(key)) return true;
      }
    }
  }
  return false;
}

// A server that was stopped between two stores may have been in the middle of a write with a deadline.
void Simulation::Extend(history::KeyHistory* history) const {
  for (history::Operation& operation : *history) {
    if (operation.until_ns == history::kNever) continue;
    for (const auto& [from_ns, to_ns] : world_.long_pauses) {
      if (from_ns <= operation.until_ns && to_ns >= operation.begin_ns) operation.until_ns += to_ns - from_ns;
    }
  }
}

// A cache may evict each value that is not kept, at any moment from its write on, or not at all.
void Simulation::AllowEvictions(history::KeyHistory* history) {
  const size_t count = history->size();
  for (size_t i = 0; i < count; ++i) {
    const history::Operation& write = (*history)[i];
    if (write.write == 0 || write.outcome == history::Outcome::kNothing) continue;
    history::Operation eviction;
    eviction.type = history::Type::kExpire;
    eviction.client = -1;
    eviction.begin_ns = write.begin_ns;
    eviction.found = write.write;
    history->push_back(eviction);
  }
}

void Simulation::Judge(RunResult* result) {
  result->violation = world_.violation;
  std::sort(world_.long_pauses.begin(), world_.long_pauses.end());
  for (int server = 0; server < world_.plan.tables(); ++server) {
    for (int key = 0; key < world_.plan.keys; ++key) {
      history::KeyHistory& history = world_.HistoryOf(server, key);
      Extend(&history);
      if (world_.plan.evicts && !IsKept(key)) AllowEvictions(&history);
      if (world_.plan.expires) {
        const SimServer& of = *servers_[static_cast<size_t>(server)];
        const EndOf end_of =
            world_.plan.replicas > 0 ? EndOf(EndInGroup) : EndByClock([&of](int64_t ns) { return of.ClockAt(ns); });
        const std::string late = AddEnds(end_of, world_.LeasesOf(server, key), &history);
        if (result->violation.empty()) result->violation = late;
      }
      const history::CheckResult check = history::Check(history, /*max_steps=*/20'000);
      result->undecided |= check.verdict == history::Verdict::kGaveUp;
      if (check.verdict != history::Verdict::kViolation) continue;
      ++result->wrong_answers;
      if (result->wrong_answers > 1) continue;
      if (result->violation.empty()) {
        result->violation = absl::StrCat("key ", key, " of server ", server, " is not linearizable: ", check.why);
      }
      if (world_.noting) Trace(server, key, history::Shrink(history), result);
    }
  }
  if (world_.noting && result->trace.empty()) {
    const size_t skipped = world_.notes.size() > 60 ? world_.notes.size() - 60 : 0;
    for (size_t i = skipped; i < world_.notes.size(); ++i) {
      absl::StrAppend(&result->trace, world_.notes[i].first, "  ", world_.notes[i].second, "\n");
    }
  }
}

// Prints the last operations of the key, as they ended, and the events of the parties meanwhile.
void Simulation::Trace(int server, int key, const history::KeyHistory& history, RunResult* result) {
  std::vector<std::pair<int64_t, std::string>> lines;
  for (const history::Operation& operation : history) {
    lines.emplace_back(operation.begin_ns, ToString(operation));
  }
  std::sort(lines.begin(), lines.end());
  constexpr size_t kMost = 24;
  const size_t first = lines.size() > kMost ? lines.size() - kMost : 0;
  const size_t left_out = first;
  lines.erase(lines.begin(), lines.begin() + static_cast<int64_t>(first));
  if (!lines.empty()) {
    const int64_t begin_ns = lines.front().first, end_ns = lines.back().first;
    for (const auto& [ns, text] : world_.notes) {
      if (ns >= begin_ns && ns <= end_ns && lines.size() < 80) lines.emplace_back(ns, absl::StrCat("    ", text));
    }
  }
  std::sort(lines.begin(), lines.end());
  absl::StrAppend(&result->trace, "key ", key, " of server ", server, " (\"", world_.keys[static_cast<size_t>(key)],
                  "\"), ", left_out, " earlier operations left out:\n");
  for (const auto& [ns, text] : lines) absl::StrAppend(&result->trace, ns, "  ", text, "\n");
}

}  // namespace

RunResult RunPlan(const Plan& plan, Break broken, bool noting) {
  active_break = broken;
  index_memory_leaves = plan.memory_leaves;
  backup_is_full = false;
  RunResult result = Simulation(plan, noting).Run();
  SimServer::ClearArena();
  active_break = Break::kNone;
  return result;
}

Plan ShrinkPlan(const Plan& plan, Break broken) {
  Plan best = plan;
  const auto fails = [&](const Plan& candidate) { return !RunPlan(candidate, broken).violation.empty(); };
  const auto attempt = [&](Plan candidate) {
    if (!fails(candidate)) return false;
    best = candidate;
    return true;
  };
  for (int round = 0; round < 3; ++round) {
    const Plan before = best;
    for (int i = 0; i < static_cast<int>(Fault::kCount); ++i) {
      Plan fewer = best;
      fewer.Remove(static_cast<Fault>(i));
      if (fewer.faults != best.faults) attempt(fewer);
    }
    const auto lower = [&](int Plan::*field, int least) {
      // Halves first, then small steps.
      for (int step = (best.*field - least + 1) / 2; step > 0;) {
        Plan fewer = best;
        fewer.*field = std::max(least, best.*field - step);
        if (fewer.*field == best.*field || !attempt(fewer)) step /= 2;
      }
    };
    lower(&Plan::operations, 1);
    if (plan.replicas == 0) lower(&Plan::servers, 1);
    lower(&Plan::clients, 1);
    lower(&Plan::keys, 1);
    lower(&Plan::in_flight, 1);
    lower(&Plan::operations, 1);
    if (before.operations == best.operations && before.faults == best.faults && before.keys == best.keys) break;
  }
  return best;
}

std::string CommandFor(const Plan& plan, Break broken) {
  std::string command = absl::StrCat("bazel run --config=opt //tests/sim:simulate -- --seed=", plan.seed);
  const Plan drawn = DrawPlan(plan.seed, plan.focus);
  const auto add = [&](absl::string_view name, int Plan::*field) {
    if (plan.*field != drawn.*field) absl::StrAppend(&command, " --", name, "=", plan.*field);
  };
  add("operations", &Plan::operations);
  add("clients", &Plan::clients);
  add("servers", &Plan::servers);
  add("keys", &Plan::keys);
  add("in_flight", &Plan::in_flight);
  if (plan.faults != drawn.faults) absl::StrAppend(&command, " --faults=", plan.faults);
  if (plan.focus != Focus::kAll) absl::StrAppend(&command, " --focus=", static_cast<int>(plan.focus));
  if (broken != Break::kNone) absl::StrAppend(&command, " --break=", static_cast<int>(broken));
  return command;
}

}  // namespace farlook::sim
