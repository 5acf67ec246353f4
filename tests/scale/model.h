// A model of many clients and servers on adapters: their throughput, and the latency of each operation. docs/scale.md.
//
// Time is virtual, and every queue is first come, first served: processors of clients and servers, adapters (messages
// for each second), links (bytes for each second, each way), doorbells. The model does not know the costs of an
// operation: counts.h measures them with the real client.
#ifndef FARLOOK_TESTS_SCALE_MODEL_H_
#define FARLOOK_TESTS_SCALE_MODEL_H_

#include <cstdint>

namespace farlook::scale {

// An adapter, and the network between two of them.
struct Nic {
  const char* name;
  double round_trip_ns;     // of a READ of 64 bytes, from post to completion, nothing else under way
  double reads_per_second;  // that it answers
  double sends_per_second;  // messages that it sends or receives, READ requests that it sends
  double bytes_per_second;  // each way
  int read_depth;           // READs under way on one queue pair
  int cached_queue_pairs;   // whose state it holds
  double miss_ns;           // by which a message takes longer whose queue pair it does not
  double doorbell_ns;       // of a host, whose clients share the way to the adapter: once for what is posted together
  double batch_ns = 0;      // by which READs that are posted together take longer than each of them
};

// The times of a processor.
struct Cpu {
  double client_ns;      // for each operation of a client
  double request_ns;     // for each message that a server handles
  int workers;           // of a server
  int clients_per_host;  // they share an adapter
  bool shared = false;   // one processor does everything, the adapters' work too, as Soft-RoCE on one host: a client or
                         // worker gets it when no adapter needs it, workers before clients, and handles all arrivals at
                         // once
  double wake_ns = 0;    // of a client or a worker that slept until a message came
};

// The network operations of a client's operations: see counts.h.
struct Counts {
  double one_read = 1;     // share of gets that take one READ: of the item
  double two_reads = 0;    // bucket and item
  double three_reads = 0;  // a stale location before these; the rest asks the server
  double extra_reads = 0;  // more for each get by READ, on average: the item was being written
  double bucket_bytes = 128;
  double item_bytes = 64;
  double request_bytes = 64;  // of a message without a value
  double value_bytes = 32;
};

struct Scenario {
  Nic nic;
  Cpu cpu;
  Counts counts;
  double reads = 1;         // share of operations that are gets
  bool by_message = false;  // gets ask the server
  int clients = 1;
  int servers = 1;
  int in_flight = 1;          // of each client
  uint64_t keys = 1'000'000;  // zipfian, as YCSB's; 0: each server gets the same share
  uint64_t operations = 20'000;
};

struct Result {
  double operations_per_second = 0;
  double median_ns = 0;
  double p99_ns = 0;
};

// The same scenario gives the same result. REQUIRES clients, servers, in_flight, cpu.workers >= 1.
Result Simulate(const Scenario& scenario);

}  // namespace farlook::scale

#endif  // FARLOOK_TESTS_SCALE_MODEL_H_
