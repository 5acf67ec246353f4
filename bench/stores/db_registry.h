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
  std::string help;         // one line or more for --help, its properties included
  bool in_process = false;  // true when the store ends with the process: a run needs its load in the same command
  // Takes its own properties ("NAME.*") from the reader; an error of the reader's is reported by the caller.
  std::function<absl::StatusOr<std::unique_ptr<DbBackend>>(PropertyReader*)> open;
};

class DbRegistry {
 public:
  // REQUIRES: no entry of that name yet.
  void Add(const std::string& name, DbEntry entry) { entries_.emplace(name, std::move(entry)); }

  // NOT_FOUND, with the names that there are.
  absl::StatusOr<const DbEntry*> Find(const std::string& name) const;

  const std::map<std::string, DbEntry>& entries() const { return entries_; }

 private:
  std::map<std::string, DbEntry> entries_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_DB_REGISTRY_H_
