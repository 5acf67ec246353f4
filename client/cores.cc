#include "client/cores.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::client {
namespace {

static_assert(kv::kMaxGroups <= UINT8_MAX, "a slot's owner is a byte");
static_assert(std::is_trivially_copyable_v<ClientStats> && sizeof(ClientStats) % sizeof(uint64_t) == 0);
using StatsWords = std::array<uint64_t, sizeof(ClientStats) / sizeof(uint64_t)>;

// A server may know no end; a map is the longest that there is.
constexpr size_t kMostTextBytes = kv::kMaxMapBytes;

}  // namespace

bool Pages::Take(const Operation& operation) {
  text_ += page_;
  // The version is the number of lines that the reply had no room for.
  if (operation.version == 0 || page_.empty() || text_.size() > kMostTextBytes) return false;
  question_ = absl::StrCat(what_, "@", std::count(text_.begin(), text_.end(), '\n'));
  return true;
}

Cores::~Cores() {
  if (cluster_.has_value() && cluster_->epoll >= 0) close(cluster_->epoll);
}

void Cores::Spread(const kv::ClusterMap& map, std::vector<ClientCore*> cores) {
  cluster_.emplace(map.hash_seed);
  cluster_->sorted.resize(cores.size());
  all_ = std::move(cores);
  cluster_->owners.fill(static_cast<uint8_t>(all_.size() - 1));
  for (const kv::ClusterMap::Group& group : map.groups) {
    if (group.members.empty()) continue;
    const size_t index = groups_.size();
    groups_.push_back(group.name);
    all_[index]->SetGroup(group.name, map.hash_seed);
    for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
      if (group.slots[slot]) cluster_->owners[slot] = static_cast<uint8_t>(index);
    }
  }
}

absl::Status Cores::JoinDescriptors() {
  cluster_->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (cluster_->epoll < 0) return absl::ResourceExhaustedError("no file descriptors left (raise ulimit -n)");
  for (const ClientCore* core : all_) {
    epoll_event event = {};
    event.events = EPOLLIN;
    if (epoll_ctl(cluster_->epoll, EPOLL_CTL_ADD, core->fd(), &event) != 0) {
      return absl::ResourceExhaustedError("the kernel watches no more descriptors for this user");
    }
  }
  return absl::OkStatus();
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
  return cluster_->owners[kv::ClusterSlotOf(operation->hash)];
}

absl::Span<const std::vector<Operation*>> Cores::Sort(absl::Span<Operation* const> operations) {
  for (auto& some : cluster_->sorted) some.clear();
  for (Operation* operation : operations) {
    const size_t index = IsOfAKey(operation->kind)
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
  for (ClientCore* core : all_) {
    if (core->busy()) core->Poll({});
  }
}

// ---- A group that has other servers by now.

void Cores::LookForLost() {
  Question& question = cluster_->question;
  if (question.asked != nullptr) {
    if (question.operation.done) TakeMap();
    return;
  }
  const auto groups = all().first(groups_.size());
  const auto lost =
      std::find_if(groups.begin(), groups.end(), [](const ClientCore* core) { return core->busy() && !core->ready(); });
  if (lost == groups.end()) {
    question.due_ns = 0;
    return;
  }
  const int64_t now_ns = (*lost)->last_ns();
  if (question.due_ns == 0) question.due_ns = now_ns + kLostNs;
  if (now_ns < question.due_ns) return;
  question.due_ns = now_ns + kAskAgainNs;
  for (size_t i = 0; i < groups.size(); ++i) {
    ClientCore* const core = groups[++question.turn % groups.size()];
    if (!core->ready()) continue;
    question.asked = core;
    question.pages.emplace("map");
    return Ask();
  }
}

void Cores::Ask() {
  Question& question = cluster_->question;
  Operation* const operation = &question.operation;
  *operation = Operation();
  operation->blocking = true;
  question.pages->Ask(operation);
  question.asked->StartUntil({&operation, 1}, question.asked->DeadlineFromNow(kAnswerMs));
}

void Cores::TakeMap() {
  Question& question = cluster_->question;
  if (question.operation.status.ok() && question.pages->Take(question.operation)) return Ask();
  question.asked = nullptr;
  if (!question.operation.status.ok()) return;
  const absl::StatusOr<kv::ClusterMap> map = kv::ClusterMap::Decode(question.pages->text());
  if (!map.ok()) return;  // its pages are of two maps, as it seems
  for (size_t i = 0; i < groups_.size(); ++i) {
    const kv::ClusterMap::Group* const group = map->Find(groups_[i]);
    if (group != nullptr && !group->members.empty()) all_[i]->Learn(group->members);
  }
}

// ---- As the calls of ClientCore.

size_t Cores::Poll(absl::Span<Operation*> done) {
  if (one()) [[likely]]
    return home_->Poll(done);
  // Those that somebody waits for, and one of the others.
  size_t count = 0;
  for (size_t i = 0; i < all_.size(); ++i) {
    ClientCore* const core = all_[(cluster_->first + i) % all_.size()];
    if (i == 0 || core->busy()) count += core->Poll(done.subspan(count));
  }
  ++cluster_->first;
  LookForLost();
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

bool Cores::Arm() {
  return std::all_of(all_.begin(), all_.end(), [](ClientCore* core) { return core->Arm(); });
}

int64_t Cores::wait_ms() {
  int64_t least = -1;
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
