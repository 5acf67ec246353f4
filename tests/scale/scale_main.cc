// Prints what docs/scale.md shows, as lines of tab-separated values: the counts of the real client, then the model's
// curves.
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

constexpr std::pair<const char*, double> kWorkloads[] = {{"A", 0.5}, {"B", 0.95}, {"C", 1}};
constexpr int kClients[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1'000};
constexpr int kMeasuredClients[] = {1, 8, 64};

void Main(uint64_t value_bytes) {
  std::map<std::pair<std::string, int>, Counts> counts;
  std::puts("counts\tworkload\tclients\tREADs/get\tmessages/get\tmessages/put\tone READ\ttwo\tthree");
  for (const auto& [name, reads] : kWorkloads) {
    for (const int clients : kMeasuredClients) {
      Load load;
      load.reads = reads;
      load.clients = clients;
      load.value_bytes = value_bytes;
      const Measured m = Measure(load);
      counts[{name, clients}] = m.counts;
      std::printf("counts\t%s\t%d\t%.3f\t%.4f\t%.3f\t%.4f\t%.4f\t%.4f\n", name, clients, m.reads_per_get,
                  m.messages_per_get, m.messages_per_put, m.counts.one_read, m.counts.two_reads, m.counts.three_reads);
    }
  }
  std::puts("model\tnic\tworkload\tlookups\tservers\tclients\toperations/s\tmedian ns\tp99 ns");
  for (const Nic* nic : {&kConnectX3, &kConnectX5}) {
    for (const auto& [name, reads] : kWorkloads) {
      for (const bool by_message : {false, true}) {
        for (const int servers : {1, 8, 64}) {
          for (const int clients : kClients) {
            Scenario s;
            s.nic = *nic;
            s.cpu = kHosts;
            s.reads = reads;
            s.by_message = by_message;
            s.servers = servers;
            s.clients = clients;
            // Of the measured numbers of clients the largest that is not more.
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
}

// What bench/verbs_speed measures on rxe: get of 64 bytes; 1,497 and 2,467 instructions of the client at 2 ns.
void Rxe() {
  std::puts("rxe\tREADs\tin flight\toperations/s\tmedian ns");
  const auto print = [](double client_ns, bool known, int in_flight) {
    Scenario s;
    s.nic = kRxe;
    s.cpu = {client_ns, 0, 1, 1, /*shared=*/true};
    s.counts.one_read = known ? 1 : 0;
    s.counts.two_reads = known ? 0 : 1;
    s.in_flight = in_flight;
    const Result r = Simulate(s);
    std::printf("rxe\t%d\t%d\t%.0f\t%.0f\n", known ? 1 : 2, in_flight, r.operations_per_second, r.median_ns);
  };
  print(1'497 * 2, true, 1);
  print(2'467 * 2, false, 1);
  for (const int in_flight : {16, 64, 256, 1'024}) print(1'497 * 2, true, in_flight);
}

}  // namespace
}  // namespace farlook::scale

int main(int argc, char** argv) {
  farlook::scale::Main(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100);
  farlook::scale::Rxe();
}
