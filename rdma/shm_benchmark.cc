// The hot paths of the shm backend, each with its floor. A READ is compared with a copy, a batch of READs with bare
// loads, a message's round trip with that of a cache line.
//
//     bazel run --config=opt //rdma:shm_benchmark
#include <pthread.h>
#include <sched.h>
#include <sys/select.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t kTableBytes = uint64_t{256} << 20;
constexpr size_t kBatch = 64;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    fprintf(stderr, "%s\n", value.status().ToString().c_str());
    abort();
  }
  return *std::move(value);
}

// One client and one server, connected, in this process.
struct Rig {
  explicit Rig(uint64_t table_bytes) : memory(NewMemory(table_bytes)) {
    address = absl::StrCat("shm:///tmp/farlook_benchmark_", std::random_device()());
    listener = ValueOrDie(Listen(address));
    table = ValueOrDie(listener->Offer(memory.range(), Access::kRemoteRead));
    server_endpoint = ValueOrDie(listener->CreateEndpoint());
    client_endpoint = ValueOrDie(CreateEndpoint(address));
    client = ValueOrDie(client_endpoint->Connect(address, "", 1000));
    std::unique_ptr<ConnectionRequest> request;
    while ((request = listener->Next()) == nullptr) {
    }
    server = ValueOrDie(request->Accept(server_endpoint.get(), "", absl::MakeConstSpan(&table.rkey, 1)));
    Completion connected;
    while (client_endpoint->Poll(absl::MakeSpan(&connected, 1)) == 0) {
    }
  }
  ~Rig() {
    client.reset();
    server.reset();
  }

  static SharedMemory NewMemory(uint64_t bytes) {
    SharedMemoryOptions options;
    options.bytes = bytes;
    return ValueOrDie(SharedMemory::Create(options));
  }

  SharedMemory memory;
  std::string address;
  std::unique_ptr<Listener> listener;
  RemoteRange table;
  std::unique_ptr<Endpoint> server_endpoint;
  std::unique_ptr<Endpoint> client_endpoint;
  std::unique_ptr<Connection> client;
  std::unique_ptr<Connection> server;
};

void PinTo(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(static_cast<unsigned>(cpu), &cpus);
  pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

// Post, ring, poll; always the same bytes.
void BM_ReadCached(benchmark::State& state) {
  Rig rig(2 << 20);
  alignas(64) char to[8192];
  const Sge piece = {to, static_cast<uint32_t>(state.range(0))};
  Completion completion;
  for (auto _ : state) {
    rig.client->PostRead(1, absl::MakeConstSpan(&piece, 1), rig.table.address + 4096, rig.table.rkey);
    rig.client->Ring();
    while (rig.client_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) {
    }
    benchmark::DoNotOptimize(to);
  }
}
BENCHMARK(BM_ReadCached)->Arg(8)->Arg(128)->Arg(1024)->Arg(4096);

void BM_FloorCopyCached(benchmark::State& state) {
  Rig rig(2 << 20);
  alignas(64) char to[8192];
  for (auto _ : state) {
    memcpy(to, rig.memory.data() + 4096, static_cast<size_t>(state.range(0)));
    benchmark::DoNotOptimize(to);
  }
}
BENCHMARK(BM_FloorCopyCached)->Arg(128)->Arg(1024)->Arg(4096);

std::vector<uint64_t> RandomOffsets(uint64_t granularity_bytes) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> offsets(1 << 20);
  for (uint64_t& offset : offsets) offset = random() % (kTableBytes / granularity_bytes) * granularity_bytes;
  return offsets;
}

// One READ at a time, anywhere in 256 MiB.
void BM_ReadRandom(benchmark::State& state) {
  Rig rig(kTableBytes);
  const std::vector<uint64_t> offsets = RandomOffsets(128);
  alignas(64) char to[128];
  const Sge piece = {to, sizeof(to)};
  Completion completion;
  size_t next = 0;
  for (auto _ : state) {
    // Dependent, like the second READ of a lookup.
    uint64_t word;
    memcpy(&word, to, sizeof(word));
    const uint64_t address = rig.table.address + offsets[(next++ + (word & 1)) % offsets.size()];
    rig.client->PostRead(1, absl::MakeConstSpan(&piece, 1), address, rig.table.rkey);
    rig.client->Ring();
    while (rig.client_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) {
    }
  }
  state.SetLabel(std::string(HugePagesName(rig.memory.huge_pages())));
}
BENCHMARK(BM_ReadRandom);

// The same as one load of a line.
void BM_FloorDependentLoad(benchmark::State& state) {
  Rig rig(kTableBytes);
  const std::vector<uint64_t> offsets = RandomOffsets(128);
  size_t next = 0;
  uint64_t word = 0;
  for (auto _ : state) {
    memcpy(&word, rig.memory.data() + offsets[(next++ + (word & 1)) % offsets.size()], sizeof(word));
    benchmark::DoNotOptimize(word);
  }
}
BENCHMARK(BM_FloorDependentLoad);

// Time of one READ if 64 are posted and rung once.
void BM_ReadBatchRandom(benchmark::State& state) {
  Rig rig(kTableBytes);
  const std::vector<uint64_t> offsets = RandomOffsets(128);
  std::unique_ptr<Buffer> buffer = ValueOrDie(rig.client_endpoint->Allocate(kBatch * 128, false));
  Completion completions[kBatch];
  size_t next = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (size_t i = 0; i < kBatch; ++i) {
      const Sge piece = {buffer->bytes().data() + i * 128, 128};
      rig.client->PostRead(i, absl::MakeConstSpan(&piece, 1), rig.table.address + offsets[next++ % offsets.size()],
                           rig.table.rkey);
    }
    rig.client->Ring();
    for (size_t done = 0; done < kBatch;) done += rig.client_endpoint->Poll(absl::MakeSpan(completions));
  }
  buffer.reset();
}
BENCHMARK(BM_ReadBatchRandom);

// The same with prefetch and memcpy by hand.
void BM_FloorBatchRandom(benchmark::State& state) {
  Rig rig(kTableBytes);
  const std::vector<uint64_t> offsets = RandomOffsets(128);
  std::vector<char> to(kBatch * 128);
  size_t next = 0;
  while (state.KeepRunningBatch(kBatch)) {
    for (size_t i = 0; i < kBatch; ++i) {
      const char* const from = rig.memory.data() + offsets[(next + i) % offsets.size()];
      __builtin_prefetch(from);
      __builtin_prefetch(from + 64);
    }
    for (size_t i = 0; i < kBatch; ++i) {
      memcpy(to.data() + i * 128, rig.memory.data() + offsets[(next + i) % offsets.size()], 128);
    }
    next += kBatch;
    benchmark::DoNotOptimize(to.data());
  }
}
BENCHMARK(BM_FloorBatchRandom);

// A message and its answer, both sides polling, on two CPUs.
void BM_MessageRoundTrip(benchmark::State& state) {
  Rig rig(2 << 20);
  const std::string message(static_cast<size_t>(state.range(0)), 'm');
  std::atomic<bool> done{false};
  PinTo(0);
  std::thread server([&] {
    PinTo(1);
    Completion completion;
    while (!done.load(std::memory_order_relaxed)) {
      if (rig.server_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) continue;
      completion.connection->PostSend(absl::string_view(completion.message.data(), completion.message.size()), "");
      completion.connection->Ring();
    }
  });
  Completion completion;
  for (auto _ : state) {
    rig.client->PostSend(message, "");
    rig.client->Ring();
    while (rig.client_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) {
    }
  }
  done.store(true);
  server.join();
}
BENCHMARK(BM_MessageRoundTrip)->Arg(32)->Arg(120)->Arg(1024)->UseRealTime();

// Two CPUs pass one cache line back and forth.
void BM_FloorCacheLineRoundTrip(benchmark::State& state) {
  struct alignas(128) Line {
    std::atomic<uint64_t> value{0};
  };
  Line ping;
  Line pong;
  std::atomic<bool> done{false};
  PinTo(0);
  std::thread server([&] {
    PinTo(1);
    uint64_t seen = 0;
    while (!done.load(std::memory_order_relaxed)) {
      const uint64_t value = ping.value.load(std::memory_order_acquire);
      if (value == seen) continue;
      seen = value;
      pong.value.store(value, std::memory_order_release);
    }
  });
  uint64_t round = 0;
  for (auto _ : state) {
    ping.value.store(++round, std::memory_order_release);
    while (pong.value.load(std::memory_order_acquire) != round) {
    }
  }
  done.store(true);
  server.join();
}
BENCHMARK(BM_FloorCacheLineRoundTrip)->UseRealTime();

// Messages in one direction as fast as they are taken, rung 16 at a time.
void BM_MessageStream(benchmark::State& state) {
  Rig rig(2 << 20);
  const std::string message(static_cast<size_t>(state.range(0)), 'm');
  std::atomic<uint64_t> received{0};
  std::atomic<bool> done{false};
  PinTo(0);
  std::thread server([&] {
    PinTo(1);
    Completion completions[64];
    while (!done.load(std::memory_order_relaxed)) {
      const size_t count = rig.server_endpoint->Poll(absl::MakeSpan(completions));
      if (count > 0) received.fetch_add(count, std::memory_order_relaxed);
    }
  });
  uint64_t sent = 0;
  for (auto _ : state) {
    while (!rig.client->PostSend(message, "")) rig.client->Ring();
    if (++sent % 16 == 0) rig.client->Ring();
  }
  rig.client->Ring();
  while (received.load() < sent) {
  }
  done.store(true);
  server.join();
  state.SetItemsProcessed(static_cast<int64_t>(sent));
}
BENCHMARK(BM_MessageStream)->Arg(32)->Arg(120)->UseRealTime();

// Both sides asleep between messages.
void BM_SleepingRoundTrip(benchmark::State& state) {
  Rig rig(2 << 20);
  std::atomic<bool> done{false};
  const auto sleep = [](Endpoint* endpoint) {
    if (!endpoint->Arm()) return;
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(endpoint->fd(), &readable);
    timeval most = {0, 100'000};
    select(endpoint->fd() + 1, &readable, nullptr, nullptr, &most);
  };
  std::thread server([&] {
    Completion completion;
    while (!done.load(std::memory_order_relaxed)) {
      if (rig.server_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) {
        sleep(rig.server_endpoint.get());
        continue;
      }
      completion.connection->PostSend("pong", "");
      completion.connection->Ring();
    }
  });
  Completion completion;
  for (auto _ : state) {
    rig.client->PostSend("ping", "");
    rig.client->Ring();
    while (rig.client_endpoint->Poll(absl::MakeSpan(&completion, 1)) == 0) sleep(rig.client_endpoint.get());
  }
  done.store(true);
  server.join();
}
BENCHMARK(BM_SleepingRoundTrip)->UseRealTime();

}  // namespace
}  // namespace farlook::rdma
