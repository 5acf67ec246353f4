#include "client/cores.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kv/message.h"

namespace farlook::client {
namespace {

static_assert(std::is_trivially_copyable_v<ClientStats> && sizeof(ClientStats) % sizeof(uint64_t) == 0);
using StatsWords = std::array<uint64_t, sizeof(ClientStats) / sizeof(uint64_t)>;

// A server may know no end; a map is the longest that there is. Its pages are nearly full, but for the last.
constexpr size_t kMostTextBytes = kv::kMaxMapBytes;
constexpr size_t kMostPages = 2 * kMostTextBytes / kv::kMaxReplyPayloadBytes;

}  // namespace

bool Pages::Take(const Operation& operation) {
  text_ += page_;
  // The version is the number of lines that the reply had no room for.
  if (operation.version == 0 || page_.empty() || text_.size() > kMostTextBytes || ++pages_ > kMostPages) return false;
  question_ = absl::StrCat(what_, "@", std::count(text_.begin(), text_.end(), '\n'));
  return true;
}

Cores::~Cores() {
  if (cluster_.has_value() && cluster_->epoll >= 0) close(cluster_->epoll);
}

void Cores::Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores, MakeCore make) {
  cluster_.emplace(map, cores.size(), std::move(make));
  cluster_->nobody = home_->MakeNobody();
  all_ = std::move(cores);
  all_.reserve(kv::kMaxGroups + 1);  // who goes through them may wait, and one may come meanwhile
  all_.push_back(cluster_->nobody.get());
  cluster_->sorted.resize(all_.size());
  for (const kv::ClusterMap::Group& group : map.groups) {
    if (group.members.empty()) continue;
    cluster_->owners.Hint(groups_.size(), group.slots);
    groups_.push_back(group.name);
  }
  for (size_t i = 0; i < groups_.size(); ++i) all_[i]->SetGroup(groups_[i], map.hash_seed, &cluster_->owners, i);
  StartMoved();  // none: Route() follows what the Welcomes said
}

absl::Status Cores::JoinDescriptors() {
  cluster_->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (cluster_->epoll < 0) return absl::ResourceExhaustedError("no file descriptors left (raise ulimit -n)");
  for (const ClientCore* core : served()) {
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
  if (one()) return absl::NotFoundError(absl::StrCat("there is no group ", name, ": the server is of no cluster"));
  return absl::NotFoundError(
      absl::StrCat("the cluster has no group ", name, "; its groups are ", absl::StrJoin(groups_, ", ")));
}

// Apart, so that clients of one server need little of the stack.
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
}

void Cores::TendBusy() {
  bool any = false;
  for (ClientCore* core : all_) {
    if (!core->busy()) continue;
    core->Poll({});
    any = true;
  }
  if (any) LookAround();
}

// ---- Operations whose slots have moved.

void Cores::LookAround() {
  TakeMoved();
  if (cluster_->owners.unsettled()) StartMoved();
  LookForMap();
}

// They wait with nobody: before those that were started later and wait there already.
void Cores::TakeMoved() {
  for (size_t i = 0; i < groups_.size(); ++i) {
    if (!all_[i]->has_moved()) continue;
    const int64_t now_ns = cluster_->nobody->NowNs();
    all_[i]->TakeMoved([&](Operation* operation) {
      cluster_->owners.Refused(i, kv::ClusterSlotOf(operation->hash), now_ns);
      cluster_->nobody->Resume(operation);
    });
  }
}

// None of a slot of which a request is still under way, as that came first.
void Cores::StartMoved() {
  for (ClientCore* core : served()) {
    if (!core->ready()) core->WithdrawMoved();
  }
  TakeMoved();
  kv::SlotSet busy;
  for (const ClientCore* core : served()) {
    core->ForEachRequest([&busy](const Operation& operation) {
      if (IsOfAKey(operation.kind)) busy.set(kv::ClusterSlotOf(operation.hash));
    });
  }
  const kv::SlotSet settled = cluster_->owners.Settle(busy, cluster_->nobody->NowNs());
  if (settled.none() || !cluster_->nobody->holds()) return;
  kv::SlotSet written;
  cluster_->nobody->TakeHeld(
      [&settled](const Operation& operation) { return settled[kv::ClusterSlotOf(operation.hash)]; },
      [this, &written](Operation* operation) {
        const size_t slot = kv::ClusterSlotOf(operation->hash);
        operation->after_moved = IsWrite(operation->kind) && !written[slot];
        if (operation->after_moved) written.set(slot);
        all_[cluster_->owners.Route(slot)]->Resume(operation);
      });
  for (ClientCore* core : served()) core->Flush();
}

int64_t Cores::look_ms() const {
  const Cluster& cluster = *cluster_;
  const int64_t now_ns = cluster.nobody->NowNs();
  int64_t next_ns = ClientCore::kNoDeadline;
  // What waits until requests are answered that are under way, waits for their cores.
  if (cluster.owners.unsettled() && cluster.owners.next_try_ns() > now_ns) next_ns = cluster.owners.next_try_ns();
  const Question& question = cluster.question;
  if (cluster.nobody->holds() && question.asked == nullptr) next_ns = std::min(next_ns, question.due_ns);
  return next_ns == ClientCore::kNoDeadline ? -1 : std::max<int64_t>(0, (next_ns - now_ns + 999'999) / 1'000'000);
}

// ---- The map, which tells what is new.

void Cores::LookForMap() {
  Question& question = cluster_->question;
  if (question.asked != nullptr) {
    if (question.operation.done) TakeMap();
    return;
  }
  const auto groups = served();
  const bool holds = cluster_->nobody->holds();
  const bool lost =
      std::any_of(groups.begin(), groups.end(), [](const ClientCore* core) { return core->busy() && !core->ready(); });
  const bool stranded = lost && std::any_of(groups.begin(), groups.end(), [](const ClientCore* core) {
                          return core->in_flight() > 0 && !core->ready();
                        });
  if (!lost) question.lost = false;
  if (!holds && !lost && !cluster_->waiting) return;
  const int64_t now_ns = cluster_->nobody->NowNs();
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
    // Who was to connect anew and is not there has nothing that anybody waits for.
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
  // Connections that nobody used have ended: whoever connects hears which slots its group has.
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
  if (!map.ok() || map->id != cluster_->id) return;  // its pages are of two maps, as it seems
  for (const kv::ClusterMap::Group& group : map->groups) {
    if (group.members.empty()) continue;
    const auto found = std::find(groups_.begin(), groups_.end(), group.name);
    if (found == groups_.end()) {
      if (cluster_->waiting) Add(group);
      continue;
    }
    ClientCore* const core = all_[static_cast<size_t>(found - groups_.begin())];
    core->Learn(group.members);
    // It may have slots that are waited for. One that has none, and is not reached, need not be there any more.
    const bool is_news = group.epoch > core->welcome().group_epoch && (core->ready() || group.slots.any());
    if (cluster_->waiting && is_news) core->Renew();
  }
}

// A group that has joined the cluster: its Welcome will say which slots it has.
void Cores::Add(const kv::ClusterMap::Group& group) {
  if (cluster_->make == nullptr || groups_.size() == kv::kMaxGroups) return;
  const absl::StatusOr<ClientCore*> core = cluster_->make(group);
  if (!core.ok()) return;
  if (cluster_->epoll >= 0 && !Join(*core).ok()) {
    cluster_->make = nullptr;  // nor will there be descriptors for another one
    return;
  }
  const size_t index = groups_.size();
  groups_.push_back(group.name);
  all_.insert(all_.end() - 1, *core);
  cluster_->sorted.emplace_back();
  cluster_->owners.Grow();
  (*core)->SetGroup(group.name, cluster_->hasher.seed(), &cluster_->owners, index);
  (*core)->user_memory()->RegisterAllOf(*home_->user_memory());
  (*core)->Connect();
}

// ---- As the calls of ClientCore.

size_t Cores::PollAll(absl::Span<Operation*> done) {
  // Those that somebody waits for, and one of the others.
  size_t count = 0;
  for (size_t i = 0; i < all_.size(); ++i) {
    ClientCore* const core = all_[(cluster_->first + i) % all_.size()];
    if (i == 0 || core->busy()) count += core->Poll(done.subspan(count));
  }
  ++cluster_->first;
  LookAround();
  return count;
}

size_t Cores::in_flight() const {
  size_t sum = 0;
  for (const ClientCore* core : all_) sum += core->in_flight();
  const bool asks = !one() && cluster_->question.asked != nullptr && !cluster_->question.operation.done;
  return sum - (asks ? 1 : 0);  // the user's
}

bool Cores::has_ended() const {
  return std::any_of(all_.begin(), all_.end(), [](const ClientCore* core) { return core->has_ended(); });
}

bool Cores::has_moved() const {
  const auto cores = served();
  return std::any_of(cores.begin(), cores.end(), [](const ClientCore* core) { return core->has_moved(); });
}

bool Cores::Arm() {
  if (has_moved()) return false;
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
  const auto cores = served();
  return std::all_of(cores.begin(), cores.end(), [](const ClientCore* core) { return core->local(); });
}

uint64_t Cores::memory_bytes() const {
  uint64_t sum = cluster_.has_value() ? sizeof *cluster_ : 0;
  for (const ClientCore* core : all_) sum += core->memory_bytes();
  return sum;
}

const ClientStats& Cores::stats() const {
  if (one()) return home_->stats();
  StatsWords sums = {};
  for (const ClientCore* core : all_) {
    const auto words = std::bit_cast<StatsWords>(core->stats());
    for (size_t i = 0; i < words.size(); ++i) sums[i] += words[i];
  }
  cluster_->sums = std::bit_cast<ClientStats>(sums);
  return cluster_->sums;
}

}  // namespace farlook::client
