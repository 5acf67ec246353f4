// The interface between the YCSB driver and a store.
//
// The driver uses records, each encoded into one value (bench/stores/record.h), and new contents for some of a record's
// fields. A store of whole values applies the latter by reading, patching and comparing-and-setting the version, again
// after a lost race. The backend does that, so that one with a better way may use it.
//
//     DbBackend    one for the process and phase: the state that threads share (an address, a map)
//     Db           one for each thread, made in that thread: its connection
//
// A new backend implements both and is added to the registry by the main program.
#ifndef FARLOOK_BENCH_STORES_DB_H_
#define FARLOOK_BENCH_STORES_DB_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/stores/record.h"

namespace farlook::bench {

// The result of an operation, under YCSB's names where it has one. Counted as "Return=" lines.
enum class DbStatus : uint8_t {
  kOk,
  kNotFound,
  kError,               // any other failure
  kUnexpectedState,     // it succeeded, but the result is wrong
  kBadRequest,          // the store refused the request
  kServiceUnavailable,  // the store is not there
  kTimeout,             // no answer in time
  kConflict,            // lost the race for a record too often
  kNoSpace,             // the store is full
};
inline constexpr size_t kDbStatuses = 9;

// Maximum number of compare-and-sets of a Patch that lose the race to another writer, before it is a kConflict.
inline constexpr int64_t kPatchAttempts = 1000;

// "OK", "NOT_FOUND", ...
absl::string_view DbStatusName(DbStatus status);

// The destination of a read. Reused, so that reading allocates nothing after a while.
struct ReadResult {
  DbStatus status = DbStatus::kError;
  // Set when status is kOK. Views `buffer`, or memory of the backend; valid until this result or its Db is used again.
  absl::string_view record;
  uint64_t version = 0;  // the backend's own
  std::string buffer;    // for use by the backend
};

// One operation, for the asynchronous calls.
struct DbRequest {
  enum class Kind : uint8_t { kRead, kInsert, kReplace, kPatch };

  // In: see the parameters of the method of that name.
  Kind kind = Kind::kRead;
  std::string key;
  std::string record;
  std::vector<FieldWrite> writes;
  const ReadResult* basis = nullptr;

  // Out.
  DbStatus status = DbStatus::kError;
  ReadResult result;  // of kRead

  void* owner = nullptr;       // the caller's; not used by the Db
  uint64_t backend_state = 0;  // the backend's, while it has the request
};

// Thread safety: belongs to the thread that made it. Errors: every method ends within the backend's deadline, with a
// status; last_error() then gives details.
class Db {
 public:
  virtual ~Db() = default;

  // Reads the whole record. Returns and sets result->status.
  virtual DbStatus Read(absl::string_view key, ReadResult* result) = 0;

  // Reads many at once; each result has its status. REQUIRES: as many results as keys.
  virtual void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results);

  // Stores a record, replacing one of that key if there is one (so a load can be repeated).
  virtual DbStatus Insert(absl::string_view key, absl::string_view record) = 0;

  // Replaces an existing record, or returns kNotFound.
  virtual DbStatus Replace(absl::string_view key, absl::string_view record) = 0;

  // Gives some fields new contents and leaves the others, as one atomic change of the record. `basis`, or null, is what
  // this Db has just read of the key: a backend may begin with it instead of reading again (read-modify-write).
  virtual DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult* basis) = 0;

  // Asynchronous calls. A request, and its basis, belong to the Db from Submit() until Poll() returned it. At most
  // ConnectOptions::inflight are in progress. The default executes at once, for stores without a wait.
  virtual void Submit(DbRequest* request);

  // Moves at most done.size() ended requests to `done` and returns their number. If none has ended, waits up to
  // `wait_ns` for one; 0 does not wait.
  virtual size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns);

  // The reason why the last operation that was not kOk failed; may be empty.
  virtual std::string last_error() const { return ""; }

 private:
  std::vector<DbRequest*> ended_;  // of the default Submit()
};

struct ConnectOptions {
  int thread = 0;       // number of the thread, from 0
  size_t inflight = 1;  // maximum number of requests submitted and not polled
  size_t batch = 1;     // maximum number of keys of a ReadBatch
};

class DbBackend {
 public:
  virtual ~DbBackend() = default;

  // Thread safety: any thread; the Db belongs to it. The backend outlives all its Dbs.
  virtual absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions& options) = 0;

  // The process whose CPU time is the server's, by its number on its host, or 0 if unknown.
  virtual pid_t server_pid() const { return 0; }

  // Returns whether that process is on this host.
  virtual bool server_is_here() const { return true; }
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_DB_H_
