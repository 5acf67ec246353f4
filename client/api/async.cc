// The public operations fill the engines' record that each of them contains.
#include "farlook/async.h"

#include <new>
#include <utility>

#include "client/api/misuse.h"
#include "client/op/operation.h"
#include "client/op/view.h"

namespace farlook {

using client::Kind;
using client::View;

AsyncOperation::AsyncOperation() {
  static_assert(sizeof(client::Operation) <= kRecordBytes && alignof(client::Operation) <= 8,
                "the record has its place in every operation");
  new (record_) client::Operation;
  record().owner = this;
}

AsyncOperation::~AsyncOperation() { record().~Operation(); }

void AsyncOperation::CheckAtRest() const {
  if (client::LiveClient::Lives(client_)) {
    client::EndForMisuse("an operation was changed or destroyed while it was in flight (see farlook/async.h)");
  }
}

void AsyncOperation::set_key(std::string_view key) {
  client::Operation& changed = record();
  key_ = key;
  changed.key = key_;
}

const absl::Status& AsyncOperation::status() const { return record().status; }
uint64_t AsyncOperation::version() const { return record().version; }

GetOperation::GetOperation(std::string_view key, const GetOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kGet;
  record().to.string = &value_;
}

void GetOperation::set_options(const GetOptions& options) { record().timeout_ms = options.timeout_ms; }
void GetOperation::Into(std::string* string) { record().to = {string, {}}; }
void GetOperation::Into(std::span<char> buffer) { record().to = {nullptr, {buffer.data(), buffer.size()}}; }
size_t GetOperation::value_bytes() const { return record().value_bytes; }

ExistsOperation::ExistsOperation(std::string_view key, const GetOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kExists;
}

void ExistsOperation::set_options(const GetOptions& options) { record().timeout_ms = options.timeout_ms; }

PutOperation::PutOperation(std::string_view key, const PutOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kPut;
}

PutOperation::PutOperation(std::string_view key, std::string value, const PutOptions& options)
    : PutOperation(key, options) {
  set_value(std::move(value));
}

PutOperation::PutOperation(std::string_view key, Borrowed value, const PutOptions& options)
    : PutOperation(key, options) {
  set_value(value);
}

void PutOperation::set_value(std::string value) {
  client::Operation& changed = record();
  value_ = std::move(value);
  changed.value = value_;
}

void PutOperation::set_value(Borrowed value) { record().value = View(value.bytes); }

void PutOperation::set_options(const PutOptions& options) {
  record().condition = options.condition;
  record().timeout_ms = options.timeout_ms;
  record().ttl_ms = options.ttl_ms;
  record().keep_ttl = options.keep_ttl;
  record().keep = options.keep;
  record().refill = options.refill;
}

TouchOperation::TouchOperation(std::string_view key, int64_t ttl_ms, const TouchOptions& options) {
  set_key(key);
  set_options(options);
  set_ttl_ms(ttl_ms);
  record().kind = Kind::kTouch;
}

void TouchOperation::set_ttl_ms(int64_t ttl_ms) { record().ttl_ms = ttl_ms; }
void TouchOperation::set_options(const TouchOptions& options) { record().timeout_ms = options.timeout_ms; }

PersistOperation::PersistOperation(std::string_view key, const TouchOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kPersist;
}

void PersistOperation::set_options(const TouchOptions& options) { record().timeout_ms = options.timeout_ms; }

TtlOperation::TtlOperation(std::string_view key, const GetOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kTtl;
}

void TtlOperation::set_options(const GetOptions& options) { record().timeout_ms = options.timeout_ms; }
int64_t TtlOperation::left_ms() const { return record().left_ms; }
bool TtlOperation::keep() const { return record().kept; }

GetAndTouchOperation::GetAndTouchOperation(std::string_view key, int64_t ttl_ms, const TouchOptions& options) {
  set_key(key);
  set_options(options);
  set_ttl_ms(ttl_ms);
  record().kind = Kind::kGetAndTouch;
  record().to.string = &value_;
}

void GetAndTouchOperation::set_ttl_ms(int64_t ttl_ms) { record().ttl_ms = ttl_ms; }
void GetAndTouchOperation::set_options(const TouchOptions& options) { record().timeout_ms = options.timeout_ms; }

DeleteOperation::DeleteOperation(std::string_view key, const DeleteOptions& options) {
  set_key(key);
  set_options(options);
  record().kind = Kind::kDelete;
}

void DeleteOperation::set_options(const DeleteOptions& options) {
  record().condition = options.condition;
  record().timeout_ms = options.timeout_ms;
}

PingOperation::PingOperation(const ServerOptions& options) {
  record().kind = Kind::kPing;
  record().timeout_ms = options.timeout_ms;
}

CounterOperation::CounterOperation(std::string_view key, const CounterOptions& options) {
  set_key(key);
  set_options(options);
}

int64_t CounterOperation::value() const { return record().counter; }

void CounterOperation::set_options(const CounterOptions& options) {
  client::TakeOptions(options, record().kind, &record());
  record().timeout_ms = options.timeout_ms;
}

void CounterOperation::set_operands(int64_t operand, int64_t expected) {
  record().operand = operand;
  record().expected = expected;
}

CreateCounterOperation::CreateCounterOperation(std::string_view key, int64_t initial, const CounterOptions& options)
    : CounterOperation(key, options) {
  record().kind = Kind::kCreateCounter;
  set_operands(initial, 0);
  set_options(options);
}

FetchAddOperation::FetchAddOperation(std::string_view key, int64_t delta, const CounterOptions& options)
    : CounterOperation(key, options) {
  record().kind = Kind::kFetchAdd;
  set_delta(delta);
  set_options(options);
}

void FetchAddOperation::set_delta(int64_t delta) { record().operand = delta; }

CompareSwapOperation::CompareSwapOperation(std::string_view key, int64_t expected, int64_t desired,
                                           const CounterOptions& options)
    : CounterOperation(key, options) {
  record().kind = Kind::kCompareSwap;
  set_operands(desired, expected);
}

ReadCounterOperation::ReadCounterOperation(std::string_view key, const CounterOptions& options)
    : CounterOperation(key, options) {
  record().kind = Kind::kReadCounter;
}

DeleteCounterOperation::DeleteCounterOperation(std::string_view key, const CounterOptions& options)
    : CounterOperation(key, options) {
  record().kind = Kind::kDeleteCounter;
}

}  // namespace farlook
