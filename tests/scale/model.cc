#include "tests/scale/model.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include "bench/common/random.h"
#include "bench/common/zipfian.h"

namespace farlook::scale {
namespace {

// Serves one request at a time, in the order of arrival.
struct Queue {
  double free_ns = 0;
  double Serve(double now_ns, double ns) { return free_ns = std::max(free_ns, now_ns) + ns; }
};

struct Adapter {
  Queue engine, out, in, doorbell;
};

// A client or a worker: when it gets its processor it handles all that waits for it, and rings once for each
// connection.
struct Process {
  std::deque<size_t> waiting;
  std::vector<size_t> posting;  // operations that the last turn handled
  bool expected = false;        // a turn of it is to come
  double free_ns = 0;
};

// Turns are last among events at one time, and so find all arrivals; workers' are before clients'.
enum class Stage : uint8_t {
  kBegin,
  kClientPosts,
  kRequest,
  kArrived,
  kWorkerPosts,
  kReply,
  kReturn,
  kReturned,
  kDone,
  kWorkerTurn,
  kClientTurn
};

struct Op {
  int client = 0, server = 0;
  bool message = false, get = false;
  bool begun = false;  // its client has worked on it
  bool woken = false;  // its client slept until the one before ended
  int reads_left = 0;
  double begun_ns = 0;
};

struct Event {
  double time_ns;
  uint64_t order;
  size_t subject;  // an operation; of a turn, the process
  Stage stage;
  bool operator>(const Event& other) const {
    if (time_ns != other.time_ns) return time_ns > other.time_ns;
    return Rank() != other.Rank() ? Rank() > other.Rank() : order > other.order;
  }
  Stage Rank() const { return std::max(stage, Stage::kDone); }
};

class Model {
 public:
  explicit Model(const Scenario& s)
      : s_(s),
        zipfian_(0, static_cast<int64_t>(std::max<uint64_t>(s.keys, 2)) - 1),
        clients_(static_cast<size_t>(s.clients)),
        hosts_(static_cast<size_t>((s.clients + s.cpu.clients_per_host - 1) / s.cpu.clients_per_host)),
        servers_(static_cast<size_t>(s.servers)),
        workers_(servers_.size() * static_cast<size_t>(s.cpu.workers)),
        pairs_(clients_.size() * servers_.size()),
        ops_(static_cast<size_t>(s.clients) * static_cast<size_t>(s.in_flight)) {
    // The rest of the round trip without any waiting.
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
      if (event.stage != Stage::kDone) {
        Step(event);
        continue;
      }
      Op& op = ops_[event.subject];
      ++ended;
      if (ended == all / 3) from_ns = now_ns;
      if (ended > all / 3) took.push_back(now_ns - op.begun_ns);
      op.woken = op.message;
      Draw(&op);
      At(now_ns, event.subject, Stage::kBegin);
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

  void At(double time_ns, size_t subject, Stage stage) { events_.push({time_ns, order_++, subject, stage}); }
  // With one processor for everything, every queue of work is the same.
  Queue& Of(Queue& queue) { return s_.cpu.shared ? processor_ : queue; }
  Adapter& HostOf(const Op& op) { return hosts_[static_cast<size_t>(op.client / s_.cpu.clients_per_host)]; }
  Pair& PairOf(const Op& op) {
    return pairs_[static_cast<size_t>(op.client) * servers_.size() + static_cast<size_t>(op.server)];
  }
  // A connection belongs to one worker.
  size_t WorkerOf(const Op& op) const {
    const auto workers = static_cast<size_t>(s_.cpu.workers);
    return static_cast<size_t>(op.server) * workers + static_cast<size_t>(op.client) % workers;
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
    op->begun = false;
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
    // From the bucket again, as often as necessary.
    while (op->reads_left > 0 && random_.NextDouble() < c.extra_reads / (2 + c.extra_reads)) op->reads_left += 2;
  }

  // A turn of `process`, as soon as it has its processor. A processor that does everything serves adapters first.
  void Expect(Process* process, size_t number, Stage turn, double now) {
    if (process->expected || process->waiting.empty()) return;
    process->expected = true;
    At(std::max({now, process->free_ns, s_.cpu.shared ? processor_.free_ns : 0}), number, turn);
  }

  // Returns the operations that wait for `process`, if it is its turn. Otherwise that is postponed.
  std::vector<size_t> Take(Process* process, size_t number, Stage turn, double now) {
    process->expected = false;
    if (s_.cpu.shared && processor_.free_ns > now) {
      Expect(process, number, turn, now);
      return {};
    }
    // Beside others with work, handling several at once only changes their order.
    std::deque<size_t>& waiting = process->waiting;
    const auto end = s_.cpu.shared ? waiting.end() : waiting.begin() + 1;
    std::vector<size_t> batch(waiting.begin(), end);
    waiting.erase(waiting.begin(), end);
    return batch;
  }

  void Until(Process* process, double end_ns) {
    process->free_ns = end_ns;
    if (s_.cpu.shared) processor_.free_ns = end_ns;
  }

  // One ring for each connection with posted work.
  double Ring(Queue* doorbell, size_t connections, double now) {
    for (; connections > 0; --connections) now = Of(*doorbell).Serve(now, s_.nic.doorbell_ns);
    return now;
  }

  void ClientTurn(size_t number, double now) {
    Process& client = clients_[number];
    std::vector<size_t> batch = Take(&client, number, Stage::kClientTurn, now);
    if (batch.empty()) return;
    double t = now;
    if (std::any_of(batch.begin(), batch.end(), [this](size_t i) { return !ops_[i].begun && ops_[i].woken; })) {
      t += s_.cpu.wake_ns;
    }
    for (const size_t i : batch) {
      if (!std::exchange(ops_[i].begun, true)) t += s_.cpu.client_ns;
    }
    Until(&client, t);
    client.posting = std::move(batch);
    At(t, number, Stage::kClientPosts);
  }

  void ClientPosts(size_t number, double now) {
    const std::vector<size_t>& batch = clients_[number].posting;
    std::set<int> connections, reading;
    for (const size_t i : batch) {
      connections.insert(ops_[i].server);
      if (!ops_[i].message) reading.insert(ops_[i].server);
    }
    const double t = Ring(&HostOf(ops_[batch[0]]).doorbell, connections.size(), now);
    if (s_.nic.batch_ns > 0) {
      for (const int server : reading) Of(servers_[static_cast<size_t>(server)].engine).Serve(t, s_.nic.batch_ns);
    }
    for (const size_t i : batch) Post(i, t);
    Expect(&clients_[number], number, Stage::kClientTurn, now);
  }

  void Post(size_t i, double now) {
    const Op& op = ops_[i];
    if (!op.message) {
      Pair& pair = PairOf(op);
      if (pair.reading >= s_.nic.read_depth) return pair.waiting.push_back(i);
      ++pair.reading;
    }
    Adapter& host = HostOf(op);
    const Counts& c = s_.counts;
    const double bytes = op.message ? c.request_bytes + (op.get ? 0 : c.value_bytes) : 32;
    const double t = Of(host.engine).Serve(now, SendNs(ClientPairs()));
    At(host.out.Serve(t, Wire(bytes)) + one_way_ns_, i, Stage::kRequest);
  }

  void WorkerTurn(size_t number, double now) {
    Process& worker = workers_[number];
    std::vector<size_t> batch = Take(&worker, number, Stage::kWorkerTurn, now);
    if (batch.empty()) return;
    const double t = now + s_.cpu.wake_ns + static_cast<double>(batch.size()) * s_.cpu.request_ns;
    Until(&worker, t);
    worker.posting = std::move(batch);
    At(t, number, Stage::kWorkerPosts);
  }

  void WorkerPosts(size_t number, double now) {
    Adapter& adapter = servers_[number / static_cast<size_t>(s_.cpu.workers)];
    const std::vector<size_t>& batch = workers_[number].posting;
    std::set<int> connections;
    for (const size_t i : batch) connections.insert(ops_[i].client);
    const double t = Ring(&adapter.doorbell, connections.size(), now);
    for (const size_t i : batch) At(Of(adapter.engine).Serve(t, SendNs(s_.clients)), i, Stage::kReply);
    Expect(&workers_[number], number, Stage::kWorkerTurn, now);
  }

  // A lookup ends with an item, which follows a bucket.
  double ReadBytes(const Op& op) const {
    return op.reads_left % 2 == 0 ? s_.counts.bucket_bytes : s_.counts.item_bytes;
  }

  double ReplyBytes(const Op& op) const {
    const Counts& c = s_.counts;
    return op.message ? c.request_bytes + (op.get ? c.value_bytes : 0) : ReadBytes(op);
  }

  void Step(const Event& event) {
    const double now = event.time_ns;
    if (event.stage == Stage::kClientTurn) return ClientTurn(event.subject, now);
    if (event.stage == Stage::kClientPosts) return ClientPosts(event.subject, now);
    if (event.stage == Stage::kWorkerTurn) return WorkerTurn(event.subject, now);
    if (event.stage == Stage::kWorkerPosts) return WorkerPosts(event.subject, now);
    Op& op = ops_[event.subject];
    Adapter& host = HostOf(op);
    Adapter& adapter = servers_[static_cast<size_t>(op.server)];
    switch (event.stage) {
      case Stage::kBegin:
        op.begun_ns = now;
        return Hand(&clients_[static_cast<size_t>(op.client)], static_cast<size_t>(op.client), Stage::kClientTurn,
                    event);
      case Stage::kRequest:
        if (op.message) {
          const double bytes = s_.counts.request_bytes + (op.get ? 0 : s_.counts.value_bytes);
          const double t = adapter.in.Serve(now, Wire(bytes));
          return At(Of(adapter.engine).Serve(t, SendNs(s_.clients)), event.subject, Stage::kArrived);
        } else {
          const double ns = 1e9 / s_.nic.reads_per_second + Miss(s_.clients);
          return At(Of(adapter.engine).Serve(now, ns), event.subject, Stage::kReply);
        }
      case Stage::kArrived:
        return Hand(&workers_[WorkerOf(op)], WorkerOf(op), Stage::kWorkerTurn, event);
      case Stage::kReply:
        return At(adapter.out.Serve(now, Wire(ReplyBytes(op))) + one_way_ns_, event.subject, Stage::kReturn);
      case Stage::kReturn: {
        double t = host.in.Serve(now, Wire(ReplyBytes(op)));
        t = Of(host.engine).Serve(t, SendNs(ClientPairs()));
        return At(t, event.subject, Stage::kReturned);
      }
      case Stage::kReturned: {
        if (op.message) return At(now, event.subject, Stage::kDone);
        Pair& pair = PairOf(op);
        --pair.reading;
        if (!pair.waiting.empty()) {
          Post(pair.waiting.front(), Ring(&host.doorbell, 1, now));
          pair.waiting.pop_front();
        }
        if (--op.reads_left == 0) return At(now, event.subject, Stage::kDone);
        return Hand(&clients_[static_cast<size_t>(op.client)], static_cast<size_t>(op.client), Stage::kClientTurn,
                    event);
      }
      default:
        return;
    }
  }

  void Hand(Process* process, size_t number, Stage turn, const Event& event) {
    process->waiting.push_back(event.subject);
    Expect(process, number, turn, event.time_ns);
  }

  const Scenario s_;
  bench::Random random_{1};
  bench::ZipfianGenerator zipfian_;
  Queue processor_;
  std::vector<Process> clients_;
  std::vector<Adapter> hosts_;
  std::vector<Adapter> servers_;
  std::vector<Process> workers_;  // of all servers
  std::vector<Pair> pairs_;
  std::vector<Op> ops_;
  double one_way_ns_ = 0;
  uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
};

}  // namespace

Result Simulate(const Scenario& scenario) { return Model(scenario).Run(); }

}  // namespace farlook::scale
