#include "tests/scale/model.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <queue>
#include <vector>

#include "bench/random.h"
#include "bench/zipfian.h"

namespace farlook::scale {
namespace {

// Serves one at a time, in the order in which it is asked.
struct Queue {
  double free_ns = 0;
  double Serve(double now_ns, double ns) { return free_ns = std::max(free_ns, now_ns) + ns; }
};

struct Adapter {
  Queue engine, out, in, doorbell;
};

struct Server {
  Adapter adapter;
  std::vector<Queue> workers;
};

enum class Stage : uint8_t { kBegin, kPost, kRequest, kHandle, kReply, kReturn, kDone };

struct Op {
  int client = 0, server = 0;
  bool message = false, get = false;
  int reads_left = 0;
  double begun_ns = 0;
};

struct Event {
  double time_ns;
  uint64_t order;
  size_t op;
  Stage stage;
  bool operator>(const Event& other) const {
    return time_ns != other.time_ns ? time_ns > other.time_ns : order > other.order;
  }
};

class Model {
 public:
  explicit Model(const Scenario& s)
      : s_(s),
        zipfian_(0, static_cast<int64_t>(std::max<uint64_t>(s.keys, 2)) - 1),
        clients_(static_cast<size_t>(s.clients)),
        hosts_(static_cast<size_t>((s.clients + s.cpu.clients_per_host - 1) / s.cpu.clients_per_host)),
        servers_(static_cast<size_t>(s.servers)),
        pairs_(clients_.size() * servers_.size()),
        ops_(static_cast<size_t>(s.clients) * static_cast<size_t>(s.in_flight)) {
    for (Server& server : servers_) server.workers.resize(static_cast<size_t>(s.cpu.workers));
    // What is left of the round trip when nobody waits for anybody.
    const double served = 2 / s.nic.sends_per_second * 1e9 + 1e9 / s.nic.reads_per_second + s.nic.doorbell_ns +
                          2 * 64 * 1e9 / s.nic.bytes_per_second;
    one_way_ns_ = std::max(0.0, s.nic.round_trip_ns - served) / 2;
  }

  Result Run() {
    for (size_t i = 0; i < ops_.size(); ++i) {
      ops_[i].client = static_cast<int>(i) % s_.clients;
      Draw(&ops_[i]);
      // Not all at once.
      At(random_.NextDouble() * s_.nic.round_trip_ns, i, Stage::kBegin);
    }
    // The first third only fills the queues.
    const uint64_t all = std::max<uint64_t>(s_.operations, 6 * ops_.size());
    double from_ns = 0, now_ns = 0;
    uint64_t ended = 0;
    std::vector<double> took;
    while (ended < all) {
      const Event event = events_.top();
      events_.pop();
      now_ns = event.time_ns;
      Op& op = ops_[event.op];
      if (event.stage != Stage::kDone) {
        Step(event);
        continue;
      }
      ++ended;
      if (ended == all / 3) from_ns = now_ns;
      if (ended > all / 3) took.push_back(now_ns - op.begun_ns);
      Draw(&op);
      At(now_ns, event.op, Stage::kBegin);
    }
    std::sort(took.begin(), took.end());
    Result result;
    result.operations_per_second = static_cast<double>(took.size()) / (now_ns - from_ns) * 1e9;
    result.median_ns = took[took.size() / 2];
    result.p99_ns = took[took.size() * 99 / 100];
    return result;
  }

 private:
  struct Pair {
    int reading = 0;
    std::deque<size_t> waiting;
  };

  void At(double time_ns, size_t op, Stage stage) { events_.push({time_ns, order_++, op, stage}); }
  // With one processor for everything, every queue of work is that one.
  Queue& Of(Queue& queue) { return s_.cpu.shared ? processor_ : queue; }
  Adapter& HostOf(const Op& op) { return hosts_[static_cast<size_t>(op.client / s_.cpu.clients_per_host)]; }
  Server& ServerOf(const Op& op) { return servers_[static_cast<size_t>(op.server)]; }
  Pair& PairOf(const Op& op) {
    return pairs_[static_cast<size_t>(op.client) * servers_.size() + static_cast<size_t>(op.server)];
  }
  double Wire(double bytes) const { return bytes * 1e9 / s_.nic.bytes_per_second; }
  double SendNs(int queue_pairs) { return 1e9 / s_.nic.sends_per_second + Miss(queue_pairs); }
  double Miss(int queue_pairs) {
    const double miss = 1 - static_cast<double>(s_.nic.cached_queue_pairs) / queue_pairs;
    return miss > 0 && random_.NextDouble() < miss ? s_.nic.miss_ns : 0;
  }
  int ClientPairs() const { return std::min(s_.clients, s_.cpu.clients_per_host) * s_.servers; }

  void Draw(Op* op) {
    const uint64_t key = s_.keys == 0 ? random_.Next() : static_cast<uint64_t>(zipfian_.Next(&random_));
    uint64_t hash = (key + 1) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    op->server = static_cast<int>(hash % static_cast<uint64_t>(s_.servers));
    op->get = random_.NextDouble() < s_.reads;
    op->message = !op->get || s_.by_message;
    op->reads_left = 0;
    if (op->message) return;
    const Counts& c = s_.counts;
    const double u = random_.NextDouble();
    if (u < c.one_read) {
      op->reads_left = 1;
    } else if (u < c.one_read + c.two_reads) {
      op->reads_left = 2;
    } else if (u < c.one_read + c.two_reads + c.three_reads) {
      op->reads_left = 3;
    } else {
      op->message = true;
    }
    // From the bucket again, as often as it takes.
    while (op->reads_left > 0 && random_.NextDouble() < c.extra_reads / (2 + c.extra_reads)) op->reads_left += 2;
  }

  // A lookup ends with an item, which comes after a bucket.
  double ReadBytes(const Op& op) const {
    return op.reads_left % 2 == 0 ? s_.counts.bucket_bytes : s_.counts.item_bytes;
  }

  void Step(const Event& event) {
    Op& op = ops_[event.op];
    const double now = event.time_ns;
    Adapter& host = HostOf(op);
    Server& server = ServerOf(op);
    const Counts& c = s_.counts;
    switch (event.stage) {
      case Stage::kBegin:
        op.begun_ns = now;
        return At(Of(clients_[static_cast<size_t>(op.client)]).Serve(now, s_.cpu.client_ns), event.op, Stage::kPost);
      case Stage::kPost: {
        if (!op.message) {
          Pair& pair = PairOf(op);
          if (pair.reading >= s_.nic.read_depth) return pair.waiting.push_back(event.op);
          ++pair.reading;
        }
        const double bytes = op.message ? c.request_bytes + (op.get ? 0 : c.value_bytes) : 32;
        double t = host.doorbell.Serve(now, s_.nic.doorbell_ns);
        t = Of(host.engine).Serve(t, SendNs(ClientPairs()));
        t = host.out.Serve(t, Wire(bytes));
        return At(t + one_way_ns_, event.op, Stage::kRequest);
      }
      case Stage::kRequest:
        if (op.message) {
          const double t = server.adapter.in.Serve(now, Wire(c.request_bytes + (op.get ? 0 : c.value_bytes)));
          return At(Of(server.adapter.engine).Serve(t, SendNs(s_.clients)), event.op, Stage::kHandle);
        } else {
          const double ns = 1e9 / s_.nic.reads_per_second + Miss(s_.clients);
          return At(Of(server.adapter.engine).Serve(now, ns), event.op, Stage::kReply);
        }
      case Stage::kHandle: {
        // A connection belongs to one worker.
        Queue& worker = server.workers[static_cast<size_t>(op.client) % server.workers.size()];
        const double t = Of(worker).Serve(now, s_.cpu.request_ns);
        return At(Of(server.adapter.engine).Serve(t, SendNs(s_.clients)), event.op, Stage::kReply);
      }
      case Stage::kReply: {
        const double bytes = op.message ? c.request_bytes + (op.get ? c.value_bytes : 0) : ReadBytes(op);
        return At(server.adapter.out.Serve(now, Wire(bytes)) + one_way_ns_, event.op, Stage::kReturn);
      }
      case Stage::kReturn: {
        const double bytes = op.message ? c.request_bytes + (op.get ? c.value_bytes : 0) : ReadBytes(op);
        double t = host.in.Serve(now, Wire(bytes));
        t = Of(host.engine).Serve(t, SendNs(ClientPairs()));
        if (op.message) return At(t, event.op, Stage::kDone);
        Pair& pair = PairOf(op);
        --pair.reading;
        if (!pair.waiting.empty()) {
          At(t, pair.waiting.front(), Stage::kPost);
          pair.waiting.pop_front();
        }
        return At(t, event.op, --op.reads_left > 0 ? Stage::kPost : Stage::kDone);
      }
      case Stage::kDone:
        return;
    }
  }

  const Scenario s_;
  bench::Random random_{1};
  bench::ZipfianGenerator zipfian_;
  Queue processor_;
  std::vector<Queue> clients_;
  std::vector<Adapter> hosts_;
  std::vector<Server> servers_;
  std::vector<Pair> pairs_;
  std::vector<Op> ops_;
  double one_way_ns_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
};

}  // namespace

Result Simulate(const Scenario& scenario) { return Model(scenario).Run(); }

}  // namespace farlook::scale
