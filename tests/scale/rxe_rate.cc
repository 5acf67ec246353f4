#include "tests/scale/rxe_rate.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/common/random.h"
#include "bench/common/zipfian.h"

namespace farlook::scale {
namespace {

std::string Key(int64_t number) { return absl::StrCat("user", number); }

absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address, Lookups lookups) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  options.spin_us = 0;
  options.lookups = lookups;
  return Client::Connect(address, options);
}

// One client, with `work.in_flight` operations under way.
class Pipeline {
 public:
  Pipeline(Client* client, const Work& work, uint64_t seed)
      : client_(client),
        work_(work),
        random_(seed),
        keys_(0, kRateKeys - 1),
        value_(kRateValueBytes, 'w'),
        slots_(new Slot[static_cast<size_t>(work.in_flight)]),
        ended_(static_cast<size_t>(work.in_flight)) {
    for (int i = 0; i < work.in_flight; ++i) {
      Slot& slot = slots_[static_cast<size_t>(i)];
      slot.get.Into(slot.buffer);
      slot.put.set_value(Borrowed{value_});
      for (AsyncOperation* operation :
           {static_cast<AsyncOperation*>(&slot.get), static_cast<AsyncOperation*>(&slot.put),
            static_cast<AsyncOperation*>(&slot.ping)}) {
        operation->set_tag(&slot);
      }
    }
  }

  absl::Status Run(int64_t operations) {
    std::vector<AsyncOperation*> batch;
    for (int i = 0; i < work_.in_flight; ++i) batch.push_back(&slots_[static_cast<size_t>(i)].get);
    absl::Status error;
    int64_t started = 0;
    for (int64_t done = 0; done < operations;) {
      batch.resize(std::min(batch.size(), static_cast<size_t>(operations - started)));
      for (AsyncOperation*& operation : batch) operation = Draw(static_cast<Slot*>(operation->tag()));
      started += static_cast<int64_t>(batch.size());
      client_->Start(batch);
      batch.clear();
      const size_t count = client_->Wait(ended_);
      for (size_t i = 0; i < count; ++i) {
        if (!ended_[i]->status().ok() && error.ok()) error = ended_[i]->status();
        batch.push_back(ended_[i]);
      }
      done += static_cast<int64_t>(count);
      if (!error.ok() && client_->in_flight() == 0) return error;
    }
    return error;
  }

 private:
  struct Slot {
    GetOperation get;
    PutOperation put;
    PingOperation ping;
    char buffer[kRateValueBytes];
  };

  AsyncOperation* Draw(Slot* slot) {
    const std::string key = Key(keys_.Next(&random_));
    AsyncOperation* operation = &slot->get;
    if (random_.Below(100) < static_cast<uint64_t>(work_.puts_percent)) {
      operation = &slot->put;
    } else if (work_.pings) {
      return &slot->ping;
    }
    operation->set_key(key);
    return operation;
  }

  Client* const client_;
  const Work work_;
  bench::Random random_;
  bench::ZipfianGenerator keys_;
  const std::string value_;
  const std::unique_ptr<Slot[]> slots_;
  std::vector<AsyncOperation*> ended_;
};

}  // namespace

absl::Status PutKeys(const std::string& address) {
  const auto client = Connect(address, Lookups::kReads);
  if (!client.ok()) return client.status();
  const std::string value(kRateValueBytes, 'v');
  for (int64_t i = 0; i < kRateKeys; ++i) {
    if (auto put = (*client)->Put(Key(i), value); !put.ok()) return put.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<double> RateOf(const std::string& address, const Work& work, int64_t operations,
                              const std::function<void(bool begins)>& around) {
  std::vector<std::unique_ptr<Client>> clients;
  Value value;
  for (int i = 0; i < work.clients; ++i) {
    auto client = Connect(address, work.lookups);
    if (!client.ok()) return client.status();
    for (int64_t key = 0; key < kRateKeys; ++key) {
      if (absl::Status get = (*client)->Get(Key(key), &value); !get.ok()) return get;
    }
    clients.push_back(*std::move(client));
  }
  std::vector<absl::Status> statuses(clients.size());
  std::vector<std::thread> threads;
  std::barrier ready(work.clients + 1);
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      Pipeline pipeline(clients[i].get(), work, i + 1);
      ready.arrive_and_wait();
      statuses[i] = pipeline.Run(operations / work.clients);
    });
  }
  if (around) around(true);
  const auto begin = std::chrono::steady_clock::now();
  ready.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (around) around(false);
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  const int64_t done = operations / work.clients * work.clients;
  return static_cast<double>(done) / took.count();
}

}  // namespace farlook::scale
