#include "server/server.h"

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
#include "farlook/version.h"
#include "kv/cell_region.h"
#include "kv/region.h"
#include "kv/table.h"
#include "rdma/choices.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "server/acceptor.h"
#include "server/acceptor_thread.h"
#include "server/cell_domain.h"
#include "server/client_figures.h"
#include "server/commit_gate.h"
#include "server/counters.h"
#include "server/group.h"
#include "server/log.h"
#include "server/open_group.h"
#include "server/partition_locks.h"
#include "server/places.h"
#include "server/process_lock.h"
#include "server/roster.h"
#include "server/server_time.h"
#include "server/start_log.h"
#include "server/stat_text.h"
#include "server/users.h"
#include "server/users_file.h"
#include "server/worker.h"
#include "server/worker_thread.h"

namespace farlook::server {
namespace {

uint64_t Random64() {
  uint64_t word;
  // For so few bytes it neither fails nor is cut short, but by a signal early at boot.
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

// How long clients wait before they are told that the server is still starting: who comes to one that is ready in a
// moment just waits for it.
constexpr int kPatienceMs = 500;

// Starts threads that get no signals: those are for the caller's. Blocked before, for threads inherit it: later would
// be too late.
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
  void LogReady() const { server::LogReady(facts_, clock_.NowNs() - started_ns_); }
  std::string Stats(absl::string_view prefix) const;
  const ServerFacts& facts() const { return facts_; }

 private:
  struct Seat {  // of one worker
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
  std::vector<std::unique_ptr<rdma::SharedMemory>> memory_;       // one, or none yet
  std::vector<std::unique_ptr<rdma::SharedMemory>> cell_memory_;  // one, or none
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Group> group_;  // null: it is in none
  std::unique_ptr<CommitGate> gate_;
  std::unique_ptr<ProcessLock> process_lock_;  // let go when nothing of this server can be READ any more
  // Has the record say so then. While the lock is held, so that no backup proposes itself in between, in vain.
  struct Farewell {
    std::unique_ptr<Group>* group;
    ~Farewell() {
      if (*group != nullptr) (*group)->SayLeft();
    }
  } farewell_{&group_};
  std::unique_ptr<Counters> counters_;
  std::unique_ptr<Users> users_;  // null: everybody may come
  Places places_{options_.max_clients};
  Roster roster_{&places_};
  std::vector<std::unique_ptr<rdma::Listener>> listeners_;
  std::vector<rdma::RemoteRange> ranges_;  // of the table, at each listener
  std::vector<rdma::RemoteRange> cells_;   // of counters, likewise; rkey 0: not offered there
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<AcceptorThread> acceptor_thread_;  // workers tell it of clients that are gone
  std::vector<std::unique_ptr<Seat>> seats_;
  std::atomic<int> prepared_percent_{0};
  bool running_ = false;
  std::atomic<bool> draining_{false};
  uint64_t hash_seed_ = 0;  // that it chose, until its group, or the group's cluster, has another one
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
  // Addresses first: a second server on one finds out before it takes memory.
  if (absl::Status status = Listen(); !status.ok()) return status;
  // Then the cluster, which remembers for ever; its hash seed and layout are the table's.
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
  LogWhoMayCome(facts_.addresses, users_ != nullptr ? users_->now().get() : nullptr);
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

// The table is to be like those of its group, and of its cluster.
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
  parts.spin_ns = options_.spin_us * 1000;
  parts.gate = gate_.get();
  parts.hash_seed = hash_seed_;
  parts.address = facts_.addresses[0];
  for (const auto& seat : seats_) parts.workers.push_back(seat->worker.get());
  parts.create_endpoint = [](absl::string_view address) { return rdma::CreateEndpoint(address); };
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
  absl::StatusOr<int64_t> group = GroupId(options_.socket_group);
  if (!group.ok()) return group.status();
  for (const std::string& text : options_.listen) {
    absl::StatusOr<std::vector<std::string>> choices = rdma::Choices(text);
    if (!choices.ok()) return choices.status();
    // Of auto:// one choice suffices; of the other the log says why not.
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
  transport.socket_mode = options_.socket_mode;
  transport.socket_gid = socket_gid;
  auto listener = rdma::Listen(address, transport);
  if (!listener.ok()) return listener.status();
  if (facts_.numa_node < 0) facts_.numa_node = (*listener)->numa_node();  // of the first device
  facts_.addresses.push_back((*listener)->address());
  listeners_.push_back(*std::move(listener));
  return absl::OkStatus();
}

// Makes the table; clients who come meanwhile are told so.
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
  acceptor_thread_->Stop();  // memory is offered to the listeners now, by this thread
  return status;
}

absl::Status Server::Impl::MakeTable(const std::function<void(int)>& on_progress) {
  rdma::SharedMemoryOptions memory;
  memory.bytes = (options_.memory_bytes + kv::kPageBytes - 1) / kv::kPageBytes * kv::kPageBytes;
  memory.huge_pages = options_.huge_pages;
  memory.numa_node = facts_.numa_node;
  if (on_progress != nullptr) on_progress(0);
  memory.on_progress = [&](uint64_t bytes) {
    const int percent = static_cast<int>(100 * bytes / memory.bytes);
    prepared_percent_.store(percent, std::memory_order_relaxed);
    if (on_progress != nullptr) on_progress(percent);
  };
  auto created = rdma::SharedMemory::Create(memory);
  if (!created.ok()) return created.status();
  memory_.push_back(std::make_unique<rdma::SharedMemory>(*std::move(created)));
  facts_.page_bytes = memory_[0]->page_bytes();
  facts_.memory_bytes = memory_[0]->bytes();
  facts_.memory_advice = memory_[0]->advice();
  facts_.huge_pages = std::string(rdma::HugePagesName(memory_[0]->huge_pages()));

  kv::TableOptions table;
  table.incarnation = facts_.incarnation;
  table.hash_seed = hash_seed_;
  table.partitions = facts_.partitions;
  table.max_value_bytes = options_.max_value_bytes;
  table.clock = &table_time_;
  table.evict = options_.evict;
  table.keeps_expired = group_ != nullptr;
  table.first_version = 1 + Random64() % (kv::kMaxFirstVersion - 1);
  auto made = kv::Table::Create(absl::MakeSpan(memory_[0]->data(), memory_[0]->bytes()), table);
  if (!made.ok()) return made.status();
  table_ = *std::move(made);
  locks_ = std::make_unique<PartitionLocks>(table_.get());
  if (group_ != nullptr) {
    gate_ = std::make_unique<CommitGate>(table_.get(), locks_.get(), &clock_, time_, group_->stream());
    gate_->SetServing(group_->serving());
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::MakeCounters() {
  if (options_.counter_memory_bytes == 0 || group_ != nullptr) return absl::OkStatus();  // in a group there are none
  rdma::SharedMemoryOptions memory;
  memory.bytes = options_.counter_memory_bytes;
  memory.huge_pages = rdma::HugePages::kNone;  // a client could punch holes into larger ones
  memory.numa_node = facts_.numa_node;
  memory.access = rdma::Access::kRemoteReadAtomic;
  auto created = rdma::SharedMemory::Create(memory);
  if (!created.ok()) return created.status();
  cell_memory_.push_back(std::make_unique<rdma::SharedMemory>(*std::move(created)));
  const auto cells = absl::MakeSpan(cell_memory_[0]->data(), cell_memory_[0]->bytes());
  kv::FormatCellRegion(cells, facts_.incarnation);
  auto domain = OfferCells(listeners_, cell_memory_[0]->range());
  if (!domain.ok()) return domain.status();
  cells_ = std::move(domain->ranges);
  facts_.cell_bytes = cell_memory_[0]->bytes();
  facts_.atomics = std::move(domain->name);
  counters_ = std::make_unique<Counters>(table_.get(), locks_.get(), &clock_, time_, cells, std::move(domain->writer));
  return absl::OkStatus();
}

absl::Status Server::Impl::Offer() {
  for (const auto& listener : listeners_) {
    auto range = listener->Offer(memory_[0]->range(), rdma::Access::kRemoteRead);
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
  shared.places = &places_;
  shared.roster = &roster_;
  shared.wake_workers = [this] {
    for (const auto& other : seats_) other->endpoints[0]->Wake();
  };
  if (group_ != nullptr) {
    shared.gate = gate_.get();
    shared.records = group_->stream();
    shared.serving = group_->serving();
    shared.cluster = [this](absl::string_view what) { return group_->Ask(what); };
    shared.map = [this] { return group_->Map(); };
  }
  shared.counters = counters_.get();
  shared.users = users_.get();
  shared.slow_ns = options_.slow_ms * 1'000'000;
  shared.figures_ms = options_.client_figures ? ClientFigures::kIntervalMs : 0;
  shared.hello_timeout_ns = options_.liveness_ms * 1'000'000;
  shared.counter_patience_ns = options_.counter_patience_ms * 1'000'000;
  shared.client_gone = [this] { acceptor_thread_->ClientGone(); };
  shared.stat = [this](absl::string_view prefix) { return Stats(prefix); };

  SessionOptions sessions;
  sessions.worker = number;
  sessions.incarnation = facts_.incarnation;
  sessions.window = options_.window;
  sessions.max_kept = options_.max_kept_sessions / static_cast<size_t>(options_.workers);
  if (users_ != nullptr) sessions.max_kept_each = std::max<size_t>(1, sessions.max_kept / 4);
  sessions.keep_ns = options_.keep_sessions_ms * 1'000'000;
  sessions.random = Random64;

  // One of its endpoints ends the sleep on all.
  seat.worker.reset(new (std::nothrow) Worker(shared, std::move(sessions), [&seat] { seat.endpoints[0]->Wake(); }));
  if (seat.worker == nullptr) return absl::ResourceExhaustedError("memory is short: a worker cannot be made");
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
  acceptor_->Open(workers);
  running_ = true;
  absl::Status status = WithoutSignals([this] { StartEachThread(); });
  if (!status.ok()) Stop();  // those that run
  return status;
}

void Server::Impl::StartEachThread() {
  for (size_t i = 0; i < seats_.size(); ++i) {
    Seat& seat = *seats_[i];
    std::vector<rdma::Endpoint*> endpoints;
    for (const auto& endpoint : seat.endpoints) endpoints.push_back(endpoint.get());
    seat.thread = std::make_unique<WorkerThread>(static_cast<int>(i), seat.worker.get(), endpoints, &clock_,
                                                 options_.spin_us * 1000);
  }
  acceptor_thread_->Start(/*patience_ms=*/0);
}

void Server::Impl::Stop() {
  if (!running_) return;
  running_ = false;
  draining_.store(true, std::memory_order_relaxed);
  if (group_ != nullptr) group_->Stop();
  // The acceptor goes on, to turn clients away, until the workers have ended.
  acceptor_->Shutdown();
  // Clients of a group send what has no answer to the next primary, which waits for the end of this one.
  const int64_t drain_ns = group_ != nullptr ? 0 : options_.drain_timeout_ms * 1'000'000;
  const int64_t deadline_ns = clock_.NowNs() + drain_ns;
  // Not all threads are there when one could not be started.
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
  if (!drained) Log(LogLevel::kWarning, "clients were cut off when the time to drain was over");
}

std::string Server::Impl::Stats(absl::string_view prefix) const {
  ServerMoment moment = MomentNow(clock_.NowNs() - started_ns_);
  moment.draining = draining_.load(std::memory_order_relaxed);
  moment.rejected = acceptor_->rejected();
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
void Server::Stop() { impl_->Stop(); }
const std::vector<std::string>& Server::addresses() const { return impl_->facts().addresses; }
std::string Server::Stats(absl::string_view prefix) const { return impl_->Stats(prefix); }

}  // namespace farlook::server
