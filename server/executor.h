// From a request to its outcome: what requests do to the table and to counters. Knows no connection and no session.
//
// Thread safety: none; each worker has its own. Others may call the table at the same time, under the same locks.
#ifndef FARLOOK_SERVER_EXECUTOR_H_
#define FARLOOK_SERVER_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/key_place.h"
#include "kv/message.h"
#include "kv/puts.h"
#include "server/lock_times.h"
#include "server/session.h"
#include "server/shared.h"

namespace farlook::server {

// What a put asks of the table. Its ttl begins at `now_ns`, when the put takes effect.
inline kv::PutParams PutParamsOf(const kv::Request& request, ServerTime time, int64_t now_ns) {
  kv::PutParams params;
  params.condition = request.condition;
  params.version = request.version;
  if (!request.option.empty()) [[unlikely]] {
    params.expiry_ms = time.ExpiryMs(request.option.ttl_us, now_ns);
    params.keep_ttl = request.option.keep_ttl;
    params.flags = request.option.item_flags;
    params.refill = request.option.refill;
  }
  return params;
}

class Executor {
 public:
  // `times` (which outlives it) are of the thread that calls; null: not noted.
  explicit Executor(const Shared& shared, LockTimes* times = nullptr) : shared_(shared), times_(times) {}

  // Who asks, and when.
  struct Asker {
    bool read_only = false;
    bool writes_refused = false;  // the server is about to end
  };
  // kOk, or why the request, which is of this type, must not be begun. `now_us`: of the server's clock.
  static kv::Code Admit(kv::RequestType type, const kv::Request& request, Asker asker, uint64_t now_us) {
    if (IsWrite(type)) {
      if (asker.read_only) return kv::Code::kReadOnly;
      if (asker.writes_refused) return kv::Code::kShuttingDown;
    }
    if (request.unsupported) return kv::Code::kUnsupported;
    return ServerTime::IsOverAt(request.deadline_us, now_us) ? kv::Code::kExpired : kv::Code::kOk;
  }

  // Carries out any numbered request but a kPutPulled, which is of this type. `place` is its key's, where it has one;
  // `tell_cell`: see Counters::Execute. `*payload` is the reply's, valid until the next call. kMakingRoom: to be called
  // again; a call that may not make a step towards the room only says so. In a group, of what only reads, and
  // kTimeIsOver of an item that has expired and nobody has ended; a kGetAndTouch gets, whatever the time. REQUIRES
  // Admit() said kOk.
  Outcome Execute(kv::RequestType type, const kv::Request& request, const kv::KeyPlace& place, bool tell_cell,
                  int64_t now_ns, absl::string_view* payload, bool may_step = true) {
    if (type == kv::RequestType::kPut) [[likely]]
      return Put(request, place, now_ns, may_step);
    return ExecuteOther(request, place.hash, tell_cell, now_ns, payload);
  }

  // The same of a put that says nothing but its key and its value.
  kv::WriteResult Put(const kv::KeyPlace& place, const kv::KeyValue& item, int64_t now_ns) {
    static constexpr kv::PutParams kPlain{.may_step = false};
    TimedLock lock(shared_.locks->of(place.hash), times_);
    return shared_.table->Put(place, item, kPlain, TimeOfWrite(now_ns));
  }

  // Carries out puts, each as `like` says but for its key and its value, under one hold of a lock: from the first on,
  // which there is, as long as their keys are of its partition, `begin(i)` says true before the i-th, `end(i, result)`
  // after it, and it was written in place: what may take long is the last thing of a hold. Returns how many came to
  // their end. None makes a step towards room. REQUIRES Admit() said kOk.
  template <typename Begin, typename End>
  size_t PutTogether(const kv::Request& like, absl::Span<const kv::KeyValue> puts, const kv::KeyPlace* places,
                     int64_t now_ns, Begin begin, End end) {
    const int partition = shared_.table->PartitionOf(places[0].hash);
    TimedLock lock(shared_.locks->at(partition), times_);
    now_ns = TimeOfWrite(like, now_ns);
    kv::PutParams params = PutParamsOf(like, shared_.time, now_ns);
    params.may_step = false;
    size_t i = 0;
    while (begin(i)) {
      const kv::WriteResult result = shared_.table->Put(places[i], puts[i], params, now_ns);
      if (!end(i, result)) break;
      ++i;
      if (!result.in_place || i == puts.size() || shared_.table->PartitionOf(places[i].hash) != partition) break;
    }
    return i;
  }

  // The payload of a reply from memory; valid until the next call.
  absl::string_view PayloadOf(kv::RequestType type, const Outcome& outcome);

 private:
  Outcome ExecuteOther(const kv::Request& request, uint64_t hash, bool tell_cell, int64_t now_ns,
                       absl::string_view* payload);
  // When a write takes effect, under its lock. Where several workers write a partition, a time that was read before the
  // lock was had may lie before another's split. See "Retired segments" in docs/design-notes.md.
  int64_t TimeOfWrite(const kv::Request& request, int64_t now_ns) const {
    return request.option.has_ttl ? shared_.clock->NowNs() : TimeOfWrite(now_ns);
  }
  int64_t TimeOfWrite(int64_t now_ns) const { return shared_.workers > 1 ? shared_.clock->NowNs() : now_ns; }
  Outcome Put(const kv::Request& put, const kv::KeyPlace& place, int64_t now_ns, bool may_step) {
    TimedLock lock(shared_.locks->of(place.hash), times_);
    now_ns = TimeOfWrite(put, now_ns);
    kv::PutParams params = PutParamsOf(put, shared_.time, now_ns);
    params.may_step = may_step;
    const kv::WriteResult result = shared_.table->Put(place, {put.key, put.value}, params, now_ns);
    return {result.code, result.version, result.slot};
  }
  Outcome Delete(const kv::Request& request, uint64_t hash, int64_t now_ns);
  Outcome Get(const kv::Request& request, uint64_t hash, absl::string_view* payload);
  Outcome Stat(absl::string_view what, absl::string_view* payload);
  Outcome Read(const kv::Request& request, uint64_t hash, absl::string_view* payload, bool even_over = false);
  bool IsOver(const kv::ItemView& item) const;
  Outcome Touch(const kv::Request& request, uint64_t hash);
  Outcome GetAndTouch(const kv::Request& request, uint64_t hash, absl::string_view* payload);
  Outcome Ttl(const kv::Request& request, uint64_t hash, absl::string_view* payload);

  const Shared shared_;
  LockTimes* const times_;
  std::array<char, kv::kMaxReplyPayloadBytes> value_;  // of a kGet's reply, or a counter's
  std::string stat_;                                   // of a kStat's
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_H_
