// Prints the data of docs/reports/2026-11-26-scale.md, as lines of tab-separated values: the counts of the real client,
// then the model's curves.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "tests/scale/counts.h"
#include "tests/scale/model.h"
#include "tests/scale/nics.h"

namespace farlook::scale {
namespace {

// The share of gets, the client's knowledge before, and whether the same is measured by message.
struct Workload {
  const char* name;
  double reads;
  Known known;
  bool by_message_too;
};
constexpr Workload kWorkloads[] = {{"A", 0.5, Known::kItems, true},
                                   {"B", 0.95, Known::kItems, true},
                                   {"C", 1, Known::kItems, true},
                                   {"cold", 1, Known::kNothing, true},
                                   {"warmed", 1, Known::kIndex, false}};
// No client gets one of these twice.
constexpr uint64_t kColdKeys = 100'000, kColdGets = 20'000;

constexpr int kClients[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1'000};
constexpr int kMeasuredClients[] = {1, 8, 64};

using CountsOf = std::map<std::pair<std::string, int>, Counts>;  // by workload and clients

CountsOf Main(uint64_t value_bytes) {
  CountsOf counts;
  std::puts("counts\tworkload\tclients\tREADs/get\tmessages/get\tmessages/put\tone READ\ttwo\tthree");
  for (const auto& [name, reads, known, by_message_too] : kWorkloads) {
    for (const int clients : kMeasuredClients) {
      Load load;
      load.reads = reads;
      load.known = known;
      if (known != Known::kItems) {
        load.keys = kColdKeys;
        load.operations = kColdGets;
      }
      load.clients = clients;
      load.value_bytes = value_bytes;
      const Measured m = Measure(load);
      counts[{name, clients}] = m.counts;
      std::printf("counts\t%s\t%d\t%.3f\t%.4f\t%.3f\t%.4f\t%.4f\t%.4f\n", name, clients, m.reads_per_get,
                  m.messages_per_get, m.messages_per_put, m.counts.one_read, m.counts.two_reads, m.counts.three_reads);
    }
  }
  std::puts("model\tnic\tworkload\tlookups\tservers\tclients\toperations/s\tmedian ns\tp99 ns");
  for (const Nic* nic : {&kConnectIb, &kConnectX6}) {
    for (const auto& [name, reads, known, by_message_too] : kWorkloads) {
      for (const bool by_message : {false, true}) {
        if (by_message && !by_message_too) continue;
        for (const int servers : {1, 8, 64}) {
          for (const int clients : kClients) {
            Scenario s;
            s.nic = *nic;
            s.cpu = kHosts;
            s.reads = reads;
            s.by_message = by_message;
            s.servers = servers;
            s.clients = clients;
            s.operations = 20'000 + 80 * static_cast<uint64_t>(clients);  // queues take time to fill
            // The largest measured number of clients that does not exceed `clients`.
            const int* measured = std::upper_bound(std::begin(kMeasuredClients), std::end(kMeasuredClients), clients);
            s.counts = counts.at({name, *(measured - 1)});
            const Result r = Simulate(s);
            std::printf("model\t%s\t%s\t%s\t%d\t%d\t%.0f\t%.0f\t%.0f\n", nic->name, name,
                        by_message ? "message" : "READ", servers, clients, r.operations_per_second, r.median_ns,
                        r.p99_ns);
          }
        }
      }
    }
  }
  return counts;
}

// The capacity of one server's adapter for gets of keys that were never read before.
void Saturated(const CountsOf& counts) {
  std::puts("saturated\tnic\tworkload\tclients\tin flight\toperations/s");
  for (const Nic* nic : {&kConnectIb, &kConnectX6}) {
    for (const char* workload : {"cold", "warmed"}) {
      Scenario s;
      s.nic = *nic;
      s.cpu = kHosts;
      s.counts = counts.at({workload, kMeasuredClients[2]});
      s.clients = 256;
      s.in_flight = 4;
      s.operations = 200'000;
      std::printf("saturated\t%s\t%s\t%d\t%d\t%.0f\n", nic->name, workload, s.clients, s.in_flight,
                  Simulate(s).operations_per_second);
    }
  }
}

// The effect on the conclusions if a parameter is half or twice its assumed value. Workload C, one server.
void Sensitivity(const Counts& counts) {
  std::puts("sensitivity\tnic\tparameter\ttimes\tREAD, 64 clients\tmessage\tREAD, 1,000 clients\tmessage");
  const std::pair<const char*, double Nic::*> kParameters[] = {{"round trip", &Nic::round_trip_ns},
                                                               {"READs a second", &Nic::reads_per_second},
                                                               {"messages a second", &Nic::sends_per_second},
                                                               {"bytes a second", &Nic::bytes_per_second},
                                                               {"price of a miss", &Nic::miss_ns},
                                                               {"doorbell", &Nic::doorbell_ns}};
  for (const Nic* nic : {&kConnectIb, &kConnectX6}) {
    const auto print = [nic, &counts](const char* name, double times, const Nic& changed) {
      std::printf("sensitivity\t%s\t%s\t%.1f", nic->name, name, times);
      for (const int clients : {64, 1'000}) {
        for (const bool by_message : {false, true}) {
          Scenario s;
          s.nic = changed;
          s.cpu = kHosts;
          s.counts = counts;
          s.clients = clients;
          s.by_message = by_message;
          s.operations = 100'000;
          std::printf("\t%.1f", Simulate(s).operations_per_second / 1e6);
        }
      }
      std::puts("");
    };
    print("as it is", 1, *nic);
    for (const double times : {0.5, 2.0}) {
      for (const auto& [name, field] : kParameters) {
        Nic changed = *nic;
        changed.*field *= times;
        print(name, times, changed);
      }
      Nic changed = *nic;
      changed.cached_queue_pairs = static_cast<int>(changed.cached_queue_pairs * times);
      print("queue pairs held", times, changed);
    }
  }
}

}  // namespace
}  // namespace farlook::scale

int main(int argc, char** argv) {
  using farlook::scale::Main, farlook::scale::Saturated, farlook::scale::Sensitivity;
  const auto counts = Main(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100);
  Saturated(counts);
  Sensitivity(counts.at({"C", 64}));
}
