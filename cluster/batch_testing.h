// Batches as bytes, for tests.
#ifndef FARLOOK_CLUSTER_BATCH_TESTING_H_
#define FARLOOK_CLUSTER_BATCH_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "cluster/record.h"
#include "cluster/stream.h"

namespace farlook::cluster {

// Sets the number of records, whatever `head` contains.
inline std::string EncodeBatch(BatchHead head, const std::vector<Record>& records) {
  std::string bytes;
  for (const Record& record : records) {
    const size_t before = bytes.size();
    bytes.resize(before + record.bytes());
    EncodeRecord(record, bytes.data() + before);
  }
  head.records = static_cast<uint32_t>(records.size());
  const auto encoded = EncodeBatchHead(head, bytes);
  bytes.insert(bytes.begin(), encoded.begin(), encoded.end());
  return bytes;
}

// "": there is nothing to send.
inline std::string BytesOf(const std::optional<OutgoingBatch>& batch) {
  if (!batch.has_value()) return "";
  const auto head = EncodeBatchHead(batch->head, batch->records);
  return std::string(head.begin(), head.end()).append(batch->records.data(), batch->records.size());
}

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_BATCH_TESTING_H_
