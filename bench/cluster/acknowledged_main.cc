// acknowledged: loads a group, reads and writes it while its servers are disturbed from outside, and proves at the end
// that every acknowledged write is there.
//
//     acknowledged --address=shm:///run/a,shm:///run/b [--records=N] [--value_bytes=1000] [--seconds=20] [--threads=2]
//
// The mix is YCSB's workload B: 95 % reads, 5 % updates, of keys with a Zipf distribution. Only one thread writes a
// key. Each value contains the number of the key's write, which determines the rest of the value. So each read, and the
// proof, can detect a lost, stale or damaged value. Prints a line each second. SIGTERM and SIGINT begin the proof
// early.
//
// Exit codes: 0 all is there, 1 the group cannot be reached or loaded, 3 something is not as it was acknowledged.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "bench/common/clocks.h"
#include "bench/common/random.h"
#include "bench/ycsb/acknowledged_counter.h"
#include "bench/ycsb/key_chooser.h"
#include "farlook/client.h"

ABSL_FLAG(std::string, address, "", "of the group's servers, with commas between");
ABSL_FLAG(int64_t, records, 50'000, "to load");
ABSL_FLAG(int64_t, value_bytes, 1000, "of each value, 20 at least");
ABSL_FLAG(int64_t, seconds, 20, "of reading and writing");
ABSL_FLAG(int, threads, 2, "each with a client of its own");

namespace farlook::bench {
namespace {

constexpr int64_t kTimeoutMs = 20'000;
constexpr size_t kBatch = 64;
constexpr double kUpdates = 0.05;

std::atomic<bool> over{false};

std::string KeyOf(int64_t record) { return absl::StrCat("user", record); }

// The value of the key's write number `step`.
std::string ValueOf(int64_t record, uint64_t step, size_t bytes) {
  std::string value = absl::StrFormat("%012d:", step);
  Random random(static_cast<uint64_t>(record) * 0x9E3779B97F4A7C15 + step);
  while (value.size() < bytes) absl::StrAppend(&value, absl::Hex(random.Next(), absl::kZeroPad16));
  value.resize(bytes);
  return value;
}

// State of one key, written by one thread.
struct Written {
  std::atomic<uint64_t> acknowledged{0};
  std::atomic<uint64_t> begun{0};  // more than acknowledged if the outcome of some is unknown
};

enum class Verdict : uint8_t { kGood, kOutOfDate, kDamaged };

class Table {
 public:
  Table(int64_t records, size_t value_bytes) : records_(records), value_bytes_(value_bytes), written_(records) {}

  int64_t records() const { return records_; }
  Written& of(int64_t record) { return written_[record]; }
  std::string Value(int64_t record, uint64_t step) const { return ValueOf(record, step, value_bytes_); }
  // Checks a value that was READ after `least` writes of its key had been acknowledged.
  Verdict Judge(int64_t record, uint64_t least, std::string_view value) const {
    uint64_t step = 0;
    const size_t digits = std::min(value.find(':'), value.size());
    if (!absl::SimpleAtoi(absl::string_view(value.data(), digits), &step) || value != Value(record, step)) {
      return Verdict::kDamaged;
    }
    if (step > written_[record].begun) return Verdict::kDamaged;
    return step < least ? Verdict::kOutOfDate : Verdict::kGood;
  }

 private:
  const int64_t records_;
  const size_t value_bytes_;
  std::vector<Written> written_;
};

// Counts of all threads since they were last taken.
struct Counts {
  std::atomic<uint64_t> reads{0}, writes{0}, errors{0}, out_of_date{0}, damaged{0};
  std::atomic<int64_t> longest_ns{0};

  void Add(Verdict verdict) {
    if (verdict == Verdict::kOutOfDate) ++out_of_date;
    if (verdict == Verdict::kDamaged) ++damaged;
  }
  void Took(int64_t ns) {
    int64_t longest = longest_ns;
    while (ns > longest && !longest_ns.compare_exchange_weak(longest, ns)) continue;
  }
};

absl::StatusOr<std::unique_ptr<Client>> Connect() {
  ClientOptions options;
  options.timeout_ms = kTimeoutMs;
  return Client::Connect(absl::GetFlag(FLAGS_address), options);
}

absl::Status Load(Client* client, Table* table) {
  std::vector<std::string> keys, values;
  std::vector<std::string_view> key_views, value_views;
  std::vector<Result<uint64_t>> results;
  for (int64_t next = 0; next < table->records() && !over;) {
    keys.clear();
    values.clear();
    for (; keys.size() < kBatch && next < table->records(); ++next) {
      keys.push_back(KeyOf(next));
      values.push_back(table->Value(next, 1));
      table->of(next).begun = table->of(next).acknowledged = 1;
    }
    key_views.assign(keys.begin(), keys.end());
    value_views.assign(values.begin(), values.end());
    if (absl::Status status = client->MultiPut(key_views, value_views, &results); !status.ok()) return status;
  }
  return over ? absl::CancelledError("ended while it loaded") : absl::OkStatus();
}

// One of `threads`: it writes the keys whose number modulo `threads` is `thread`.
void Work(Client* client, Table* table, Counts* counts, std::unique_ptr<KeyChooser> chooser, int thread, int threads) {
  Random random(static_cast<uint64_t>(thread) + 1);
  while (!over) {
    int64_t record = chooser->Next(&random);
    const int64_t start_ns = NowNs();
    if (random.NextDouble() >= kUpdates) {
      const uint64_t least = table->of(record).acknowledged;
      auto value = client->Get(KeyOf(record));
      ++(value.ok() ? counts->reads : counts->errors);
      // NOT_FOUND is an answer too, and a wrong one.
      if (value.ok()) counts->Add(table->Judge(record, least, value->data));
      if (absl::IsNotFound(value.status())) ++counts->out_of_date;
    } else {
      record -= record % threads - thread;
      if (record >= table->records()) record -= threads;
      Written& written = table->of(record);
      const uint64_t step = ++written.begun;
      const bool done = client->Put(KeyOf(record), table->Value(record, step)).ok();
      if (done) written.acknowledged = step;
      ++(done ? counts->writes : counts->errors);
    }
    counts->Took(NowNs() - start_ns);
  }
}

void Report(Counts* counts) {
  const int64_t start_ns = NowNs();
  absl::PrintF("%5s  %12s  %10s  %6s  %11s\n", "s", "reads", "writes", "errors", "longest ms");
  uint64_t reads = 0, writes = 0;
  for (int64_t second = 1; second <= absl::GetFlag(FLAGS_seconds) && !over; ++second) {
    while (NowNs() < start_ns + second * 1'000'000'000 && !over) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    const uint64_t read = counts->reads, written = counts->writes;
    absl::PrintF("%5d  %12d  %10d  %6d  %11.1f\n", second, read - std::exchange(reads, read),
                 written - std::exchange(writes, written), counts->errors.load(),
                 static_cast<double>(counts->longest_ns.exchange(0)) / 1e6);
    std::fflush(stdout);
  }
  over = true;
}

// Returns whether all acknowledged writes are there.
absl::StatusOr<bool> Prove(Client* client, Table* table, const Counts& counts) {
  uint64_t lost = 0, out_of_date = 0, damaged = 0, acknowledged = 0, unknown = 0;
  std::vector<std::string> keys;
  std::vector<std::string_view> views;
  std::vector<Result<Value>> results;
  for (int64_t first = 0; first < table->records(); first += kBatch) {
    const int64_t end = std::min<int64_t>(table->records(), first + kBatch);
    keys.clear();
    for (int64_t record = first; record < end; ++record) keys.push_back(KeyOf(record));
    views.assign(keys.begin(), keys.end());
    if (absl::Status status = client->MultiGet(views, &results); !status.ok()) return status;
    for (int64_t record = first; record < end; ++record) {
      const Result<Value>& result = results[record - first];
      const Written& written = table->of(record);
      acknowledged += written.acknowledged;
      unknown += written.begun - written.acknowledged;
      if (!result.status.ok()) {
        ++lost;
        continue;
      }
      const Verdict verdict = table->Judge(record, written.acknowledged, result.value.data);
      out_of_date += verdict == Verdict::kOutOfDate;
      damaged += verdict == Verdict::kDamaged;
    }
  }
  absl::PrintF(
      "proof: %d records, %d acknowledged writes, %d of unknown outcome; of the records %d are lost, %d out of "
      "date, %d damaged; of the reads before %d were out of date, %d damaged\n",
      table->records(), acknowledged, unknown, lost, out_of_date, damaged, counts.out_of_date.load(),
      counts.damaged.load());
  return lost + out_of_date + damaged + counts.out_of_date + counts.damaged == 0;
}

absl::StatusOr<bool> Run() {
  const int threads = absl::GetFlag(FLAGS_threads);
  Table table(absl::GetFlag(FLAGS_records), absl::GetFlag(FLAGS_value_bytes));
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < threads; ++i) {
    auto client = Connect();
    if (!client.ok()) return client.status();
    clients.push_back(*std::move(client));
  }
  if (absl::Status status = Load(clients[0].get(), &table); !status.ok()) return status;
  absl::PrintF("%d records of %d bytes are loaded\n", table.records(), absl::GetFlag(FLAGS_value_bytes));
  std::fflush(stdout);
  const AcknowledgedCounter inserted(table.records());
  const KeySpace space = {.count = table.records(), .record_count = table.records()};
  const auto chooser = NewKeyChooser(Distribution::kZipfian, space, &inserted);
  Counts counts;
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back(Work, clients[i].get(), &table, &counts, chooser->Clone(), i, threads);
  }
  Report(&counts);
  for (std::thread& worker : workers) worker.join();
  return Prove(clients[0].get(), &table, counts);
}

int Main() {
  if (absl::GetFlag(FLAGS_address).empty() || absl::GetFlag(FLAGS_threads) < 1 ||
      absl::GetFlag(FLAGS_records) < absl::GetFlag(FLAGS_threads) || absl::GetFlag(FLAGS_value_bytes) < 20 ||
      absl::GetFlag(FLAGS_seconds) < 1) {
    absl::FPrintF(stderr,
                  "acknowledged: wants --address, at least one thread and second, a record for each thread, and "
                  "values of 20 bytes\n");
    return 1;
  }
  for (const int number : {SIGTERM, SIGINT}) signal(number, [](int) { over = true; });
  const absl::StatusOr<bool> good = Run();
  if (good.ok()) return *good ? 0 : 3;
  absl::FPrintF(stderr, "acknowledged: %s\n", good.status().ToString());
  return 1;
}

}  // namespace
}  // namespace farlook::bench

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("acknowledged: proves that a group keeps what it acknowledged; see its source");
  absl::ParseCommandLine(argc, argv);
  return farlook::bench::Main();
}
