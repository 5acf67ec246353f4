// A user through the C library: calls that wait, batches, and operations that do not wait.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "farlook.h"
#include "tests/history/history.h"
#include "tests/history/outcome.h"
#include "tests/history/values.h"
#include "tests/linearizable/user.h"

namespace farlook {
namespace {

using history::Outcome;
using history::Type;

struct Freed {
  void operator()(farlook_client* client) const { farlook_close(client); }
  void operator()(farlook_options* options) const { farlook_options_free(options); }
  void operator()(farlook_value* value) const { farlook_value_free(value); }
  void operator()(farlook_operation* operation) const { farlook_operation_free(operation); }
};
template <typename T>
using Handle = std::unique_ptr<T, Freed>;

// An operation, from its request to its outcome.
struct Asked {
  history::Operation record;
  std::string key;
  std::string value;
  Handle<farlook_options> options{farlook_options_new()};
  Board::Entry* entry = nullptr;

  int code = FARLOOK_INTERNAL;
  std::string found;
  uint64_t version = 0;
  int64_t number = 0;
};

constexpr size_t kMostAtOnce = 3;
using Several = std::array<Asked, kMostAtOnce>;

// Runs the operation by the call for one key.
void Call(farlook_client* client, Asked* a) {
  const Handle<farlook_value> value(farlook_value_new());
  const char* const key = a->key.data();
  const size_t bytes = a->key.size();
  const farlook_options* const options = a->options.get();
  switch (a->record.type) {
    case Type::kGet:
      a->code = farlook_get_value(client, key, bytes, options, value.get());
      a->found.assign(static_cast<const char*>(farlook_value_data(value.get())), farlook_value_bytes(value.get()));
      a->version = farlook_value_version(value.get());
      return;
    case Type::kDelete:
      a->code = farlook_delete(client, key, bytes, options);
      return;
    case Type::kCreateCounter:
      a->code = farlook_create_counter(client, key, bytes, a->record.operand, options, &a->number);
      return;
    case Type::kFetchAdd:
    case Type::kAddOrCreate:
      a->code = farlook_fetch_add(client, key, bytes, a->record.operand, options, &a->number);
      return;
    case Type::kCompareSwap:
      a->code =
          farlook_compare_swap(client, key, bytes, a->record.expected_counter, a->record.operand, options, &a->number);
      return;
    case Type::kReadCounter:
      a->code = farlook_read_counter(client, key, bytes, options, &a->number);
      return;
    case Type::kDeleteCounter:
      a->code = farlook_delete_counter(client, key, bytes, options, &a->number);
      return;
    default:
      a->code = farlook_put(client, key, bytes, a->value.data(), a->value.size(), options, &a->version);
  }
}

int Prepare(farlook_operation* operation, const Asked& a) {
  const char* const key = a.key.data();
  const size_t bytes = a.key.size();
  const farlook_options* const options = a.options.get();
  switch (a.record.type) {
    case Type::kGet:
      return farlook_prepare_get(operation, key, bytes, options);
    case Type::kDelete:
      return farlook_prepare_delete(operation, key, bytes, options);
    case Type::kCreateCounter:
      return farlook_prepare_create_counter(operation, key, bytes, a.record.operand, options);
    case Type::kFetchAdd:
    case Type::kAddOrCreate:
      return farlook_prepare_fetch_add(operation, key, bytes, a.record.operand, options);
    case Type::kCompareSwap:
      return farlook_prepare_compare_swap(operation, key, bytes, a.record.expected_counter, a.record.operand, options);
    case Type::kReadCounter:
      return farlook_prepare_read_counter(operation, key, bytes, options);
    case Type::kDeleteCounter:
      return farlook_prepare_delete_counter(operation, key, bytes, options);
    default:
      return farlook_prepare_put(operation, key, bytes, a.value.data(), a.value.size(), options);
  }
}

void CallAsync(farlook_client* client, Several* asked, size_t count) {
  std::array<Handle<farlook_operation>, kMostAtOnce> operations;
  std::array<farlook_operation*, kMostAtOnce> started;
  for (size_t i = 0; i < count; ++i) {
    operations[i].reset(farlook_operation_new());
    started[i] = operations[i].get();
    farlook_operation_set_tag(started[i], &(*asked)[i]);
    if (Prepare(started[i], (*asked)[i]) != FARLOOK_OK) return;  // no operation may end with this code
  }
  if (farlook_start(client, started.data(), count) != FARLOOK_OK) return;
  std::array<farlook_operation*, kMostAtOnce> done;
  while (farlook_in_flight(client) > 0) {
    for (int left = farlook_wait(client, done.data(), done.size()); left > 0; --left) {
      const farlook_operation* const operation = done[static_cast<size_t>(left - 1)];
      auto* const a = static_cast<Asked*>(farlook_operation_tag(operation));
      a->code = farlook_operation_code(operation);
      a->version = farlook_operation_version(operation);
      a->number = farlook_operation_number(operation);
      if (a->code != FARLOOK_OK || a->record.type != Type::kGet) continue;
      a->found.assign(static_cast<const char*>(farlook_operation_data(operation)), farlook_operation_bytes(operation));
    }
  }
}

// All operations have one type, and the first one's options.
void CallBatch(farlook_client* client, Several* asked, size_t count) {
  std::array<const void*, kMostAtOnce> keys, values;
  std::array<size_t, kMostAtOnce> key_bytes, value_bytes;
  std::array<std::array<char, 10'000>, kMostAtOnce> memory;
  std::array<void*, kMostAtOnce> buffers;
  std::array<size_t, kMostAtOnce> buffer_bytes;
  std::array<uint64_t, kMostAtOnce> versions{};
  std::array<int64_t, kMostAtOnce> operands, numbers{};
  std::array<int, kMostAtOnce> codes;
  codes.fill(FARLOOK_INTERNAL);
  for (size_t i = 0; i < count; ++i) {
    const Asked& a = (*asked)[i];
    keys[i] = a.key.data();
    key_bytes[i] = a.key.size();
    values[i] = a.value.data();
    value_bytes[i] = a.value.size();
    buffers[i] = memory[i].data();
    buffer_bytes[i] = memory[i].size();
    operands[i] = a.record.operand;
  }
  const farlook_options* const options = (*asked)[0].options.get();
  const Type type = (*asked)[0].record.type;
  if (type == Type::kGet) {
    farlook_get_many(client, count, keys.data(), key_bytes.data(), options, buffers.data(), buffer_bytes.data(),
                     value_bytes.data(), versions.data(), codes.data());
  } else if (type == Type::kDelete) {
    farlook_delete_many(client, count, keys.data(), key_bytes.data(), options, codes.data());
  } else if (type == Type::kFetchAdd) {
    farlook_fetch_add_many(client, count, keys.data(), key_bytes.data(), operands.data(), options, numbers.data(),
                           codes.data());
  } else if (type == Type::kReadCounter) {
    farlook_read_counter_many(client, count, keys.data(), key_bytes.data(), options, numbers.data(), codes.data());
  } else {
    farlook_put_many(client, count, keys.data(), key_bytes.data(), values.data(), value_bytes.data(), options,
                     versions.data(), codes.data());
  }
  for (size_t i = 0; i < count; ++i) {
    Asked& a = (*asked)[i];
    a.code = codes[i];
    a.version = versions[i];
    a.number = numbers[i];
    if (a.code == FARLOOK_OK && type == Type::kGet) a.found.assign(memory[i].data(), value_bytes[i]);
  }
}

bool HasBatch(Type type) {
  return type == Type::kGet || type == Type::kDelete || type == Type::kFetchAdd || type == Type::kReadCounter ||
         type == Type::kPut;
}

class CUser {
 public:
  CUser(Board* board, int lane, farlook_client* client, uint32_t seed)
      : board_(board), lane_(lane), client_(client), random_(seed) {}

  // False: there is no room for more.
  bool Step() {
    Several asked;
    const uint64_t way = Below(3);
    const size_t count = way == 0 ? 1 : 1 + Below(kMostAtOnce);
    size_t begun = 0;
    for (; begun < count; ++begun) {
      const bool like_first = way == 2 && begun > 0;
      if (like_first && !HasBatch(asked[0].record.type)) break;
      if (!Ask(&asked[begun], like_first ? &asked[0].record.type : nullptr)) return false;
    }
    if (way == 2 && HasBatch(asked[0].record.type)) {
      CallBatch(client_, &asked, begun);
    } else if (way == 1) {
      CallAsync(client_, &asked, begun);
    } else {
      Call(client_, &asked[0]);
    }
    const int64_t end_ns = HostNowNs();
    for (size_t i = 0; i < begun; ++i) Ended(asked[i], end_ns);
    return true;
  }

 private:
  uint64_t Below(uint64_t n) { return random_() % n; }
  void Set(const Asked& asked, const char* name, int64_t value) {
    if (farlook_options_set(asked.options.get(), name, value) != FARLOOK_OK) board_->Violate(farlook_error());
  }

  // Draws an operation, of the type `like` if that is not null, and records it. False: the log is full.
  bool Ask(Asked* asked, const Type* like) {
    history::Operation& record = asked->record;
    const bool counter = like != nullptr ? history::IsOfCounter(*like) : Below(2) == 1;
    const int key = static_cast<int>(Below(Board::kKeys / 2)) * 2 + static_cast<int>(counter);
    const auto place = static_cast<size_t>(key);
    record.type = like != nullptr ? *like : DrawType(counter, Below(100));
    record.began = ++places_;
    asked->key = absl::StrCat("key", key);
    Set(*asked, "timeout_ms", Below(20) == 0 ? 1 + static_cast<int64_t>(Below(5)) : 2'000);
    const bool puts = history::Writes(record.type) && !counter && record.type != Type::kDelete;
    const bool adds = record.type == Type::kFetchAdd || record.type == Type::kAddOrCreate;
    if (puts || (counter && history::Writes(record.type) && record.type != Type::kFetchAdd &&
                 record.type != Type::kDeleteCounter)) {
      const uint64_t write = board_->NewWrite(key);
      if (write == 0) return false;
      if (puts) {
        record.write = write;
        asked->value = history::MakeValue(write, static_cast<uint32_t>(8 + Below(Below(20) == 0 ? 9'000 : 300)));
      } else {
        (adds ? record.expected_counter : record.operand) = history::FirstNumberOf(write);
      }
    }
    if (record.type == Type::kInsert) Set(*asked, "if_absent", 1);
    if (record.type == Type::kReplace) Set(*asked, "if_present", 1);
    if (record.type == Type::kCompareAndSet) {
      record.expected = versions_[place] != 0 ? versions_[place] : 1;
      Set(*asked, "if_version", static_cast<int64_t>(record.expected));
    }
    if (record.type == Type::kCompareSwap) record.expected_counter = numbers_[place];
    if (record.type == Type::kAddOrCreate) {
      Set(*asked, "create", 1);
      Set(*asked, "initial", record.expected_counter);
    }
    if (adds) {
      record.operand = 1 + static_cast<int64_t>(Below(history::kMaxDelta));
      Set(*asked, "exactly_once", static_cast<int64_t>(Below(4) == 0));
    }
    asked->entry = board_->Begin(lane_, key, record);
    return asked->entry != nullptr;
  }

  void Ended(const Asked& asked, int64_t end_ns) {
    const int key = asked.entry->key;
    const auto place = static_cast<size_t>(key);
    history::Operation record = asked.entry->operation;
    record.end_ns = end_ns;
    record.ended = ++places_;
    const absl::Status status(static_cast<absl::StatusCode>(-asked.code), farlook_code_name(asked.code));
    const auto outcome = history::OutcomeOf(record.type, status, asked.version != 0);
    if (!outcome.has_value()) {
      board_->Violate(absl::StrCat(ToString(record), " ended with ", status.ToString(), ": ", farlook_error()));
    }
    record.outcome = outcome.value_or(Outcome::kNothing);
    const bool has_version = record.outcome != Outcome::kPending && record.outcome != Outcome::kWrongKind;
    if (has_version && !history::IsOfCounter(record.type)) record.version = asked.version;
    if (record.version != 0) versions_[place] = record.version;
    if (record.outcome == Outcome::kOk && record.type == Type::kGet) {
      record.found = history::WriteOfValue(asked.found);
      if (!Board::IsOf(record.found, key) || !history::IsWhole(asked.found, record.found)) {
        board_->Violate(absl::StrCat(ToString(record), ": that is no value of key ", key));
      }
    }
    if (HasCounterValue(record)) {
      record.counter = numbers_[place] = asked.number;
      if (record.type == Type::kCompareSwap && record.counter != record.expected_counter) {
        record.outcome = Outcome::kMismatch;
      }
      if (!Board::IsOf(history::WriteOfNumber(record.counter), key)) {
        board_->Violate(absl::StrCat(ToString(record), ": that is no number of key ", key));
      }
    }
    Board::End(asked.entry, record);
  }

  Board* const board_;
  const int lane_;
  farlook_client* const client_;
  std::mt19937_64 random_;
  std::array<uint64_t, Board::kKeys> versions_{};
  std::array<int64_t, Board::kKeys> numbers_{};
  uint64_t places_ = 0;  // in the order of its operations
};

}  // namespace

int RunCUser(Board* board, int lane, const std::string& address, uint32_t seed) {
  const Handle<farlook_options> options(farlook_options_new());
  farlook_options_set(options.get(), "timeout_ms", 60'000);
  farlook_options_set(options.get(), "wait_for_server", 1);
  farlook_client* connected = nullptr;
  if (farlook_connect(address.c_str(), options.get(), &connected) != FARLOOK_OK) {
    std::fprintf(stderr, "%s\n", farlook_error());
    return 1;
  }
  const Handle<farlook_client> client(connected);
  CUser user(board, lane, client.get(), seed);
  std::minstd_rand random(seed);
  while (!board->stopped() && user.Step()) usleep(static_cast<useconds_t>(random() % 4'000));
  return 0;
}

}  // namespace farlook
