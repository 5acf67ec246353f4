// A walk through all keys of a server, a group or a cluster. The client READs directory, segments and items itself;
// over shared memory and RDMA the server's processor takes no part.
//
//     farlook::Scanner scanner(client.get(), {.prefix = "user:", .values = true});
//     farlook::ScannedItem item;
//     absl::StatusOr<bool> found;
//     while ((found = scanner.Next(&item)).ok() && *found) Use(item.key, item.value);
//     if (!found.ok()) return found.status();
//
// Promise:
// * A key that exists from the scan's beginning to its end is returned at least once. This holds while the table grows
//   and shrinks, while items are moved, evicted and expire, while a group changes its primary, and while slots move
//   between groups.
// * A key may be returned twice if the table grows or shrinks during the scan, or if the key's slot moves. A scan that
//   continues from a cursor counts as one with the scan before.
// * Each value was the key's value at some moment of the scan, verified like the result of a Get.
// * A key that was deleted before the scan, and not stored again, is not returned. Nor is one that certainly expired.
// * If a server without a group is restarted, its keys are gone. The scan begins again, with the keys that are stored
//   now; if the server hashes keys as before, it continues instead.
// The order is that of the keys' hashes, so it has no meaning. There is no order of time: the scan is no snapshot.
//
// Memory: about ScanOptions::batch_bytes for each group, or as much as the items of one bucket (at most 30) have. The
// size of the table does not matter.
#ifndef FARLOOK_SCAN_H_
#define FARLOOK_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/client.h"
#include "farlook/options.h"

namespace farlook {

inline constexpr size_t kMinScanBatchBytes = size_t{4} << 10, kMaxScanBatchBytes = size_t{64} << 20;

struct ScanOptions {
  std::string prefix = {};  // of the keys; all keys are READ whatever it is
  bool values = false;      // also returns values; else only keys and properties
  std::string cursor = {};  // Scanner::cursor() of an earlier scan, also of another client; empty: from the beginning
  uint64_t limit = 0;       // most items to return; 0: all
  uint64_t min_value_bytes = 0;
  uint64_t max_value_bytes = UINT64_MAX;
  bool only_expiring = false;            // only keys that expire
  size_t batch_bytes = size_t{1} << 20;  // most bytes of items to READ at once
  uint64_t bytes_per_s = 0;              // most bytes to READ in a second, on average; 0: no limit
  // For each call that READs a batch; 0: the client's timeout. Pauses for `bytes_per_s` are not counted.
  int64_t timeout_ms = 0;
};

// An item, valid until the next call of Next().
struct ScannedItem {
  std::string_view key;
  std::string_view value;  // empty unless ScanOptions::values, and for counters
  uint64_t value_bytes = 0;
  uint64_t version = 0;
  int64_t left_ms = kForever;  // until it expires, at least 1
  bool keep = false;           // see PutOptions::keep
  bool counter = false;        // the number is returned by Client::ReadCounter()
};

// Thread safety: the client's thread. The client outlives it. Several scanners of one client may take turns, and other
// calls may come between; scans of several clients run in parallel.
class Scanner {
 public:
  explicit Scanner(Client* client, const ScanOptions& options = {});
  ~Scanner();
  Scanner(Scanner&&) noexcept;
  Scanner& operator=(Scanner&&) noexcept;

  // Sets `*item` to the next item and returns true; returns false at the end, or after `limit` items. After an error
  // the call may be repeated: it continues from where it was.
  //   INVALID_ARGUMENT     the cursor is none, or an option is out of range
  //   ABORTED              writers were too fast until the timeout, or a server has stopped in the midst of a write
  //   UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED  as for Client::Get
  absl::StatusOr<bool> Next(ScannedItem* item);

  // Returns a short printable text from which another scan, also of another client, continues after the last item that
  // Next() returned. "end" after the end. It stays valid as long as the table: at the next primary of a group too.
  // In a table that was lost since, it begins from the start.
  std::string cursor() const;

  // Part of the scan that is done: [0, 1].
  double progress() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace farlook

#endif  // FARLOOK_SCAN_H_
