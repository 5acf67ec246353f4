#include "server/daemon/server.h"

#include <pthread.h>
#include <signal.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "farlook/version.h"
#include "kv/layout/limits.h"
#include "kv/table/table.h"
#include "rdma/choices.h"
#include "rdma/clock.h"
#include "rdma/durations.h"
#include "rdma/transport.h"
#include "server/acceptor/acceptor.h"
#include "server/acceptor/acceptor_thread.h"
#include "server/base/log.h"
#include "server/base/partition_locks.h"
#include "server/base/server_time.h"
#include "server/counters/cell_domain.h"
#include "server/counters/counters.h"
#include "server/daemon/descriptors.h"
#include "server/daemon/open_group.h"
#include "server/daemon/start_log.h"
#include "server/daemon/stat_text.h"
#include "server/daemon/table_memory.h"
#include "server/daemon/violation_log.h"
#include "server/executor/client_figures.h"
#include "server/group/group.h"
#include "server/group/process_lock.h"
#include "server/replication/commit_gate.h"
#include "server/session/connection_list.h"
#include "server/session/connection_quota.h"
#include "server/session/users.h"
#include "server/session/users_file.h"
#include "server/worker/worker.h"
#include "server/worker/worker_thread.h"

namespace farlook::server {
namespace {

uint64_t Random64() {
  uint64_t word;
  // So short a read neither fails nor is cut short, except by a signal early at boot.
  while (getrandom(&word, sizeof word, 0) != sizeof word) {
    if (errno != EINTR) std::abort();
  }
  return word;
}

uint64_t RandomNonzero() {
  while (true) {
    if (const uint64_t word = Random64(); word != 0) return word;
  }
}

// Delay before clients are notified that the server is still starting: if it is ready within a moment, they just wait.
constexpr int kPatienceMs = 500;

// Time for which a backup that stops waits until the group's record lacks it. A slow directory takes most of it.
constexpr absl::Duration kMostLeaving = absl::Seconds(1);

// Starts threads that receive no signals: those are for the caller's thread. Signals are blocked before the start,
// because threads inherit the mask.
absl::Status WithoutSignals(const std::function<void()>& start) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status status;
  try {
    start();
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what(), " (see ulimit -u)"));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

}  // namespace

// Members are destroyed from the last to the first: threads, workers with their connections, endpoints, listeners,
// table, memory.
class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options)
      : options_(options), started_ns_(clock_.NowNs()), time_(ServerTime::OfHost(started_ns_)) {}
  ~Impl() { Stop(); }

  absl::Status Start(const std::function<void(int)>& on_progress);
  void Stop();
  absl::Status ReloadUsers();
  void JoinGroup();
  void BeginGroupFromCopy(uint64_t epoch) {
    if (group_ != nullptr) group_->BeginFromCopy(epoch);
  }
  void LogReady() const { server::LogReady(facts_, clock_.NowNs() - started_ns_); }
  std::string Stats(absl::string_view prefix) const;
  const ServerFacts& facts() const { return facts_; }

 private:
  struct Seat {  // everything of one worker
    std::vector<std::unique_ptr<rdma::Endpoint>> endpoints;
    std::unique_ptr<Worker> worker;
    std::unique_ptr<WorkerThread> thread;
  };

  absl::Status ReadUsers();
  absl::Status OpenGroup();
  void TakeLayout();
  absl::Status Listen();
  absl::Status ListenAt(const std::string& address, int64_t socket_gid);
  absl::Status Prepare(const std::function<void(int)>& on_progress);
  absl::Status MakeTable(const std::function<void(int)>& on_progress);
  absl::Status MakeCounters();
  absl::Status Offer();
  absl::Status MakeWorker(int number);
  absl::Status StartThreads();
  void StartEachThread();

  const ServerOptions options_;
  const rdma::Clock& clock_ = rdma::Clock::Real();
  const int64_t started_ns_;
  const ServerTime time_;
  const TableTime table_time_{&clock_, time_};
  ServerFacts facts_;
  mutable StatOrder stat_order_;
  std::unique_ptr<TableMemory> memory_;
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Group> group_;  // null: it has no group
  std::unique_ptr<CommitGate> gate_;
  std::unique_ptr<ProcessLock> process_lock_;  // released when nothing of this server can be READ any more
  // Marks the server as left in the group's record at destruction. The lock is still held then, so that no backup
  // proposes itself too early, in vain.
  struct Farewell {
    std::unique_ptr<Group>* group;
    ~Farewell() {
      if (*group != nullptr) (*group)->RecordDeparture();
    }
  } farewell_{&group_};
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Users> users_;  // null: every client is accepted
  ViolationLog violations_{&clock_};
  ConnectionQuota quota_{options_.max_clients};
  ConnectionList connections_{&quota_};
  std::vector<std::unique_ptr<rdma::Listener>> listeners_;
  std::vector<rdma::RemoteRange> ranges_;  // of the table, at each listener
  std::vector<rdma::RemoteRange> cells_;   // of counters, at each listener; rkey 0: not offered there
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<AcceptorThread> acceptor_thread_;  // workers notify it of disconnected clients
  std::vector<std::unique_ptr<Seat>> seats_;
  std::atomic<int> prepared_percent_{0};
  bool running_ = false;
  std::atomic<bool> draining_{false};
  uint64_t hash_seed_ = 0;  // its own choice, replaced by that of its group, or of the group's cluster
};

absl::Status Server::Impl::Start(const std::function<void(int)>& on_progress) {
  if (absl::Status status = CheckOptions(options_); !status.ok()) return status;
  facts_.version = FARLOOK_VERSION;
  facts_.incarnation = RandomNonzero();
  facts_.numa_node = options_.numa_node;
  facts_.partitions = PartitionsFor(options_);
  facts_.max_value_bytes = options_.max_value_bytes;
  facts_.window = options_.window;
  facts_.max_clients = options_.max_clients;
  facts_.evict = options_.evict;
  facts_.client_figures = options_.client_figures;
  facts_.workers = options_.workers;
  hash_seed_ = options_.hash_seed != 0 ? options_.hash_seed : RandomNonzero();
  if (absl::Status status = ReadUsers(); !status.ok()) return status;
  if (absl::Status status = OpenGroup(); !status.ok()) return status;
  // Addresses first: a second server at one fails before it takes memory.
  if (absl::Status status = Listen(); !status.ok()) return status;
  // Then the cluster, whose record of it is permanent. Its hash seed and layout are the table's.
  if (group_ != nullptr) {
    if (absl::Status status = group_->EnterCluster(); !status.ok()) return status;
    TakeLayout();
  }
  if (absl::Status status = Prepare(on_progress); !status.ok()) return status;
  if (absl::Status status = MakeCounters(); !status.ok()) return status;
  if (absl::Status status = Offer(); !status.ok()) return status;
  for (int i = 0; i < options_.workers; ++i) {
    if (absl::Status status = MakeWorker(i); !status.ok()) return status;
  }
  if (absl::Status status = StartThreads(); !status.ok()) return status;
  LogStart(facts_);
  LogAccess(facts_.addresses, users_ != nullptr ? users_->now().get() : nullptr);
  return absl::OkStatus();
}

absl::Status Server::Impl::ReadUsers() {
  if (options_.users.empty()) return absl::OkStatus();
  auto users = ReadUsersFile(options_.users);
  if (!users.ok()) return users.status();
  users_ = std::make_unique<Users>(*std::move(users));
  return absl::OkStatus();
}

absl::Status Server::Impl::OpenGroup() {
  if (options_.group.empty()) return absl::OkStatus();
  auto opened = server::OpenGroup(options_, facts_, hash_seed_, users_.get());
  if (!opened.ok()) return opened.status();
  group_ = std::move(opened->group);
  process_lock_ = std::move(opened->lock);
  return absl::OkStatus();
}

// Adopts the hash seed and layout of its group and cluster.
void Server::Impl::TakeLayout() {
  if (group_->hash_seed() != 0) hash_seed_ = group_->hash_seed();
  if (!group_->layout().empty()) facts_.partitions = group_->layout().partitions();
}

void Server::Impl::JoinGroup() {
  if (group_ == nullptr) return;
  Group::Parts parts;
  parts.table = table_.get();
  parts.locks = locks_.get();
  parts.clock = &clock_;
  parts.time = time_;
  parts.spin_ns = rdma::NsOfUs(options_.spin_us);
  parts.gate = gate_.get();
  parts.hash_seed = hash_seed_;
  parts.address = facts_.addresses[0];
  for (const auto& seat : seats_) parts.workers.push_back(seat->worker.get());
  // The group's thread keeps leases: it must not wait for a name to resolve.
  parts.create_endpoint = [](absl::string_view address) { return rdma::CreateEndpoint(address, {.resolve_ms = 0}); };
  parts.deposed = options_.deposed;
  group_->Start(std::move(parts));
}

absl::Status Server::Impl::ReloadUsers() {
  if (users_ == nullptr) return absl::OkStatus();
  auto users = ReadUsersFile(options_.users);
  if (!users.ok()) return users.status();
  Log(LogLevel::kInfo, "users read again", {{"file", options_.users}, {"users", (*users)->all().size()}});
  users_->Replace(*std::move(users));
  for (const auto& seat : seats_) seat->endpoints[0]->Wake();
  return absl::OkStatus();
}

absl::Status Server::Impl::Listen() {
  absl::StatusOr<int64_t> group = GroupId(options_.socket_files.group);
  if (!group.ok()) return group.status();
  for (const std::string& text : options_.listen) {
    absl::StatusOr<std::vector<std::string>> choices = rdma::Choices(text);
    if (!choices.ok()) return choices.status();
    // For auto:// one choice suffices; the failure of the other is logged.
    const size_t before = listeners_.size();
    std::vector<std::pair<std::string, absl::Status>> refused;
    for (const std::string& choice : *choices) {
      if (absl::Status status = ListenAt(choice, *group); !status.ok()) refused.emplace_back(choice, status);
    }
    if (listeners_.size() == before) return refused.back().second;
    for (const auto& [choice, status] : refused) {
      Log(LogLevel::kWarning, "does not listen", {{"address", choice}, {"reason", status.message()}});
    }
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::ListenAt(const std::string& address, int64_t socket_gid) {
  rdma::TransportOptions transport;
  transport.liveness_ms = options_.liveness_ms;
  transport.socket_mode = options_.socket_files.mode;
  transport.socket_gid = socket_gid;
  auto listener = rdma::Listen(address, transport);
  if (!listener.ok()) return listener.status();
  if (facts_.numa_node < 0) facts_.numa_node = (*listener)->numa_node();  // the first device's
  facts_.addresses.push_back((*listener)->address());
  facts_.bound.push_back(absl::StrJoin((*listener)->bound(), ","));
  listeners_.push_back(*std::move(listener));
  return absl::OkStatus();
}

// Creates the table; clients that connect meanwhile are notified.
absl::Status Server::Impl::Prepare(const std::function<void(int)>& on_progress) {
  std::vector<rdma::Listener*> listeners;
  for (const auto& listener : listeners_) listeners.push_back(listener.get());
  acceptor_ = std::make_unique<Acceptor>(listeners, &clock_, [this] {
    return absl::StrCat("the server is starting: preparing memory, ", prepared_percent_.load(std::memory_order_relaxed),
                        " %");
  });
  acceptor_thread_ = std::make_unique<AcceptorThread>(acceptor_.get(), listeners, &clock_);
  if (!acceptor_thread_->ok()) return absl::ResourceExhaustedError("no file descriptors left (raise ulimit -n)");
  absl::Status status = WithoutSignals([this] { acceptor_thread_->Start(kPatienceMs); });
  if (!status.ok()) return status;
  status = MakeTable(on_progress);
  acceptor_thread_->Stop();  // from here on this thread offers memory to the listeners
  return status;
}

absl::Status Server::Impl::MakeTable(const std::function<void(int)>& on_progress) {
  if (on_progress != nullptr) on_progress(0);
  auto made = TableMemory::Make(options_, facts_.numa_node, &clock_, [&](uint64_t bytes) {
    const int percent = static_cast<int>(100 * bytes / std::max(bytes, options_.memory_bytes));
    prepared_percent_.store(percent, std::memory_order_relaxed);
    if (on_progress != nullptr) on_progress(percent);
  });
  if (!made.ok()) return made.status();
  memory_ = *std::move(made);
  const rdma::SharedMemory& memory = memory_->table();
  facts_.page_bytes = memory.page_bytes();
  facts_.memory_bytes = memory.bytes();
  facts_.memory_advice = memory.advice();
  facts_.huge_pages = std::string(rdma::HugePagesName(memory.huge_pages()));

  kv::TableOptions table;
  table.incarnation = facts_.incarnation;
  table.hash_seed = hash_seed_;
  table.partitions = facts_.partitions;
  table.max_value_bytes = options_.max_value_bytes;
  table.clock = &table_time_;
  table.evict = options_.evict;
  table.keeps_expired = group_ != nullptr;
  table.first_version = 1 + Random64() % (kv::kMaxFirstVersion - 1);
  auto begun = memory_->Begin(table);
  if (!begun.ok()) return begun.status();
  table_ = *std::move(begun);
  if (absl::Status status = memory_->Keep(); !status.ok()) return status;
  facts_.incarnation = memory_->incarnation();
  facts_.partitions = table_->partitions();
  facts_.restart = memory_->restart();
  locks_ = std::make_unique<PartitionLocks>(table_.get());
  if (group_ != nullptr) {
    gate_ = std::make_unique<CommitGate>(table_.get(), locks_.get(), &clock_, time_, group_->stream());
    gate_->SetServing(group_->serving());
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::MakeCounters() {
  if (memory_->cells() == nullptr) return absl::OkStatus();
  const rdma::SharedRange range = memory_->cells()->range();
  auto domain = OfferCells(listeners_, range, /*sealed=*/!memory_->lasts());
  if (!domain.ok()) return domain.status();
  cells_ = std::move(domain->ranges);
  facts_.cell_bytes = range.bytes;
  facts_.atomics = std::move(domain->name);
  counters_ =
      std::make_unique<Counters>(table_.get(), locks_.get(), &clock_, time_, absl::MakeSpan(range.base, range.bytes),
                                 std::move(domain->writer), memory_->used_cells());
  return absl::OkStatus();
}

absl::Status Server::Impl::Offer() {
  for (const auto& listener : listeners_) {
    auto range = listener->Offer(memory_->table().range(), rdma::Access::kRemoteRead);
    if (!range.ok()) return range.status();
    ranges_.push_back(*range);
  }
  cells_.resize(listeners_.size());
  return absl::OkStatus();
}

absl::Status Server::Impl::MakeWorker(int number) {
  seats_.push_back(std::make_unique<Seat>());
  Seat& seat = *seats_.back();

  Shared shared;
  shared.table = table_.get();
  shared.locks = locks_.get();
  shared.clock = &clock_;
  shared.time = time_;
  shared.incarnation = facts_.incarnation;
  shared.max_value_bytes = options_.max_value_bytes;
  shared.workers = options_.workers;
  shared.quota = &quota_;
  shared.connections = &connections_;
  shared.wake_workers = [this] {
    for (const auto& other : seats_) other->endpoints[0]->Wake();
  };
  if (group_ != nullptr) {
    shared.gate = gate_.get();
    shared.records = group_->stream();
    shared.serving = group_->serving();
    shared.cluster = [this](absl::string_view what) { return group_->Ask(what); };
    shared.map = [this] { return group_->Map(); };
    shared.may_join = [this](const kv::Follow& follow) { return group_->MayJoin(follow); };
  }
  shared.counters = counters_.get();
  shared.users = users_.get();
  shared.slow_ns = rdma::NsOfMs(options_.slow_ms);
  shared.figures_ms = options_.client_figures ? ClientFigures::kIntervalMs : 0;
  shared.hello_timeout_ns = rdma::NsOfMs(options_.liveness_ms);
  shared.counter_patience_ns = rdma::NsOfMs(options_.counter_patience_ms);
  shared.client_gone = [this] { acceptor_thread_->ClientGone(); };
  shared.stat = [this](absl::string_view prefix) { return Stats(prefix); };

  SessionOptions sessions;
  sessions.worker = number;
  sessions.incarnation = facts_.incarnation;
  sessions.window = options_.window;
  sessions.max_kept = options_.max_kept_sessions / static_cast<size_t>(options_.workers);
  if (users_ != nullptr) sessions.max_kept_each = std::max<size_t>(1, sessions.max_kept / 4);
  sessions.follows_others = facts_.restart.kind != "cold";
  sessions.keep_ns = rdma::NsOfMs(options_.keep_sessions_ms);
  sessions.random = Random64;

  // Waking one endpoint ends the sleep on all.
  seat.worker.reset(new (std::nothrow) Worker(shared, std::move(sessions), [&seat] { seat.endpoints[0]->Wake(); }));
  if (seat.worker == nullptr) return absl::ResourceExhaustedError("no memory for a worker");
  for (size_t i = 0; i < listeners_.size(); ++i) {
    auto endpoint = listeners_[i]->CreateEndpoint();
    if (!endpoint.ok()) return endpoint.status();
    seat.worker->AddPort(endpoint->get(), ranges_[i], cells_[i]);
    seat.endpoints.push_back(*std::move(endpoint));
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::StartThreads() {
  std::vector<Worker*> workers;
  for (const auto& seat : seats_) workers.push_back(seat->worker.get());
  quota_.Limit(ClientsWithinDescriptorLimit(options_));
  acceptor_->Open(workers);
  running_ = true;
  absl::Status status = WithoutSignals([this] { StartEachThread(); });
  if (!status.ok()) Stop();  // stops the threads that run
  return status;
}

void Server::Impl::StartEachThread() {
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = *seats_[i];
    std::vector<rdma::Endpoint*> endpoints;
    for (const auto& endpoint : seat.endpoints) endpoints.push_back(endpoint.get());
    seat.thread = std::make_unique<WorkerThread>(static_cast<int>(i), seat.worker.get(), endpoints, &clock_,
                                                 rdma::NsOfUs(options_.spin_us));
  }
  acceptor_thread_->Start(/*patience_ms=*/0);
}

void Server::Impl::Stop() {
  if (!running_) return;
  running_ = false;
  draining_.store(true, std::memory_order_relaxed);
  if (group_ != nullptr) {
    group_->Leave(kMostLeaving);
    group_->Stop();
  }
  // The acceptor goes on rejecting clients until the workers have ended.
  acceptor_->Shutdown();
  // Clients of a group send unanswered requests to the next primary, which waits for the end of this one.
  const int64_t drain_ns = group_ != nullptr ? 0 : rdma::NsOfMs(options_.drain_timeout_ms);
  const int64_t deadline_ns = clock_.NowNs() + drain_ns;
  // Some threads are missing if one could not be started.
  for (const auto& seat : seats_) {
    if (seat->thread != nullptr) seat->thread->Drain(deadline_ns);
  }
  bool drained = true;
  for (const auto& seat : seats_) {
    if (seat->thread != nullptr) drained = seat->thread->Join() && drained;
  }
  acceptor_thread_->Stop();
  for (const auto& seat : seats_) {
    if (seat->thread != nullptr) seat->worker->TurnAwayTheRest();
  }
  while (acceptor_->Poll() > 0) {
  }
  if (!drained) Log(LogLevel::kWarning, "clients were disconnected when --drain_timeout expired");
}

std::string Server::Impl::Stats(absl::string_view prefix) const {
  ServerMoment moment = MomentNow(clock_.NowNs() - started_ns_);
  moment.draining = draining_.load(std::memory_order_relaxed);
  moment.rejected = acceptor_->rejected() + violations_.strangers();
  moment.dropped = violations_.clients();
  if (counters_ != nullptr) moment.counters = counters_->stats();
  if (group_ != nullptr) moment.group = group_->figures();
  for (const auto& listener : listeners_) {
    const rdma::ReadsServed served = listener->reads_served();
    moment.served_reads += served.reads;
    moment.served_read_bytes += served.bytes;
    moment.served_read_cpu_s += 1e-9 * static_cast<double>(served.cpu_ns);
  }
  std::vector<const WorkerStats*> workers;
  for (const auto& seat : seats_) workers.push_back(&seat->worker->stats());
  return StatText(facts_, moment, table_->stats(), workers, prefix, &stat_order_);
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const std::function<void(int)>& on_progress) {
  auto impl = std::make_unique<Impl>(options);
  if (absl::Status status = impl->Start(on_progress); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

void Server::JoinGroup() { impl_->JoinGroup(); }
void Server::LogReady() const { impl_->LogReady(); }
absl::Status Server::ReloadUsers() { return impl_->ReloadUsers(); }

void Server::BeginGroupFromCopy(uint64_t epoch) { impl_->BeginGroupFromCopy(epoch); }
void Server::Stop() { impl_->Stop(); }
const std::vector<std::string>& Server::addresses() const { return impl_->facts().addresses; }
std::string Server::Stats(absl::string_view prefix) const { return impl_->Stats(prefix); }

}  // namespace farlook::server
