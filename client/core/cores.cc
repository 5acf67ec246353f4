#include "client/core/cores.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kv/wire/message.h"

namespace farlook::client {
namespace {

static_assert(std::is_trivially_copyable_v<ClientStats> && sizeof(ClientStats) % sizeof(uint64_t) == 0);
using StatsWords = std::array<uint64_t, sizeof(ClientStats) / sizeof(uint64_t)>;

// Bounds for a text of a faulty server. A map is the longest text; its pages are nearly full, except the last.
constexpr size_t kMostTextBytes = kv::kMaxMapBytes;
constexpr size_t kMostPages = 2 * kMostTextBytes / kv::kMaxReplyPayloadBytes;

}  // namespace

bool Pages::Take(const Operation& operation) {
  text_ += page_;
  // The version is the number of lines that did not fit in the reply.
  if (operation.version == 0 || page_.empty() || text_.size() > kMostTextBytes || ++pages_ > kMostPages) return false;
  question_ = absl::StrCat(what_, "@", std::count(text_.begin(), text_.end(), '\n'));
  return true;
}

Cores::~Cores() {
  if (cluster_.has_value() && cluster_->epoll >= 0) close(cluster_->epoll);
}

void Cores::Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores, MakeCore make) {
  cluster_.emplace(map, *home_, cores.size(), std::move(make));
  all_ = std::move(cores);
  all_.reserve(kv::kMaxGroups);  // callers iterate over it while waiting, and a core may be added meanwhile
  cluster_->sorted.resize(all_.size() + 1);
  for (const kv::ClusterMap::Group& group : map.groups) {
    if (group.members.empty()) continue;
    cluster_->owners.Hint(groups_.size(), group.slots);
    groups_.push_back(group.name);
  }
  for (size_t i = 0; i < groups_.size(); ++i) all_[i]->SetGroup(groups_[i], map.hash_seed, &cluster_->owners, i);
  cluster_->moved.Turn(all_);  // no operations: lets Route() follow the Welcomes
}

absl::Status Cores::JoinDescriptors() {
  cluster_->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (cluster_->epoll < 0) return absl::ResourceExhaustedError("no file descriptors left (raise ulimit -n)");
  for (const ClientCore* core : all_) {
    if (absl::Status status = Join(core); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Cores::Join(const ClientCore* core) {
  epoll_event event = {};
  event.events = EPOLLIN;
  if (epoll_ctl(cluster_->epoll, EPOLL_CTL_ADD, core->fd(), &event) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError("the kernel watches no more descriptors for this user");
}

absl::StatusOr<ClientCore*> Cores::OfGroup(absl::string_view name) {
  if (name.empty()) return home_;
  const auto found = std::find(groups_.begin(), groups_.end(), name);
  if (found != groups_.end()) return all_[static_cast<size_t>(found - groups_.begin())];
  if (one()) return absl::NotFoundError(absl::StrCat("there is no group ", name, ": the server is not in a cluster"));
  return absl::NotFoundError(
      absl::StrCat("the cluster has no group ", name, "; its groups are ", absl::StrJoin(groups_, ", ")));
}

// A separate function, so that clients of one server need little stack.
size_t Cores::Route(Operation* operation) {
  operation->hash = cluster_->hasher(operation->key);
  return cluster_->owners.Route(kv::ClusterSlotOf(operation->hash));
}

absl::Span<const std::vector<Operation*>> Cores::Sort(absl::Span<Operation* const> operations, bool all_of_keys) {
  for (auto& some : cluster_->sorted) some.clear();
  for (Operation* operation : operations) {
    const size_t index = all_of_keys || IsOfAKey(operation->kind)
                             ? Route(operation)
                             : static_cast<size_t>(std::find(all_.begin(), all_.end(), home_) - all_.begin());
    cluster_->sorted[index].push_back(operation);
  }
  return cluster_->sorted;
}

void Cores::Start(absl::Span<Operation* const> operations) {
  if (one()) return home_->Start(operations);
  const auto sorted = Sort(operations);
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!sorted[i].empty()) all_[i]->Start(sorted[i]);
  }
  for (Operation* operation : sorted.back()) cluster_->moved.Start(operation, ClientCore::kNoDeadline);
}

void Cores::GiveUp(absl::FunctionRef<bool(const Operation*)> which) {
  for (ClientCore* core : all_) core->GiveUp(which);
  if (!one()) cluster_->moved.GiveUp(which);
}

void Cores::TendBusy() {
  bool any = cluster_->moved.holds();
  for (ClientCore* core : all_) {
    if (!core->busy()) continue;
    core->Poll({});
    any = true;
  }
  if (any) PollMoved();
}

void Cores::PollMoved() {
  cluster_->moved.Turn(all_);
  LookForMap();
}

int64_t Cores::look_ms() {
  MovedOperations& moved = cluster_->moved;
  const int64_t now_ns = moved.NowNs();
  int64_t next_ns = moved.due_ns(now_ns);
  const Question& question = cluster_->question;
  if (moved.holds() && question.asked == nullptr) next_ns = std::min(next_ns, question.due_ns);
  return next_ns == ClientCore::kNoDeadline ? -1 : std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

// ---- The map, which shows changes of the cluster.

void Cores::LookForMap() {
  Question& question = cluster_->question;
  if (question.asked != nullptr) {
    if (question.operation.done) TakeMap();
    return;
  }
  const auto groups = all();
  const bool holds = cluster_->moved.holds();
  const bool lost =
      std::any_of(groups.begin(), groups.end(), [](const ClientCore* core) { return core->busy() && !core->ready(); });
  const bool stranded = lost && std::any_of(groups.begin(), groups.end(), [](const ClientCore* core) {
                          return core->in_flight() > 0 && !core->ready();
                        });
  if (!lost) question.lost = false;
  if (!holds && !lost && !cluster_->waiting) return;
  const int64_t now_ns = cluster_->moved.NowNs();
  if (holds) {
    if (now_ns - cluster_->held_ns > kForgetNs) question.due_ns = question.pause_ns = 0;
    question.due_ns = std::min(question.due_ns, now_ns + kMostPauseNs);
    cluster_->held_ns = now_ns;
  }
  if (holds || stranded) {
    cluster_->waiting = true;
    cluster_->waited_ns = now_ns;
  } else if (cluster_->waiting && now_ns - cluster_->waited_ns > kForgetNs) {
    cluster_->waiting = false;
    // A core that should reconnect and cannot has no operations that wait for it.
    for (ClientCore* core : groups) core->StopConnecting();
  }
  if (!holds && !lost) return;
  if (lost && !std::exchange(question.lost, true) && !holds) question.due_ns = now_ns + kLostNs;
  if (now_ns < question.due_ns) return;
  question.pause_ns = holds ? std::clamp(2 * question.pause_ns, kLeastPauseNs, kMostPauseNs) : kAskAgainNs;
  question.due_ns = now_ns + question.pause_ns;
  for (size_t i = 0; i < groups.size(); ++i) {
    ClientCore* const core = groups[++question.turn % groups.size()];
    if (!core->ready()) continue;
    question.asked = core;
    question.pages.emplace("map");
    return Ask();
  }
  // Unused connections may have ended. Connecting again shows the slots of each group.
  if (holds) {
    for (ClientCore* core : groups) core->Connect();
  }
}

void Cores::Ask() {
  Question& question = cluster_->question;
  Operation* const operation = &question.operation;
  *operation = Operation();
  operation->blocking = true;
  question.pages->Ask(operation);
  question.asked->StartUntil(operation, question.asked->DeadlineFromNow(kAnswerMs));
}

void Cores::TakeMap() {
  Question& question = cluster_->question;
  if (question.operation.status.ok() && question.pages->Take(question.operation)) return Ask();
  question.asked = nullptr;
  if (!question.operation.status.ok()) return;
  const absl::StatusOr<kv::ClusterMap> map = kv::ClusterMap::Decode(question.pages->text());
  if (!map.ok() || map->id != cluster_->id) return;  // its pages belong to two maps, or to another cluster
  for (const kv::ClusterMap::Group& group : map->groups) {
    if (group.members.empty()) continue;
    const auto found = std::find(groups_.begin(), groups_.end(), group.name);
    if (found == groups_.end()) {
      if (cluster_->waiting) Add(group);
      continue;
    }
    ClientCore* const core = all_[static_cast<size_t>(found - groups_.begin())];
    core->Learn(group.members);
    // The group may have slots that operations wait for. An unreachable group without slots may be gone.
    const bool is_news = group.epoch > core->welcome().group_epoch && (core->ready() || group.slots.any());
    if (cluster_->waiting && is_news) core->Renew();
  }
}

// Adds a group that has joined the cluster; its Welcome will name its slots.
void Cores::Add(const kv::ClusterMap::Group& group) {
  if (cluster_->make == nullptr || groups_.size() == kv::kMaxGroups) return;
  const absl::StatusOr<ClientCore*> core = cluster_->make(group);
  if (!core.ok()) return;
  if (cluster_->epoll >= 0 && !Join(*core).ok()) {
    cluster_->make = nullptr;  // no descriptors would be left for another group either
    return;
  }
  const size_t index = groups_.size();
  groups_.push_back(group.name);
  all_.push_back(*core);
  cluster_->sorted.emplace_back();
  cluster_->owners.Grow();
  (*core)->SetGroup(group.name, cluster_->hasher.seed(), &cluster_->owners, index);
  (*core)->user_memory()->RegisterAllOf(*home_->user_memory());
  (*core)->Connect();
}

// ---- The calls of ClientCore.

size_t Cores::PollAll(absl::Span<Operation*> done) {
  // Polls all busy cores, and one of the others.
  size_t count = cluster_->moved.Take(done);
  for (size_t i = 0; i < all_.size(); ++i) {
    ClientCore* const core = all_[(cluster_->first + i) % all_.size()];
    if (i == 0 || core->busy()) count += core->Poll(done.subspan(count));
  }
  ++cluster_->first;
  PollMoved();
  return count + cluster_->moved.Take(done.subspan(count));
}

size_t Cores::in_flight() const {
  size_t sum = one() ? 0 : cluster_->moved.in_flight();
  for (const ClientCore* core : all_) sum += core->in_flight();
  const bool asks = !one() && cluster_->question.asked != nullptr && !cluster_->question.operation.done;
  return sum - (asks ? 1 : 0);  // without the question for the map
}

bool Cores::has_ended() const {
  return (!one() && cluster_->moved.has_ended()) ||
         std::any_of(all_.begin(), all_.end(), [](const ClientCore* core) { return core->has_ended(); });
}

bool Cores::has_moved() const {
  return std::any_of(all_.begin(), all_.end(), [](const ClientCore* core) { return core->has_moved(); });
}

bool Cores::Arm() {
  if (has_moved() || (!one() && cluster_->moved.has_ended())) return false;
  return std::all_of(all_.begin(), all_.end(), [](ClientCore* core) { return core->Arm(); });
}

int64_t Cores::wait_ms() {
  if (has_moved()) return 0;
  int64_t least = one() ? -1 : look_ms();
  for (ClientCore* core : all_) {
    const int64_t wait_ms = core->wait_ms();
    if (wait_ms >= 0 && (least < 0 || wait_ms < least)) least = wait_ms;
  }
  return least;
}

bool Cores::local() const {
  return std::all_of(all_.begin(), all_.end(), [](const ClientCore* core) { return core->local(); });
}

uint64_t Cores::memory_bytes() const {
  uint64_t sum = one() ? 0 : sizeof *cluster_ + cluster_->moved.memory_bytes() - sizeof cluster_->moved;
  for (const ClientCore* core : all_) sum += core->memory_bytes();
  return sum;
}

const ClientStats& Cores::stats() const {
  if (one()) return home_->stats();
  auto sums = std::bit_cast<StatsWords>(cluster_->moved.stats());
  for (const ClientCore* core : all_) {
    const auto words = std::bit_cast<StatsWords>(core->stats());
    for (size_t i = 0; i < words.size(); ++i) sums[i] += words[i];
  }
  cluster_->sums = std::bit_cast<ClientStats>(sums);
  return cluster_->sums;
}

}  // namespace farlook::client
