// `-db map`: a hash map behind one lock, in the driver's own process.
//
// A simple program would do this without any transport. It is the bound that a figure of Farlook is held against, and
// the store that the driver's own tests run on.
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "bench/stores/db_registry.h"

namespace farlook::bench {
namespace {

struct MapTable {
  absl::Mutex mutex;
  absl::flat_hash_map<std::string, std::string> records ABSL_GUARDED_BY(mutex);
};

class MapDb : public Db {
 public:
  explicit MapDb(MapTable* table) : table_(table) {}

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    absl::MutexLock lock(&table_->mutex);
    const auto found = table_->records.find(key);
    if (found == table_->records.end()) {
      result->status = Missing(key);
    } else {
      result->buffer = found->second;
      result->record = result->buffer;
      result->status = DbStatus::kOk;
    }
    return result->status;
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override {
    absl::MutexLock lock(&table_->mutex);
    table_->records[key].assign(record.data(), record.size());
    return DbStatus::kOk;
  }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    absl::MutexLock lock(&table_->mutex);
    const auto found = table_->records.find(key);
    if (found == table_->records.end()) return Missing(key);
    found->second.assign(record.data(), record.size());
    return DbStatus::kOk;
  }

  // Under the lock, so the basis is not needed.
  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult*) override {
    absl::MutexLock lock(&table_->mutex);
    const auto found = table_->records.find(key);
    if (found == table_->records.end()) return Missing(key);
    if (!PatchRecord(found->second, writes, &patched_)) {
      error_ = absl::StrCat("the record of ", key, " has no such field");
      return DbStatus::kUnexpectedState;
    }
    found->second.swap(patched_);
    return DbStatus::kOk;
  }

  std::string last_error() const override { return error_; }

 private:
  DbStatus Missing(absl::string_view key) {
    error_ = absl::StrCat("no record ", key);
    return DbStatus::kNotFound;
  }

  MapTable* table_;
  std::string patched_;
  std::string error_;
};

class MapBackend : public DbBackend {
 public:
  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions&) override {
    return std::make_unique<MapDb>(&table_);
  }

 private:
  MapTable table_;
};

}  // namespace

void RegisterMapDb(DbRegistry* registry) {
  registry->Add("map", DbEntry{.help = "a hash map behind a lock in this process (give -load and -t together)",
                               .in_process = true,
                               .open = [](PropertyReader*) -> absl::StatusOr<std::unique_ptr<DbBackend>> {
                                 return std::make_unique<MapBackend>();
                               }});
}

}  // namespace farlook::bench
