// Many concurrent YCSB operations over one Farlook client.
#ifndef FARLOOK_BENCH_STORES_FARLOOK_PIPELINE_H_
#define FARLOOK_BENCH_STORES_FARLOOK_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/stores/db.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook::bench {

// The client's interface uses only the standard's views.
inline std::string_view Std(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

// Converts a status of the client to one of the driver's. See the list of errors in farlook/client.h.
DbStatus ToDbStatus(const absl::Status& status);

// The asynchronous half of `-db farlook`: see Db::Submit and Db::Poll. A patch is a get and a compare-and-set, again
// from the get if another writer was faster, at most kPatchAttempts times.
//
// The next Poll() passes all submitted operations to the client together, so that the first READs of many operations
// are posted as one.
//
// Thread safety: belongs to one thread. Invariants: a Flight is in exactly one of free_, to_start_, or with the client.
class FarlookPipeline {
 public:
  // `client` outlives this, and is destroyed before any submitted request is.
  FarlookPipeline(Client* client, size_t inflight, int64_t spin_ns);

  void Submit(DbRequest* request);
  size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns);

  // The error of the last request that was not kOk.
  const absl::Status& last_error() const { return last_error_; }

 private:
  // A request, and the memory that the client writes to and reads from for it.
  struct Flight {
    GetOperation get;
    PutOperation put;
    DbRequest* request = nullptr;
    std::string patched;  // kPatch: the resulting record
    int64_t attempts = 0;
  };

  void Begin(Flight* flight, AsyncOperation* operation);
  void BeginGet(Flight* flight, std::string* value);
  // `value` must live until the put has ended.
  void BeginPut(Flight* flight, absl::string_view value, Condition condition);
  // Prepares the compare-and-set of `record`, patched. Returns false if it is not a record of that form.
  bool BeginSet(Flight* flight, absl::string_view record, uint64_t version);
  // Continues after an ended client operation. Returns true if the request has ended.
  bool Advance(Flight* flight, const AsyncOperation* ended);
  void End(Flight* flight, DbStatus status);
  size_t PollClient(absl::Span<DbRequest*> done);
  void Sleep(int64_t wait_ns);

  Client* const client_;
  const int64_t spin_ns_;
  const std::unique_ptr<Flight[]> flights_;
  std::vector<Flight*> free_;
  std::vector<AsyncOperation*> to_start_;
  std::vector<AsyncOperation*> ended_;  // scratch
  std::vector<DbRequest*> failed_;      // ended without the client
  absl::Status last_error_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_FARLOOK_PIPELINE_H_
