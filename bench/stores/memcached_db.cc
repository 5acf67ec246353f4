// `-db memcached`: a memcached through libmemcached.
//
// Reads and batches are one multi-get with the versions ("gets"); an insert is a set, an update of all fields a
// replace. An update of some fields reads, patches and compares-and-sets, from the read again when another writer was
// faster.
//
// libmemcached has no asynchronous calls: what is in flight goes through memcached_pipeline.h, over a connection of its
// own.
//
// Properties (defaults):
//     memcached.address         unix:///path or tcp://host:port (tcp://127.0.0.1:11211)
//     memcached.timeout_ms      of each operation (10000)
#include <libmemcached/memcached.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/memcached_pipeline.h"
#include "bench/stores/record.h"
#include "bench/stores/store_address.h"

namespace farlook::bench {
namespace {

struct FreeMemcached {
  void operator()(memcached_st* connection) const { memcached_free(connection); }
};
using Connection = std::unique_ptr<memcached_st, FreeMemcached>;

// In our memory: libmemcached frees a result that it allocated itself once there is nothing more to fetch into it.
class Result {
 public:
  explicit Result(memcached_st* connection) { memcached_result_create(connection, &result_); }
  ~Result() { memcached_result_free(&result_); }
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;

  memcached_result_st* get() { return &result_; }

 private:
  memcached_result_st result_;
};

absl::StatusOr<Connection> ConnectTo(const StoreServer& server) {
  Connection connection(memcached_create(nullptr));
  if (connection == nullptr) return absl::ResourceExhaustedError("no memory for a connection to memcached");
  const uint64_t timeout_ms = static_cast<uint64_t>(server.timeout_ms);
  for (const auto& [behavior, value] :
       {std::pair(MEMCACHED_BEHAVIOR_SUPPORT_CAS, uint64_t{1}), std::pair(MEMCACHED_BEHAVIOR_TCP_NODELAY, uint64_t{1}),
        std::pair(MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, timeout_ms),
        std::pair(MEMCACHED_BEHAVIOR_POLL_TIMEOUT, timeout_ms)}) {
    memcached_behavior_set(connection.get(), behavior, value);
  }
  const StoreAddress& address = server.address;
  memcached_return_t code =
      address.path.empty()
          ? memcached_server_add(connection.get(), address.host.c_str(), static_cast<in_port_t>(address.port))
          : memcached_server_add_unix_socket(connection.get(), address.path.c_str());
  if (memcached_success(code)) code = memcached_version(connection.get());  // connects
  if (memcached_success(code)) return connection;
  return absl::UnavailableError(absl::StrCat("cannot connect to memcached at ", server.address_text, ": ",
                                             memcached_strerror(connection.get(), code), "; start one with memcached"));
}

absl::string_view ValueOf(memcached_result_st* result) {
  return {memcached_result_value(result), memcached_result_length(result)};
}

class MemcachedDb : public Db {
 public:
  // `pipeline` is null unless operations are to be in flight.
  MemcachedDb(Connection connection, std::unique_ptr<MemcachedPipeline> pipeline, size_t batch)
      : connection_(std::move(connection)), pipeline_(std::move(pipeline)) {
    MakeResults(batch);
  }

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    ReadBatch(absl::MakeConstSpan(&key, 1), absl::MakeSpan(result, 1));
    return result->status;
  }

  // Values arrive in the order of their keys, without the missing ones.
  void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) override {
    MakeResults(keys.size());
    names_.clear();
    lengths_.clear();
    for (absl::string_view key : keys) {
      names_.push_back(key.data());
      lengths_.push_back(key.size());
    }
    memcached_return_t code = memcached_mget(connection_.get(), names_.data(), lengths_.data(), keys.size());
    size_t i = 0;
    for (size_t used = 0; memcached_success(code) && used < results_.size(); ++used) {
      memcached_result_st* value = memcached_fetch_result(connection_.get(), results_[used]->get(), &code);
      if (value == nullptr) break;
      const absl::string_view name(memcached_result_key_value(value), memcached_result_key_length(value));
      for (; i < keys.size() && keys[i] != name; ++i) results[i].status = Missing(keys[i]);
      if (i == keys.size()) break;  // a value that was not requested
      results[i].record = ValueOf(value);
      results[i].version = memcached_result_cas(value);
      results[i++].status = DbStatus::kOk;
    }
    const bool whole = memcached_success(code) || code == MEMCACHED_NOTFOUND || code == MEMCACHED_END;
    for (; i < keys.size(); ++i) results[i].status = whole ? Missing(keys[i]) : Note(code);
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override {
    return Note(memcached_set(connection_.get(), key.data(), key.size(), record.data(), record.size(), 0, 0));
  }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    return Note(memcached_replace(connection_.get(), key.data(), key.size(), record.data(), record.size(), 0, 0));
  }

  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult* basis) override {
    absl::string_view record;
    uint64_t version = 0;
    for (int64_t attempt = 0; attempt < kPatchAttempts; ++attempt) {
      if (attempt == 0 && basis != nullptr) {
        record = basis->record;
        version = basis->version;
      } else {
        if (const DbStatus read = Read(key, &read_); read != DbStatus::kOk) return read;
        record = read_.record;
        version = read_.version;
      }
      if (!PatchRecord(record, writes, &patched_)) {
        error_ = absl::StrCat("the record of ", key, " has no such field");
        return DbStatus::kUnexpectedState;
      }
      const memcached_return_t code =
          memcached_cas(connection_.get(), key.data(), key.size(), patched_.data(), patched_.size(), 0, 0, version);
      if (code != MEMCACHED_DATA_EXISTS) return Note(code);
    }
    return Note(MEMCACHED_DATA_EXISTS);
  }

  void Submit(DbRequest* request) override { pipeline_ ? pipeline_->Submit(request) : Db::Submit(request); }

  size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns) override {
    if (!pipeline_) return Db::Poll(done, wait_ns);
    const size_t count = pipeline_->Poll(done, wait_ns);
    if (!pipeline_->last_error().empty()) error_ = pipeline_->last_error();
    return count;
  }

  std::string last_error() const override { return error_; }

 private:
  // One for each key, and one for the end, which leaves its result empty.
  void MakeResults(size_t keys) {
    while (results_.size() < keys + 1) results_.push_back(std::make_unique<Result>(connection_.get()));
  }

  DbStatus Missing(absl::string_view key) {
    error_ = absl::StrCat("no record ", key);
    return DbStatus::kNotFound;
  }

  DbStatus Note(memcached_return_t code) {
    if (code == MEMCACHED_SUCCESS) return DbStatus::kOk;
    error_ = memcached_last_error_message(connection_.get()) == nullptr
                 ? memcached_strerror(connection_.get(), code)
                 : memcached_last_error_message(connection_.get());
    switch (code) {
      case MEMCACHED_NOTFOUND:
      case MEMCACHED_NOTSTORED:
        return DbStatus::kNotFound;
      case MEMCACHED_DATA_EXISTS:
        return DbStatus::kConflict;
      case MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE:
        return DbStatus::kNoSpace;
      case MEMCACHED_E2BIG:
      case MEMCACHED_BAD_KEY_PROVIDED:
        return DbStatus::kBadRequest;
      case MEMCACHED_TIMEOUT:
        return DbStatus::kTimeout;
      case MEMCACHED_CONNECTION_FAILURE:
      case MEMCACHED_ERRNO:
      case MEMCACHED_SERVER_TEMPORARILY_DISABLED:
      case MEMCACHED_SERVER_MARKED_DEAD:
        return DbStatus::kServiceUnavailable;
      default:
        return DbStatus::kError;
    }
  }

  const Connection connection_;
  const std::unique_ptr<MemcachedPipeline> pipeline_;
  std::vector<std::unique_ptr<Result>> results_;  // viewed by the last batch; freed before the connection
  std::vector<const char*> names_;
  std::vector<size_t> lengths_;
  ReadResult read_;  // for Patch
  std::string patched_;
  std::string error_;
};

class MemcachedBackend : public ServerBackend {
 public:
  MemcachedBackend(const StoreServer& server, pid_t server_pid)
      : ServerBackend(server.address, server_pid), server_(server) {}

  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions& connect) override {
    absl::StatusOr<Connection> connection = ConnectTo(server_);
    if (!connection.ok()) return connection.status();
    std::unique_ptr<MemcachedPipeline> pipeline;
    if (connect.inflight > 1) {
      absl::StatusOr<std::unique_ptr<MemcachedPipeline>> made = MemcachedPipeline::Connect(server_.address);
      if (!made.ok()) return made.status();
      pipeline = *std::move(made);
    }
    return std::make_unique<MemcachedDb>(*std::move(connection), std::move(pipeline), connect.batch);
  }

 private:
  const StoreServer server_;
};

absl::StatusOr<std::unique_ptr<DbBackend>> Open(PropertyReader* reader) {
  const absl::StatusOr<StoreServer> server = ReadStoreServer("memcached", "tcp://127.0.0.1:11211", reader);
  if (!server.ok()) return server.status();
  const absl::StatusOr<Connection> connection = ConnectTo(*server);
  if (!connection.ok()) return connection.status();
  memcached_return_t code;
  memcached_stat_st* stat = memcached_stat(connection->get(), nullptr, &code);
  const pid_t pid = stat == nullptr ? 0 : static_cast<pid_t>(stat->pid);
  memcached_stat_free(connection->get(), stat);
  return std::make_unique<MemcachedBackend>(*server, pid);
}

}  // namespace

void RegisterMemcachedDb(DbRegistry* registry) {
  registry->Add("memcached", DbEntry{.help = "a memcached at -p memcached.address=unix:///path or tcp://host:port\n"
                                             "                                   (tcp://127.0.0.1:11211); also "
                                             "memcached.timeout_ms (10000)",
                                     .open = Open});
}

}  // namespace farlook::bench
