#include "server/server.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/cell_region.h"
#include "kv/counter_value.h"
#include "kv/table.h"
#include "rdma/clock.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"
#include "server/acceptor.h"
#include "server/byte_size.h"
#include "server/cell_domain.h"
#include "server/counters.h"
#include "server/log.h"
#include "server/partition_locks.h"
#include "server/stat_text.h"
#include "server/worker.h"
#include "server/worker_thread.h"

namespace farlook::server {
namespace {

constexpr int kMaxPartitions = 64;

// Each partition has slabs of its own, so a small region is not cut into many.
constexpr uint64_t kBytesPerPartition = 64 << 20;

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

// A power of two, at least the workers; twice as many where there are several, so that they meet less often.
int PartitionsFor(int workers, uint64_t memory_bytes) {
  if (workers == 1) return 1;
  const unsigned least = std::bit_ceil(static_cast<unsigned>(workers));
  const uint64_t room = std::bit_floor(std::max<uint64_t>(memory_bytes / kBytesPerPartition, 1));
  return static_cast<int>(std::max<uint64_t>(least, std::min<uint64_t>({2 * least, kMaxPartitions, room})));
}

absl::Status OutOfRange(absl::string_view flag, uint64_t least, uint64_t most) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be from ", least, " to ", most));
}

absl::Status Check(const ServerOptions& options) {
  if (options.listen.empty()) {
    return absl::InvalidArgumentError("no address to listen at: say --listen=shm:///run/farlook/kv");
  }
  if (options.memory_bytes < kv::kMinRegionBytes || options.memory_bytes > kv::kMaxRegionBytes) {
    return absl::InvalidArgumentError(absl::StrCat("--memory must be from ", FormatByteSize(kv::kMinRegionBytes),
                                                   " to ", FormatByteSize(kv::kMaxRegionBytes)));
  }
  if (options.counter_memory_bytes != 0 && (options.counter_memory_bytes < kv::kMinCellRegionBytes ||
                                            options.counter_memory_bytes > kv::kMaxCellRegionBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("--counter_memory must be 0, or from ",
                                                   FormatByteSize(kv::kMinCellRegionBytes), " to ",
                                                   FormatByteSize(kv::kMaxCellRegionBytes)));
  }
  if (options.counter_patience_ms < 1) return absl::InvalidArgumentError("--counter_patience must be at least 1ms");
  if (options.workers < 1 || options.workers > SessionTable::kMaxWorkers) {
    return OutOfRange("workers", 1, SessionTable::kMaxWorkers);
  }
  if (options.max_value_bytes < 1 || options.max_value_bytes > kv::kMaxValueBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_value_bytes must be from 1 to ", FormatByteSize(kv::kMaxValueBytes)));
  }
  if (options.window < 1 || options.window > kv::kMaxWindow) return OutOfRange("window", 1, kv::kMaxWindow);
  if (options.max_clients < 1) return absl::InvalidArgumentError("--max_clients must be at least 1");
  if (options.max_clients > kv::kMaxAtomicsInFlight && options.counter_memory_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("--max_clients must be at most ", kv::kMaxAtomicsInFlight,
                                                   " where there are counters (--counter_memory)"));
  }
  if (options.liveness_ms < 100) return absl::InvalidArgumentError("--liveness must be at least 100ms");
  if (options.spin_us < 0) return absl::InvalidArgumentError("--spin_us must not be negative");
  if (options.keep_sessions_ms < 0 || options.drain_timeout_ms < 0) {
    return absl::InvalidArgumentError("--keep_sessions and --drain_timeout must not be negative");
  }
  return absl::OkStatus();
}

double Seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

// Members are destroyed from the last to the first: threads, workers with their connections, endpoints, listeners,
// table, memory.
class Server::Impl {
 public:
  explicit Impl(const ServerOptions& options) : options_(options), started_ns_(clock_.NowNs()) {}
  ~Impl() { Stop(); }

  absl::Status Start();
  void Stop();
  void LogReady() const;
  std::string Stats(absl::string_view prefix) const;
  const ServerFacts& facts() const { return facts_; }

 private:
  struct Seat {  // of one worker
    std::vector<std::unique_ptr<rdma::Endpoint>> endpoints;
    std::unique_ptr<Worker> worker;
    std::unique_ptr<WorkerThread> thread;
  };

  absl::Status Listen();
  absl::Status MakeTable();
  absl::Status MakeCounters();
  absl::Status Offer();
  absl::Status MakeWorker(int number);
  absl::Status StartThreads();
  void StartEachThread();
  void RunAcceptor();
  void LogStart() const;

  const ServerOptions options_;
  const rdma::Clock& clock_ = rdma::Clock::Real();
  const int64_t started_ns_;
  ServerFacts facts_;
  std::vector<std::unique_ptr<rdma::SharedMemory>> memory_;       // one, or none yet
  std::vector<std::unique_ptr<rdma::SharedMemory>> cell_memory_;  // one, or none
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<PartitionLocks> locks_;
  std::unique_ptr<Counters> counters_;
  std::atomic<int64_t> clients_{0};
  std::vector<std::unique_ptr<rdma::Listener>> listeners_;
  std::vector<rdma::RemoteRange> ranges_;  // of the table, at each listener
  std::vector<rdma::RemoteRange> cells_;   // of counters, likewise; rkey 0: not offered there
  std::string atomics_;                    // see CellDomain::name
  std::vector<std::unique_ptr<Seat>> seats_;
  std::unique_ptr<Acceptor> acceptor_;
  rdma::WakeFd acceptor_wake_;
  std::atomic<bool> acceptor_done_{false};
  std::thread acceptor_thread_;
  bool running_ = false;
};

absl::Status Server::Impl::Start() {
  if (absl::Status status = Check(options_); !status.ok()) return status;
  facts_.version = std::string(kVersion);
  facts_.incarnation = RandomNonzero();
  facts_.numa_node = options_.numa_node;
  facts_.partitions = PartitionsFor(options_.workers, options_.memory_bytes);
  facts_.max_value_bytes = options_.max_value_bytes;
  facts_.window = options_.window;
  facts_.max_clients = options_.max_clients;
  // Addresses first: a second server on one finds out before it takes memory.
  if (absl::Status status = Listen(); !status.ok()) return status;
  if (absl::Status status = MakeTable(); !status.ok()) return status;
  if (absl::Status status = MakeCounters(); !status.ok()) return status;
  if (absl::Status status = Offer(); !status.ok()) return status;
  for (int i = 0; i < options_.workers; ++i) {
    if (absl::Status status = MakeWorker(i); !status.ok()) return status;
  }
  if (!acceptor_wake_.ok()) return absl::ResourceExhaustedError("no file descriptors left (raise ulimit -n)");
  if (absl::Status status = StartThreads(); !status.ok()) return status;
  LogStart();
  return absl::OkStatus();
}

absl::Status Server::Impl::Listen() {
  for (const std::string& address : options_.listen) {
    rdma::TransportOptions transport;
    transport.liveness_ms = options_.liveness_ms;
    auto listener = rdma::Listen(address, transport);
    if (!listener.ok()) return listener.status();
    if (facts_.numa_node < 0) facts_.numa_node = (*listener)->numa_node();  // of the first device
    facts_.addresses.push_back((*listener)->address());
    listeners_.push_back(*std::move(listener));
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::MakeTable() {
  rdma::SharedMemoryOptions memory;
  memory.bytes = (options_.memory_bytes + kv::kPageBytes - 1) / kv::kPageBytes * kv::kPageBytes;
  memory.huge_pages = options_.huge_pages;
  memory.numa_node = facts_.numa_node;
  auto created = rdma::SharedMemory::Create(memory);
  if (!created.ok()) return created.status();
  memory_.push_back(std::make_unique<rdma::SharedMemory>(*std::move(created)));
  facts_.page_bytes = memory_[0]->page_bytes();
  facts_.huge_pages = std::string(rdma::HugePagesName(memory_[0]->huge_pages()));

  kv::TableOptions table;
  table.incarnation = facts_.incarnation;
  table.hash_seed = Random64();
  table.partitions = facts_.partitions;
  table.max_value_bytes = options_.max_value_bytes;
  table.first_version = 1 + Random64() % (kv::kMaxFirstVersion - 1);
  auto made = kv::Table::Create(absl::MakeSpan(memory_[0]->data(), memory_[0]->bytes()), table);
  if (!made.ok()) return made.status();
  table_ = *std::move(made);
  locks_ = std::make_unique<PartitionLocks>(table_.get());
  return absl::OkStatus();
}

absl::Status Server::Impl::MakeCounters() {
  if (options_.counter_memory_bytes == 0) return absl::OkStatus();
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
  atomics_ = std::move(domain->name);
  counters_ = std::make_unique<Counters>(table_.get(), locks_.get(), &clock_, cells, std::move(domain->writer));
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
  shared.incarnation = facts_.incarnation;
  shared.max_value_bytes = options_.max_value_bytes;
  shared.max_clients = options_.max_clients;
  shared.clients = &clients_;
  shared.counters = counters_.get();
  shared.hello_timeout_ns = options_.liveness_ms * 1'000'000;
  shared.counter_patience_ns = options_.counter_patience_ms * 1'000'000;
  shared.stat = [this](absl::string_view prefix) { return Stats(prefix); };

  SessionOptions sessions;
  sessions.worker = number;
  sessions.incarnation = facts_.incarnation;
  sessions.window = options_.window;
  sessions.max_kept = options_.max_kept_sessions / static_cast<size_t>(options_.workers);
  sessions.keep_ns = options_.keep_sessions_ms * 1'000'000;
  sessions.random = Random64;

  // One of its endpoints ends the sleep on all.
  seat.worker = std::make_unique<Worker>(shared, std::move(sessions), [&seat] { seat.endpoints[0]->Wake(); });
  for (size_t i = 0; i < listeners_.size(); ++i) {
    auto endpoint = listeners_[i]->CreateEndpoint();
    if (!endpoint.ok()) return endpoint.status();
    seat.worker->AddPort(endpoint->get(), ranges_[i], cells_[i]);
    seat.endpoints.push_back(*std::move(endpoint));
  }
  return absl::OkStatus();
}

absl::Status Server::Impl::StartThreads() {
  std::vector<rdma::Listener*> listeners;
  for (const auto& listener : listeners_) listeners.push_back(listener.get());
  std::vector<Worker*> workers;
  for (const auto& seat : seats_) workers.push_back(seat->worker.get());
  acceptor_ = std::make_unique<Acceptor>(std::move(listeners), workers, &clock_);
  // Signals are for the caller's threads. Blocked before ours start, for they inherit it: later would be too late.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  running_ = true;
  absl::Status status;
  try {
    StartEachThread();
  } catch (const std::system_error& error) {
    status = absl::ResourceExhaustedError(absl::StrCat("cannot start a thread: ", error.what(), " (see ulimit -u)"));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
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
  acceptor_thread_ = std::thread([this] { RunAcceptor(); });
}

void Server::Impl::RunAcceptor() {
  pthread_setname_np(pthread_self(), "acceptor");
  std::vector<pollfd> fds;
  for (const auto& listener : listeners_) fds.push_back({listener->fd(), POLLIN, 0});
  fds.push_back({acceptor_wake_.fd(), POLLIN, 0});
  while (!acceptor_done_.load(std::memory_order_relaxed)) {
    if (acceptor_->Poll() > 0) continue;
    poll(fds.data(), fds.size(), /*timeout=*/-1);
  }
}

void Server::Impl::Stop() {
  if (!running_) return;
  running_ = false;
  // The acceptor goes on, to turn clients away, until the workers have ended.
  acceptor_->Shutdown();
  const int64_t deadline_ns = clock_.NowNs() + options_.drain_timeout_ms * 1'000'000;
  // Not all threads are there when one could not be started.
  for (const auto& seat : seats_) {
    if (seat->thread != nullptr) seat->thread->Drain(deadline_ns);
  }
  bool drained = true;
  for (const auto& seat : seats_) {
    if (seat->thread != nullptr) drained = seat->thread->Join() && drained;
  }
  acceptor_done_.store(true, std::memory_order_relaxed);
  acceptor_wake_.Wake();
  if (acceptor_thread_.joinable()) acceptor_thread_.join();
  if (!drained) Log(LogLevel::kWarning, "clients were cut off when the time to drain was over");
}

std::string Server::Impl::Stats(absl::string_view prefix) const {
  ServerMoment moment;
  moment.uptime_s = 1e-9 * static_cast<double>(clock_.NowNs() - started_ns_);
  rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) == 0) {
    moment.cpu_user_s = Seconds(usage.ru_utime);
    moment.cpu_system_s = Seconds(usage.ru_stime);
  }
  moment.rejected = acceptor_->rejected();
  if (counters_ != nullptr) moment.counters = counters_->stats();
  std::vector<const WorkerStats*> workers;
  for (const auto& seat : seats_) workers.push_back(&seat->worker->stats());
  return StatText(facts_, moment, table_->stats(), workers, prefix);
}

void Server::Impl::LogStart() const {
  Log(LogLevel::kInfo, "memory",
      {{"bytes", memory_[0]->bytes()},
       {"page_bytes", facts_.page_bytes},
       {"huge_pages", facts_.huge_pages},
       {"numa_node", facts_.numa_node < 0 ? "any" : absl::StrCat(facts_.numa_node)},
       {"partitions", facts_.partitions}});
  if (!memory_[0]->advice().empty()) {
    Log(LogLevel::kInfo, "larger pages would make reads faster", {{"advice", memory_[0]->advice()}});
  }
  if (const unsigned cpus = std::thread::hardware_concurrency();
      cpus != 0 && options_.workers > static_cast<int>(cpus)) {
    Log(LogLevel::kWarning, "more workers than CPUs",
        {{"workers", options_.workers}, {"cpus", cpus}, {"advice", "fewer --workers"}});
  }
  if (counters_ != nullptr) {
    Log(LogLevel::kInfo, "counters", {{"bytes", cell_memory_[0]->bytes()}, {"atomics", atomics_}});
  }
  for (const std::string& address : facts_.addresses) Log(LogLevel::kInfo, "listening", {{"address", address}});
}

void Server::Impl::LogReady() const {
  Log(LogLevel::kInfo, "ready",
      {{"version", facts_.version},
       {"incarnation", absl::Hex(facts_.incarnation, absl::kZeroPad16)},
       {"workers", options_.workers},
       {"max_clients", options_.max_clients},
       {"max_value_bytes", options_.max_value_bytes},
       {"window", options_.window},
       {"start_ms", (clock_.NowNs() - started_ns_) / 1'000'000}});
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  if (absl::Status status = impl->Start(); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

absl::Status Server::CheckOptions(const ServerOptions& options) { return Check(options); }

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

void Server::LogReady() const { impl_->LogReady(); }
void Server::Stop() { impl_->Stop(); }
const std::vector<std::string>& Server::addresses() const { return impl_->facts().addresses; }
std::string Server::Stats(absl::string_view prefix) const { return impl_->Stats(prefix); }

}  // namespace farlook::server
