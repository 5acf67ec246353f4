// Many concurrent YCSB operations over one connection to memcached, in its text protocol.
//
// libmemcached sends a write only after the reply to the previous one. The protocol has no such limit: requests are
// answered in their order, so they are written one after the other and the replies are matched by order.
#ifndef FARLOOK_BENCH_STORES_MEMCACHED_PIPELINE_H_
#define FARLOOK_BENCH_STORES_MEMCACHED_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "bench/stores/db.h"
#include "bench/stores/store_address.h"

namespace farlook::bench {

// The asynchronous half of `-db memcached`: see Db::Submit and Db::Poll. A patch is a gets and a cas, again from the
// gets if another writer was faster, at most kPatchAttempts times. If the connection fails, all requests fail.
//
// Thread safety: belongs to one thread. Invariants: requests in sent_ are in the order of their answers; input_ from
// taken_ on is input that was not parsed yet.
class MemcachedPipeline {
 public:
  static absl::StatusOr<std::unique_ptr<MemcachedPipeline>> Connect(const StoreAddress& address);
  ~MemcachedPipeline();
  MemcachedPipeline(const MemcachedPipeline&) = delete;
  MemcachedPipeline& operator=(const MemcachedPipeline&) = delete;

  void Submit(DbRequest* request);
  size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns);

  // The error of the last request that was not kOk.
  const std::string& last_error() const { return last_error_; }

 private:
  struct Sent {
    DbRequest* request;
    bool gets;         // the reply is a value, not a word
    int64_t attempts;  // compare-and-sets of a patch
  };

  explicit MemcachedPipeline(int fd) : fd_(fd) {}

  void SendGets(DbRequest* request, int64_t attempts);
  void SendStore(absl::string_view verb, DbRequest* request, absl::string_view record, uint64_t version,
                 int64_t attempts);
  // Sends the compare-and-set of `record`, patched; ends the request if that is impossible.
  bool SendPatched(DbRequest* request, absl::string_view record, uint64_t version, int64_t attempts);
  // Takes the oldest reply. Returns false if it has not arrived completely. Ended requests go to ended_.
  bool TakeAnswer();
  bool TakeValue(const Sent& sent);
  void TakeWord(const Sent& sent, absl::string_view word);
  void End(DbRequest* request, DbStatus status, absl::string_view error = "");
  void Write();
  void ReadSome(int64_t wait_ns);
  void Receive();
  void Break(absl::string_view why);

  const int fd_;
  bool broken_ = false;
  std::string output_;  // not written yet
  std::string input_;
  size_t taken_ = 0;  // bytes of input_
  std::deque<Sent> sent_;
  std::vector<DbRequest*> ended_;
  std::string patched_;
  std::string last_error_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_MEMCACHED_PIPELINE_H_
