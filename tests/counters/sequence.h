// An example: numbers that are never given out twice, for any number of processes, also if they die.
//
//     farlook::Sequence orders(client.get(), "orders");
//     absl::StatusOr<int64_t> number = orders.Next();
//
// A counter holds the first number that is not taken. A process takes a block of numbers with one FetchAdd and gives
// them out locally, so that most numbers cost nothing. A process that dies loses the rest of its block: numbers grow
// and may skip, but no two processes ever have the same.
//
// An unknown outcome (the connection broke during the atomic) is harmless here. The block may have been taken, so no
// other process will get it; this process takes the next one. Therefore FetchAdd is the right tool for it, and
// exactly_once is not needed.
#ifndef FARLOOK_TESTS_COUNTERS_SEQUENCE_H_
#define FARLOOK_TESTS_COUNTERS_SEQUENCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "farlook/client.h"

namespace farlook {

// Thread safety: one thread, the client's. The client outlives it.
class Sequence {
 public:
  Sequence(Client* client, absl::string_view key, int64_t block = 100) : client_(client), key_(key), block_(block) {}

  // The next number, from 0 on. Errors: those of FetchAdd, but UNKNOWN; no number was given out then.
  absl::StatusOr<int64_t> Next();

 private:
  absl::StatusOr<int64_t> TakeBlock();

  Client* const client_;
  const std::string key_;
  const int64_t block_;
  int64_t next_ = 0;
  int64_t end_ = 0;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_COUNTERS_SEQUENCE_H_
