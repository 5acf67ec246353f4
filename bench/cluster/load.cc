#include "bench/cluster/load.h"

#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

namespace farlook::bench {

std::string LoadedKey(int64_t record) { return absl::StrCat("user", record); }

absl::Status Load(Client* client, int64_t records, int64_t value_bytes) {
  const std::string value(static_cast<size_t>(value_bytes), 'v');
  const std::vector<std::string_view> values(kLoadBatch, value);
  std::vector<Result<uint64_t>> results;
  for (int64_t next = 0; next < records;) {
    std::vector<std::string> names;
    while (names.size() < kLoadBatch) names.push_back(LoadedKey(next++));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    if (absl::Status status = client->MultiPut(keys, values, &results); !status.ok()) return status;
    for (const Result<uint64_t>& result : results) {
      if (!result.status.ok()) return result.status;
    }
  }
  return absl::OkStatus();
}

}  // namespace farlook::bench
