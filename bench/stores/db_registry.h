// The stores that the driver was built with, by the name that -db takes.
#ifndef FARLOOK_BENCH_STORES_DB_REGISTRY_H_
#define FARLOOK_BENCH_STORES_DB_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "bench/common/properties.h"
#include "bench/stores/db.h"

namespace farlook::bench {

struct DbEntry {
  std::string help;         // for --help, one line or more, including its properties
  bool in_process = false;  // true if the store ends with the process: a run needs its load in the same command
  // Takes its own properties ("NAME.*") from the reader; the caller reports an error of the reader's.
  std::function<absl::StatusOr<std::unique_ptr<DbBackend>>(PropertyReader*)> open;
};

class DbRegistry {
 public:
  // REQUIRES: no entry of that name yet.
  void Add(const std::string& name, DbEntry entry) { entries_.emplace(name, std::move(entry)); }

  // NOT_FOUND lists the known names.
  absl::StatusOr<const DbEntry*> Find(const std::string& name) const;

  const std::map<std::string, DbEntry>& entries() const { return entries_; }

 private:
  std::map<std::string, DbEntry> entries_;
};

// Each adds the store of its name; NAME_db.cc says what the store is and which properties it has. Defined by the
// library NAME_db. RegisterFarlookDb() is in farlook_db.h.
void RegisterDriverDb(DbRegistry* registry);
void RegisterFloorDb(DbRegistry* registry);
void RegisterLmdbDb(DbRegistry* registry);
void RegisterMapDb(DbRegistry* registry);
void RegisterMemcachedDb(DbRegistry* registry);
void RegisterRedisDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_DB_REGISTRY_H_
