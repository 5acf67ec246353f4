#include "tests/sim/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::sim {
SimClient::SimClient(World* world, int number, int server, std::string address)
    : world_(world),
      number_(number),
      server_(server),
      address_(std::move(address)),
      read_only_(number > world->plan.servers && world->random.OneIn(8)),
      clock_(&world->scheduler),
      versions_(static_cast<size_t>(world->plan.keys)),
      numbers_(static_cast<size_t>(world->plan.keys)) {}

void SimClient::Start() {
  options_ = ClientOptions();
  options_.timeout_ms = world_->plan.timeout_ms;
  options_.read_only = read_only_;
  options_.max_in_flight = static_cast<uint32_t>(world_->random.Between(1, 16));
  options_.mirror_bytes = world_->random.OneIn(4) ? 0 : world_->plan.mirror_bytes;
  options_.share_mirror = false;  // otherwise two runs of a seed would differ
  // Like farlook::Lookups::kAuto over sockets; some clients use READs all the same.
  if (world_->plan.sockets && !world_->random.OneIn(4)) options_.lookups = Lookups::kMessages;
  ++life_;
  wake_ns_ = 0;
  confirmed_ = false;
  joined_ = world_->plan.groups == 1;
  cores_ = std::make_unique<client::Cores>(MakeCore(address_));
  Wake();
}

client::ClientCore* SimClient::MakeCore(const std::string& address) {
  auto endpoint = world_->network.CreateEndpoint(number_, [this, life = life_] {
    if (life == life_) Wake();
  });
  own_.push_back(
      std::make_unique<client::ClientCore>(std::move(endpoint), address, options_, clock_, world_->random.Next()));
  return own_.back().get();
}

// Does what Client::Connect() does, one step at a time.
void SimClient::Join() {
  client::ClientCore& home = cores_->home();
  if (!cores_->one()) {
    joined_ = std::all_of(own_.begin(), own_.end(), [](const auto& core) { return core->ready(); });
    for (const auto& core : own_) {
      if (!core->ready()) core->Connect();
    }
    cores_->Poll({});
    return;
  }
  home.Poll({});
  if (map_.has_value()) {
    if (!question_.done) return;
    if (question_.status.ok() && map_->Take(question_)) {
      question_ = client::Operation();
    } else {
      const auto map = kv::ClusterMap::Decode(map_->text());
      map_.reset();
      if (question_.status.ok() && map.ok() && map->Served().all()) Spread(*map);
      return;
    }
  } else if (home.ready()) {
    map_.emplace("map");
    question_ = client::Operation();
  } else {
    return home.Connect();
  }
  question_.blocking = true;
  map_->Ask(&question_);
  client::Operation* const question = &question_;
  home.StartUntil({&question, 1}, home.DeadlineFromNow(250));
}

// Connects to the other groups too. The group that it reached may have changed its primary meanwhile.
void SimClient::Spread(const kv::ClusterMap& map) {
  std::vector<client::ClientCore*> cores;
  for (const kv::ClusterMap::Group& group : map.groups) {
    if (group.members.empty()) continue;  // like Cores
    const bool is_home = absl::StrContains(address_, group.members[0]);
    cores.push_back(is_home ? own_[0].get() : MakeCore(absl::StrJoin(group.members, ",")));
  }
  const auto make = [this](const kv::ClusterMap::Group& group) -> absl::StatusOr<client::ClientCore*> {
    return MakeCore(absl::StrJoin(group.members, ","));
  };
  cores_->Spread(map, std::move(cores), make);
}

void SimClient::AddStats() {
  const ClientStats& stats = cores_->stats();
  total_.gets += stats.gets;
  total_.hits += stats.hits;
  total_.misses += stats.misses;
  total_.puts += stats.puts;
  total_.read_retries += stats.read_retries;
  total_.cached_hits += stats.cached_hits;
  total_.stale_locations += stats.stale_locations;
  total_.directory_refreshes += stats.directory_refreshes;
  total_.server_gets += stats.server_gets;
  total_.pulled_values += stats.pulled_values;
  total_.reconnects += stats.reconnects;
  total_.resent_requests += stats.resent_requests;
  total_.timeouts += stats.timeouts;
  total_.incarnation_changes += stats.incarnation_changes;
  total_.atomics += stats.atomics;
  total_.counter_requests += stats.counter_requests;
  total_.dead_cells += stats.dead_cells;
  total_.unknown_atomics += stats.unknown_atomics;
}

std::string SimClient::State() {
  if (!alive()) return absl::StrCat("client ", number_, " is dead");
  std::string text = absl::StrCat("client ", number_, joined_ ? ":" : ", still joining:");
  for (client::ClientCore* const core : cores_->all()) {
    absl::StrAppend(&text, " [", core->in_flight(), " operations under way, ",
                    core->ready() ? "connected" : "not connected", ", next look in ", core->wait_ms(), " ms, ",
                    core->refused().ToString(), "]");
  }
  const ClientStats& stats = cores_->stats();
  return absl::StrCat(text, "; reconnects ", stats.reconnects, ", bucket READs ", stats.bucket_reads, ", item READs ",
                      stats.item_reads, ", gets by message ", stats.server_gets, ", timeouts ", stats.timeouts,
                      ", keys still to be read ", std::max(0, reads() - next_read_));
}

void SimClient::Kill() {
  if (!alive()) return;
  AddStats();
  ending_ = true;
  ++life_;
  own_.clear();
  cores_.reset();
  map_.reset();
  ending_ = false;
  confirmed_ = false;
  // These writes may still be executed; no operation waits for them.
  slots_.clear();
  waiting_.clear();
  writes_under_way_ = 0;
}

void SimClient::Crash() {
  world_->network.Kill(party());
  Kill();
}

void SimClient::Stop(int64_t ns) {
  world_->Note(absl::StrCat("client ", number_, " is stopped for ", ns, " ns"));
  stopped_until_ns_ = world_->now_ns() + ns;
  stopped_ns_ += ns;
  world_->network.Stop(number_, ns);
}

void SimClient::WakeAfter(int64_t ns) {
  const int64_t at_ns = std::max(world_->now_ns() + ns, stopped_until_ns_);
  if (!alive() || (wake_ns_ != 0 && wake_ns_ <= at_ns)) return;
  wake_ns_ = at_ns;
  world_->scheduler.At(at_ns, [this, at_ns, life = life_] {
    if (life != life_ || wake_ns_ != at_ns) return;
    wake_ns_ = 0;
    Poll();
  });
}

void SimClient::ReadAll() {
  next_read_ = 0;
  Wake();
}

void SimClient::Poll() {
  if (busy_) return;  // when it is not busy, it polls again
  if (world_->now_ns() < stopped_until_ns_) return WakeAfter(0);
  if (!joined_) {
    Join();
    if (!joined_) return WakeAfter(200'000);
  }
  std::array<client::Operation*, 8> done;
  const bool once = world_->plan.network.held_receives;  // like a blocking call for several operations
  while (const size_t count = cores_->Poll(absl::MakeSpan(done))) {
    for (size_t i = 0; i < count; ++i) Ended(static_cast<Slot*>(done[i]->owner));
    if (once) break;
  }
  EndCalls();
  const auto most = static_cast<size_t>(world_->plan.in_flight);
  for (; next_read_ < reads() && cores_->in_flight() < most; ++next_read_) {
    const int key = next_read_ % world_->plan.keys;
    const bool counter = next_read_ >= world_->plan.keys;
    if (counter && !world_->NamesCounters(key)) continue;
    Begin({counter ? history::Type::kReadCounter : history::Type::kGet}, key, /*must_answer=*/true);
  }
  while (world_->operations_left > 0 && waiting_.empty() && cores_->in_flight() < most &&
         world_->now_ns() >= world_->quiet_until_ns) {
    --world_->operations_left;
    int begun = 1;
    if (world_->random.Below(100) < static_cast<uint64_t>(world_->plan.calls)) {
      begun = Call();
    } else {
      BeginAny();
    }
    if (world_->random.PerMillion(world_->plan.pauses)) {
      world_->quiet_until_ns = world_->now_ns() + world_->random.Between(0, 60'000'000);
    }
    for (int i = 0; i < begun && on_begin; ++i) on_begin();
    if (!alive()) return;
    if (world_->now_ns() < stopped_until_ns_) return WakeAfter(0);
  }
  if (once && !cores_->Arm()) return WakeAfter(0);
  if (world_->operations_left > 0 && world_->quiet_until_ns > world_->now_ns()) {
    WakeAfter(world_->quiet_until_ns - world_->now_ns());
  }
  const int64_t wait_ms = cores_->wait_ms();
  if (wait_ms >= 0) WakeAfter(std::max<int64_t>(1'000, wait_ms * 1'000'000));
}

}  // namespace farlook::sim
