#include "tests/scale/counts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/common/random.h"
#include "bench/common/zipfian.h"
#include "client/core/core.h"
#include "kv/layout/item.h"
#include "kv/layout/limits.h"
#include "kv/layout/segment.h"
#include "kv/layout/size_class.h"
#include "kv/table/table.h"
#include "kv/wire/message.h"
#include "rdma/sim/network.h"
#include "server/acceptor/acceptor.h"
#include "server/base/log.h"
#include "server/base/partition_locks.h"
#include "server/session/connection_quota.h"
#include "server/session/session.h"
#include "server/worker/worker.h"

namespace farlook::scale {
namespace {

constexpr uint64_t kRegionBytes = uint64_t{64} << 20;

struct FreeDeleter {
  void operator()(char* memory) const { std::free(memory); }
};

class Server {
 public:
  Server(rdma::sim::Network* network, const rdma::Clock* clock)
      : region_(static_cast<char*>(std::aligned_alloc(kv::kPageBytes, kRegionBytes))) {
    std::fill_n(region_.get(), kRegionBytes, '\0');
    kv::TableOptions options;
    options.incarnation = 7;
    options.hash_seed = 42;
    table_ = *kv::Table::Create({region_.get(), kRegionBytes}, options);
    locks_ = std::make_unique<server::PartitionLocks>(table_.get());
    listener_ = *network->Listen("sim://server", 1'000);
    const rdma::RemoteRange range = *listener_->Offer({region_.get(), kRegionBytes, -1}, rdma::Access::kRemoteRead);
    server::Shared shared;
    shared.table = table_.get();
    shared.locks = locks_.get();
    shared.clock = clock;
    shared.incarnation = options.incarnation;
    shared.quota = &quota_;
    shared.stat = [](absl::string_view) { return std::string(); };
    server::SessionOptions sessions;
    sessions.incarnation = options.incarnation;
    sessions.random = [this] { return random_.Next(); };
    worker_ = std::make_unique<server::Worker>(shared, std::move(sessions), [] {});
    endpoint_ = *listener_->CreateEndpoint();
    worker_->AddPort(endpoint_.get(), range);
    acceptor_ = std::make_unique<server::Acceptor>(std::vector<rdma::Listener*>{listener_.get()}, clock);
    acceptor_->Open({worker_.get()});
  }

  size_t Poll() { return acceptor_->Poll() + worker_->Poll(); }
  kv::Table& table() { return *table_; }
  uint64_t requests(kv::RequestType type) const { return worker_->stats().requests[static_cast<size_t>(type)].value(); }
  uint64_t replies() const {
    uint64_t sum = 0;
    for (const server::Counter& replies : worker_->stats().replies) sum += replies.value();
    return sum;
  }

 private:
  std::unique_ptr<char, FreeDeleter> region_;
  bench::Random random_{3};
  server::ConnectionQuota quota_{1024};
  std::unique_ptr<kv::Table> table_;
  std::unique_ptr<server::PartitionLocks> locks_;
  std::unique_ptr<rdma::Listener> listener_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<server::Worker> worker_;
  std::unique_ptr<server::Acceptor> acceptor_;
};

struct Client {
  struct Slot {
    client::Operation operation;
    std::string key, found;
  };
  std::unique_ptr<client::ClientCore> core;
  std::vector<std::unique_ptr<Slot>> slots;
  uint64_t next_key = 0;  // if it gets them in turn
};

class Run {
 public:
  explicit Run(const Load& load)
      : load_(load),
        scheduler_(1),
        network_(&scheduler_, {}),
        clock_(&scheduler_),
        server_(&network_, &clock_),
        zipfian_(0, static_cast<int64_t>(load.keys) - 1),
        value_(load.value_bytes, 'v') {
    for (uint64_t i = 0; i < load.keys; ++i) {
      const std::string key = KeyOf(i);
      server_.table().Put(server_.table().HashOf(key), key, value_, kv::Condition::kAlways, 0, clock_.NowNs());
    }
    ClientOptions options;
    options.share_mirror = false;  // each on a separate host
    for (int i = 0; i < load.clients; ++i) {
      Client& client = clients_.emplace_back();
      client.next_key = static_cast<uint64_t>(i) * load.keys / static_cast<uint64_t>(load.clients);
      client.core = std::make_unique<client::ClientCore>(network_.CreateEndpoint(i + 1), "sim://server", options,
                                                         clock_, static_cast<uint64_t>(i));
      for (int s = 0; s < load.in_flight; ++s) client.slots.push_back(std::make_unique<Client::Slot>());
    }
  }

  Measured Measure() {
    Prepare();
    const ClientStats before = Sum();
    const std::array<uint64_t, 3> messages_before = Messages();
    failed_ = 0;
    Do(load_.operations);
    const ClientStats after = Sum();
    const std::array<uint64_t, 3> messages = Messages();

    Measured m;
    m.gets = after.gets - before.gets;
    m.puts = after.puts - before.puts;
    m.failed = failed_;
    const double gets = static_cast<double>(m.gets), puts = static_cast<double>(m.puts);
    const uint64_t reads = after.bucket_reads - before.bucket_reads + after.item_reads - before.item_reads;
    const uint64_t of_gets = messages[0] - messages_before[0], of_puts = messages[1] - messages_before[1];
    m.reads_per_get = static_cast<double>(reads) / gets;
    m.messages_per_get = static_cast<double>(of_gets) / gets;
    if (m.puts > 0) m.messages_per_put = static_cast<double>(of_puts) / puts;
    if (of_gets + of_puts > 0) {
      m.replies_per_request =
          static_cast<double>(messages[2] - messages_before[2]) / static_cast<double>(of_gets + of_puts);
    }
    m.counts.one_read = static_cast<double>(after.cached_hits - before.cached_hits) / gets;
    m.counts.three_reads = static_cast<double>(after.stale_locations - before.stale_locations) / gets;
    m.counts.two_reads = 1 - m.counts.one_read - m.counts.three_reads - m.messages_per_get;
    const double without = m.counts.one_read + 2 * m.counts.two_reads + 3 * m.counts.three_reads;
    m.counts.extra_reads = std::max(0.0, m.reads_per_get - without);
    m.counts.bucket_bytes = static_cast<double>(kv::kBucketBytes);
    const uint64_t item_bytes = kv::ItemBytes(load_.key_bytes, load_.value_bytes);
    m.counts.item_bytes = static_cast<double>(kv::SizeClassBytes(kv::SizeClassFor(item_bytes)));
    m.counts.request_bytes = static_cast<double>(kv::Request::kHeaderBytes + load_.key_bytes);
    m.counts.value_bytes = static_cast<double>(load_.value_bytes);
    return m;
  }

 private:
  std::string KeyOf(uint64_t number) const {
    std::string key(load_.key_bytes, '0');
    std::snprintf(key.data(), key.size(), "user%0*llu", static_cast<int>(load_.key_bytes) - 5,
                  static_cast<unsigned long long>(number));
    return key;
  }

  ClientStats Sum() const {
    ClientStats sum;
    for (const Client& client : clients_) {
      const ClientStats& stats = client.core->stats();
      sum.gets += stats.gets;
      sum.puts += stats.puts;
      sum.bucket_reads += stats.bucket_reads;
      sum.item_reads += stats.item_reads;
      sum.cached_hits += stats.cached_hits;
      sum.stale_locations += stats.stale_locations;
    }
    return sum;
  }

  // Gets, puts, replies.
  std::array<uint64_t, 3> Messages() const {
    return {server_.requests(kv::RequestType::kGet),
            server_.requests(kv::RequestType::kPut) + server_.requests(kv::RequestType::kPutPulled), server_.replies()};
  }

  void Prepare() {
    in_turn_ = true;
    if (load_.known == Known::kItems) {
      Do(load_.keys * clients_.size());
      in_turn_ = false;
    } else if (load_.known == Known::kIndex) {
      warming_ = true;
      Do(clients_.size() * static_cast<uint64_t>(load_.in_flight));
      warming_ = false;
    }
  }

  void Begin(Client* client, Client::Slot* slot) {
    slot->operation = client::Operation();
    slot->operation.owner = slot;
    if (warming_) {
      slot->operation.kind = client::Kind::kWarm;
      return client->core->Start(&slot->operation);
    }
    slot->key = KeyOf(in_turn_ ? client->next_key++ % load_.keys : static_cast<uint64_t>(zipfian_.Next(&random_)));
    slot->operation.key = slot->key;
    if (in_turn_ || random_.NextDouble() < load_.reads) {
      slot->operation.to.string = &slot->found;
    } else {
      slot->operation.kind = client::Kind::kPut;
      slot->operation.value = value_;
    }
    client->core->Start(&slot->operation);
  }

  void Do(uint64_t operations) {
    uint64_t begun = 0, ended = 0;
    for (Client& client : clients_) {
      for (const auto& slot : client.slots) {
        if (begun++ < operations) Begin(&client, slot.get());
      }
    }
    while (ended < operations) {
      server_.Poll();
      for (Client& client : clients_) {
        std::array<client::Operation*, 16> done;
        const size_t count = client.core->Poll(absl::MakeSpan(done));
        for (size_t i = 0; i < count; ++i) {
          ++ended;
          failed_ += !done[i]->status.ok();
          if (begun++ < operations) Begin(&client, static_cast<Client::Slot*>(done[i]->owner));
        }
      }
      if (!scheduler_.idle()) scheduler_.RunOne(scheduler_.next_ns());
    }
  }

  const Load load_;
  rdma::sim::Scheduler scheduler_;
  rdma::sim::Network network_;
  rdma::sim::SimClock clock_;
  Server server_;
  bench::ZipfianGenerator zipfian_;
  bench::Random random_{2};
  const std::string value_;
  std::vector<Client> clients_;
  uint64_t failed_ = 0;
  bool warming_ = false;  // the operation in flight is a Warm(), not a get
  bool in_turn_ = false;  // gets only, of one key after the other
};

}  // namespace

Measured Measure(const Load& load) {
  server::SetLogLevel(server::LogLevel::kNone);
  return Run(load).Measure();
}

}  // namespace farlook::scale
