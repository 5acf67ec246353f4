#include "bench/stores/db_registry.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace farlook::bench {

absl::StatusOr<const DbEntry*> DbRegistry::Find(const std::string& name) const {
  const auto found = entries_.find(name);
  if (found != entries_.end()) return &found->second;
  std::string names;
  for (const auto& [known, entry] : entries_) absl::StrAppend(&names, names.empty() ? "" : ", ", known);
  return absl::NotFoundError(absl::StrCat("unknown -db ", name, "; there are: ", names));
}

}  // namespace farlook::bench
