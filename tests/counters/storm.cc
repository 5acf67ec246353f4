#include "tests/counters/storm.h"

#include <unistd.h>

#include <cstdio>
#include <random>

#include "absl/strings/str_cat.h"
#include "farlook/async.h"
#include "farlook/client.h"
#include "rdma/test_address.h"

namespace farlook {
namespace {

constexpr int kKeyShift = kStormKeys * kStormFieldBits;
constexpr int64_t kField = (int64_t{1} << kStormFieldBits) - 1;

// A counter with more adds than this is deleted, long before its field overflows.
constexpr int64_t kManyAdds = 300;

int64_t UnitOf(int key) { return int64_t{1} << (key * kStormFieldBits); }
int64_t AddsIn(int key, int64_t value) { return value >> (key * kStormFieldBits) & kField; }

void Violation(StormBoard* board, const std::string& what) {
  if (board->violations.fetch_add(1) == 0) {
    std::snprintf(board->first_violation, sizeof board->first_violation, "%s", what.c_str());
  }
}

class StormClient {
 public:
  StormClient(StormBoard* board, Client* client, uint32_t seed) : board_(board), client_(client), random_(seed) {}

  void Step() {
    const int key = static_cast<int>(random_() % kStormKeys);
    switch (random_() % (rdma::TestsUseRdma() ? 16 : 64)) {
      case 0:
        return Delete(key);
      case 1:
        return Read(key);
      default:
        return Add(key);
    }
  }

 private:
  static std::string Name(int key) { return absl::StrCat("storm", key); }

  bool Expected(const absl::Status& status) {
    switch (status.code()) {
      case absl::StatusCode::kUnknown:
      case absl::StatusCode::kDeadlineExceeded:
        board_->unknown.fetch_add(1);
        return true;
      case absl::StatusCode::kNotFound:
      case absl::StatusCode::kAlreadyExists:
        return true;
      case absl::StatusCode::kResourceExhausted:  // all cells are in quarantine
        usleep(1000);
        return true;
      default:
        Violation(board_, absl::StrCat("an error: ", status.ToString()));
        return false;
    }
  }

  void Add(int key) {
    absl::StatusOr<int64_t> old = client_->FetchAdd(Name(key), UnitOf(key));
    if (absl::IsNotFound(old.status())) return Create(key);
    if (!old.ok()) {
      Expected(old.status());
      return;
    }
    const uint32_t creation = CheckStormValue(board_, key, *old, "an add found");
    board_->done[creation].fetch_add(1);
    board_->adds.fetch_add(1);
    if (AddsIn(key, *old) > kManyAdds) Delete(key);
  }

  void Create(int key) {
    const uint32_t number = board_->creations.fetch_add(board_->stride) + static_cast<uint32_t>(key);
    if (number >= kStormCreations) {
      board_->stop = true;
      return;
    }
    // Creation and key together are the number.
    const absl::Status status = client_->CreateCounter(Name(key), static_cast<int64_t>(number) << kKeyShift);
    if (!status.ok()) Expected(status);
  }

  void Read(int key) {
    absl::StatusOr<int64_t> value = client_->ReadCounter(Name(key));
    if (value.ok()) {
      CheckStormValue(board_, key, *value, "a read found");
    } else {
      Expected(value.status());
    }
  }

  void Delete(int key) {
    const absl::StatusOr<int64_t> last = client_->DeleteCounter(Name(key));
    if (!last.ok()) {
      Expected(last.status());
      return;
    }
    const uint32_t creation = CheckStormValue(board_, key, *last, "a delete found");
    const auto adds = static_cast<uint32_t>(AddsIn(key, *last));
    if (board_->final[creation].exchange(1 + adds) != 0 && creation != 0) {
      Violation(board_, absl::StrCat("creation ", creation, " was deleted twice"));
    }
    board_->deletes.fetch_add(1);
  }

  StormBoard* const board_;
  Client* const client_;
  std::minstd_rand random_;
};

}  // namespace

uint32_t CheckStormValue(StormBoard* board, int key, int64_t value, absl::string_view what) {
  const uint32_t number = static_cast<uint32_t>(value >> kKeyShift);
  bool right = value >= 0 && number < kStormCreations && number >= kStormKeys &&
               number % kStormKeys == static_cast<uint32_t>(key);
  for (int other = 0; other < kStormKeys; ++other) right = right && (other == key || AddsIn(other, value) == 0);
  if (right) return number;
  Violation(board, absl::StrCat(what, " ", value, " in counter ", key, ": that is not its own"));
  return 0;
}

void RunStormClient(StormBoard* board, const std::string& address, uint32_t seed) {
  ClientOptions options;
  options.timeout_ms = 60'000;
  auto client = Client::Connect(address, options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    _exit(1);
  }
  StormClient storm(board, client->get(), seed);
  while (!board->stop) storm.Step();
  board->atomics += (*client)->stats().atomics;
  board->dead_cells += (*client)->stats().dead_cells;
}

}  // namespace farlook
