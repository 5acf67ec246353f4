#include "tests/sim/faults.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/hash.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/handshake.h"
#include "tests/sim/keys.h"

namespace farlook::sim {
namespace {

constexpr rdma::sim::Party kStrangers = 2000;

// The network's faults are those of this run.
void SwitchFaults(const World& world, rdma::sim::NetworkOptions* options) {
  for (size_t site = 0; site < rdma::sim::kNetworkSites; ++site) {
    const auto fault = static_cast<Fault>(site);
    options->chances[site] = world.has(fault) ? world.plan.rate(fault) : 0;
  }
}

}  // namespace

FaultMaker::FaultMaker(World* world, std::vector<std::unique_ptr<SimServer>>* servers,
                       std::vector<std::unique_ptr<SimClient>>* clients)
    : world_(world), servers_(*servers), clients_(*clients) {
  rdma::sim::NetworkOptions& options = world_->network.options;
  SwitchFaults(*world_, &options);
  constexpr uint32_t kAmple = 512;
  if (!world_->has(Fault::kShortSendQueues)) options.capabilities.send_queue_depth = kAmple;
  if (!world_->has(Fault::kShortReceivesAtClients)) options.receives[rdma::sim::kClient] = kAmple;
  if (!world_->has(Fault::kShortReceivesAtServers)) options.receives[rdma::sim::kServer] = kAmple;
  for (const auto& server : servers_) {
    hostile_.push_back(std::make_unique<Hostile>(world_, server->party(), server->address()));
  }
  // Margins of docs/design-notes.md, "Retired segments": 25 ms are believed, 100 ms kept.
  const auto set_clock = [this](rdma::sim::SimClock* clock, Fault fault) {
    if (!world_->Strikes(fault)) return;
    clock->offset_ns = world_->random.Between(0, 1'000'000'000'000);
    const bool is_good = world_->plan.expires || world_->plan.replicas > 0;
    clock->drift_per_mille = is_good ? world_->random.Between(-1, 1) : world_->random.Between(-50, 50);
  };
  for (const auto& server : servers_) set_clock(&server->clock(), Fault::kServerClocks);
  for (const auto& client : clients_) set_clock(&client->clock(), Fault::kClientClocks);
  if (world_->plan.replicas > 0) {
    world_->may_die = [this](int replica) { return MayDie(replica); };
  }
  world_->network.on_accept = [this](rdma::sim::Party party, absl::string_view accept) {
    const auto decoded = kv::AcceptData::Decode(accept);
    if (decoded.ok()) incarnations_[party] = decoded->incarnation;
    for (const auto& client : clients_) {
      if (client->party() == party) client->Welcomed();
    }
  };
  world_->network.on_first_message = [this](rdma::sim::Party party, absl::string_view message) {
    welcomes_[party] = std::string(message);
    if (party < kStrangers || party >= Hostile::kFirst) return;
    const auto decoded = kv::Welcome::Decode(message);
    // A session that never wrote is resumed by any client that names it, but under another id.
    Stranger& stranger = *strangers_[static_cast<size_t>(party - kStrangers)];
    stranger.answered = true;
    const bool let_in =
        decoded.ok() && (decoded->flags & kv::Welcome::kResumed) != 0 && decoded->session == stranger.session;
    if (let_in && !stranger.heir) world_->Violate("a stranger was let into another client's session");
    if (let_in && stranger.gone) world_->Violate("the session of a client that said goodbye is kept");
    if (!let_in && stranger.kept) world_->Violate("the session of a client that died, and wrote, is not kept");
  };
}

void FaultMaker::OnOperation(SimClient* client) {
  World& world = *world_;
  rdma::sim::Random& random = world.random;
  const auto rate = static_cast<uint64_t>(world.plan.operations);
  const auto happens = [&](Fault fault) {
    return world.has(fault) && random.Below(rate) < world.plan.rate(fault) && world.Strikes(fault);
  };
  SimServer* server = servers_[static_cast<size_t>(client->server())].get();
  if (world.plan.replicas > 0) server = servers_[random.Below(servers_.size())].get();
  if (world.plan.hands_over && !world.healed && random.Below(rate) < world.plan.handovers) HandOver();
  if (world.plan.groups > 1 && !world.healed && random.Below(rate) < world.plan.slot_moves) MoveSlots();
  if (happens(Fault::kServerStop)) {
    const int64_t ns = random.Between(10'000, random.OneIn(2) ? 1'000'000 : 300'000'000);
    world.Note(absl::StrCat("server ", server->party() - 1000, " is stopped for ", ns, " ns"));
    server->Stop(ns);
  }
  if (happens(Fault::kClientStop)) {
    // This server between two operations, or another at any point.
    const size_t any = random.Below(2 * clients_.size());
    (any < clients_.size() ? clients_[any].get() : client)
        ->Stop(random.Between(10'000, random.OneIn(2) ? 1'000'000 : 150'000'000));
  }
  if (MayJump() && !world.plan.expires && happens(Fault::kServerJumps)) {
    last_jump_ns_ = world.now_ns();
    server->clock().offset_ns += random.Between(0, 20'000'000);
  }
  if (MayJump() && happens(Fault::kClientJumps)) {
    last_jump_ns_ = world.now_ns();
    client->JumpClock(random.Between(0, 2'000'000'000));
  }
  if (happens(Fault::kStrangers)) SendStranger(*client);
  if (happens(Fault::kHostileClients)) {
    hostile_[static_cast<size_t>(client->server())]->Wake(static_cast<int>(random.Between(20, 300)));
  }
  if (happens(Fault::kServerDeath)) KillServer(server);
  if (happens(Fault::kClientDeath)) KillClient(client);
}

void FaultMaker::KillServer(SimServer* server) {
  world_->scheduler.After(world_->random.Between(0, 20'000), [this, server] {
    if (over_ || !server->alive() || (server->starts() > 4 && world_->plan.replicas == 0)) return;
    const bool in_order = world_->plan.replicas > 0 &&
                          rdma::sim::Mix(world_->plan.seed + static_cast<uint64_t>(world_->now_ns())) % 3 == 0;
    if (in_order) return server->EndInOrder();
    server->Kill();
    world_->scheduler.After(world_->random.Between(1'000, world_->random.OneIn(2) ? 100'000 : 50'000'000),
                            [this, server] {
                              if (!over_ && !server->alive()) server->Start();
                            });
  });
}

void FaultMaker::KillClient(SimClient* client) {
  world_->scheduler.After(world_->random.Between(0, 20'000), [this, client] {
    if (over_ || !client->alive()) return;
    if (client->busy()) return KillClient(client);  // only this client knows what it read
    const bool crashes = world_->random.OneIn(2);
    world_->Note(absl::StrCat("client ", client->party(), crashes ? " dies" : " ends"));
    crashes ? client->Crash() : client->Kill();
    world_->scheduler.After(world_->random.Between(1'000, 10'000'000), [this, client] {
      if (!over_ && !client->alive()) client->Start();
    });
  });
}

// Each live member of the record has all acknowledged writes, unless a change of the record is under way.
bool FaultMaker::MayDie(int replica) const {
  if (world_->records.delayed() > 0) return false;
  const auto group = RecordOf(world_->GroupOf(replica));
  if (!group.ok()) return false;
  bool is_member = false, is_another_left = false;
  for (size_t i = 0; i < servers_.size(); ++i) {
    if (world_->GroupOf(static_cast<int>(i)) != world_->GroupOf(replica)) continue;
    if (group->Find(servers_[i]->incarnation()) == nullptr) continue;
    const bool is_it = i == static_cast<size_t>(replica);
    is_member = is_member || is_it;
    // A backup that leaves replaces no primary.
    is_another_left = is_another_left || (!is_it && servers_[i]->alive() && !servers_[i]->leaves());
  }
  return !is_member || is_another_left;
}

absl::StatusOr<cluster::Configuration> FaultMaker::RecordOf(int group) const {
  return cluster::DecodeConfiguration(world_->records.Get(World::GroupName(group)).value);
}

// Null: it is gone.
SimServer* FaultMaker::PrimaryOf(const cluster::Configuration& group) const {
  for (const auto& server : servers_) {
    if (server->incarnation() == group.primary().incarnation) return server.get();
  }
  return nullptr;
}

void FaultMaker::HandOver() {
  const auto group = RecordOf(static_cast<int>(world_->random.Below(static_cast<uint64_t>(world_->plan.groups))));
  if (!group.ok()) return;
  if (SimServer* const primary = PrimaryOf(*group)) primary->Ask(absl::StrCat("handover ", group->epoch));
}

// Moves slots around some key's; or cancels a move that is under way.
void FaultMaker::MoveSlots() {
  rdma::sim::Random& random = world_->random;
  const auto to = static_cast<int>(random.Below(2));
  const auto taker = RecordOf(to), giver = RecordOf(1 - to);
  if (!taker.ok() || !giver.ok()) return;
  SimServer* const primary = PrimaryOf(*taker);
  if (primary == nullptr) return;
  if (random.OneIn(6)) return primary->Ask("cancel");
  const kv::Hasher hasher(kHashSeed);
  const size_t slot = kv::ClusterSlotOf(hasher(world_->keys[random.Below(world_->keys.size())]));
  const size_t around = random.Below(1'000);
  kv::SlotSet slots;
  for (size_t i = slot - std::min(slot, around); i <= std::min(slot + around, kv::kClusterSlots - 1); ++i) slots.set(i);
  slots &= giver->slots;
  if (slots.none()) return;
  primary->Ask(absl::StrCat("take ", World::GroupName(1 - to), " ", kv::FormatSlots(slots)));
}

// Returns whether a clock may jump, one at a time: the quarantine tolerates one such jump, not several in a row.
bool FaultMaker::MayJump() const { return world_->now_ns() - last_jump_ns_ >= 200'000'000; }

// Sends a client that knows a session's id, but not its epoch.
void FaultMaker::SendStranger(const SimClient& client) {
  if (!client.confirmed()) return;
  std::unique_ptr<Stranger> stranger = StrangerOf(client);
  if (stranger == nullptr) return;
  stranger->hello.epoch = world_->random.OneIn(2) ? 0 : stranger->hello.epoch + 1'000;
  Send(std::move(stranger), client);
}

// Returns a client that presents the session as that client last received it.
std::unique_ptr<FaultMaker::Stranger> FaultMaker::StrangerOf(const SimClient& client) {
  const auto last = welcomes_.find(client.party());
  if (last == welcomes_.end()) return nullptr;
  const auto welcome = kv::Welcome::Decode(last->second);
  if (!welcome.ok()) return nullptr;
  auto stranger = std::make_unique<Stranger>();
  stranger->session = stranger->hello.session = welcome->session;
  stranger->hello.incarnation = incarnations_[client.party()];
  stranger->hello.epoch = welcome->epoch;
  stranger->hello.flags = (welcome->flags & kv::Welcome::kReadOnly) != 0 ? uint32_t{kv::Hello::kReadOnly} : 0;
  return stranger;
}

void FaultMaker::Send(std::unique_ptr<Stranger> stranger, const SimClient& client) {
  Stranger* const raw = stranger.get();
  stranger->endpoint = world_->network.CreateEndpoint(kStrangers + static_cast<int>(strangers_.size()), [this, raw] {
    world_->scheduler.After(world_->random.Between(100, 10'000), [raw] { raw->Poll(); });
  });
  kv::ConnectData connect;
  connect.session = raw->hello.session;
  connect.flags = raw->hello.flags != 0 ? uint32_t{kv::ConnectData::kReadOnly} : 0;
  auto connection = stranger->endpoint->Connect(servers_[static_cast<size_t>(client.server())]->address(),
                                                connect.Encode(), /*timeout_ms=*/raw->heir ? 60'000 : 50);
  if (connection.ok()) stranger->connection = *std::move(connection);
  if (!raw->heir) {
    world_->scheduler.After(world_->random.Between(100'000, 10'000'000), [raw] { raw->connection.reset(); });
  }
  strangers_.push_back(std::move(stranger));
}

// Ends all clients, some with a goodbye and some without, and resumes each session with all that its client knew.
void FaultMaker::Part() {
  for (const auto& client : clients_) {
    if (!client->ready()) continue;
    std::unique_ptr<Stranger> heir = StrangerOf(*client);
    if (heir == nullptr) continue;
    heir->heir = true;
    const bool sends_goodbye = world_->random.OneIn(2);
    heir->gone = sends_goodbye;
    heir->kept = !sends_goodbye && client->confirmed() && !world_->plan.has(Fault::kEvictions);
    if (sends_goodbye) {
      world_->Note(absl::StrCat("client ", client->party(), " ends"));
      client->Kill();
    } else {
      world_->Note(absl::StrCat("client ", client->party(), " dies"));
      client->Crash();
    }
    heirs_.emplace_back(std::move(heir), client.get());
  }
  // Not before the servers know: an heir that overtakes the goodbye acts as the client itself, which sent it too early.
  world_->scheduler.After(1'000'000'000, [this] {
    for (auto& [heir, client] : heirs_) Send(std::move(heir), *client);
    heirs_sent_ = true;
  });
}

bool FaultMaker::heirs_answered() const {
  return heirs_sent_ && std::all_of(strangers_.begin(), strangers_.end(),
                                    [](const auto& stranger) { return !stranger->heir || stranger->answered; });
}

void FaultMaker::Stranger::Poll() {
  rdma::Completion completions[4];
  const size_t n = endpoint->Poll(absl::MakeSpan(completions));
  for (size_t i = 0; i < n; ++i) {
    if (completions[i].opcode != rdma::Opcode::kConnected || connection == nullptr) continue;
    if (connection->PostSend(hello.Encode(), {})) connection->Ring();
  }
  endpoint->Arm();
}

void FaultMaker::OnHealthyEnd(rdma::sim::Party party, bool is_server, rdma::sim::Party peer) {
  // In a group all connections end with each change of it.
  if (over_ || party >= kStrangers || peer >= kStrangers || world_->plan.replicas > 0) return;
  if (is_server) {
    for (const auto& server : servers_) {
      if (server->party() == party && server->ending()) return;
    }
    // It may have been too slow to acknowledge that counters were deleted.
    if (world_->plan.counters && world_->plan.patience_ns < kLongPatienceNs) return;
    // The process may also be stopped in a call of its own, in which the others continue: such calls end in the reverse
    // order.
    for (const auto& client : clients_) {
      if (client->party() == peer && client->busy()) return;
    }
    return world_->Violate(absl::StrCat("server ", party - 1000, " dropped a client that had done nothing wrong"));
  }
  // A client gives a connection up when a READ into its caller's memory outlives the deadline, and when it has no
  // memory.
  if (world_->network.options.capabilities.any_local_memory || world_->plan.has(Fault::kNoMemoryAtClients)) return;
  for (const auto& client : clients_) {
    if (client->party() == party && client->ending()) return;
  }
  world_->Violate(absl::StrCat("client ", party, " gave up a connection that was whole"));
}

void FaultMaker::End() {
  over_ = true;
  for (const auto& hostile : hostile_) hostile->End();
}

uint64_t FaultMaker::hostile_connections() const {
  uint64_t count = 0;
  for (const auto& hostile : hostile_) count += hostile->accepted();
  return count;
}

// Hostile clients stay hostile.
void FaultMaker::Heal() {
  world_->Note("no faults from now on");
  world_->healed = true;
  world_->network.options.ends_lose_messages = false;
  SwitchFaults(*world_, &world_->network.options);
  for (const auto& server : servers_) {
    if (!server->alive()) server->Start();
  }
  for (const auto& client : clients_) {
    if (!client->alive()) client->Start();
  }
}

}  // namespace farlook::sim
