// Executes requests on the table and on counters, and returns their outcomes. Independent of connections and sessions.
//
// Thread safety: none; each worker has its own. Other threads may call the table at the same time, under the same
// locks.
#ifndef FARLOOK_SERVER_EXECUTOR_EXECUTOR_H_
#define FARLOOK_SERVER_EXECUTOR_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/layout/key_place.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"
#include "server/base/lock_times.h"
#include "server/executor/shared.h"
#include "server/session/session.h"

namespace farlook::server {

// Returns the table's parameters for a put. Its ttl begins at `now_ns`, when the put takes effect.
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
  // `times`: lock times of the calling thread, outlives this; null: not recorded.
  explicit Executor(const Shared& shared, LockTimes* times = nullptr) : shared_(shared), times_(times) {}

  // Reasons why a client's requests may be refused.
  struct Asker {
    bool read_only = false;
    bool writes_refused = false;  // the server is shutting down
  };
  // Returns kOk, or the reason why a request of this type must not begin. `now_us`: the server's clock.
  static kv::Code Admit(kv::RequestType type, const kv::Request& request, Asker asker, uint64_t now_us) {
    if (IsWrite(type)) {
      if (asker.read_only) return kv::Code::kReadOnly;
      if (asker.writes_refused) return kv::Code::kShuttingDown;
    }
    if (request.unsupported) return kv::Code::kUnsupported;
    return ServerTime::IsOverAt(request.deadline_us, now_us) ? kv::Code::kExpired : kv::Code::kOk;
  }

  // Executes a numbered request of this type; not kPutPulled. `place` is its key's, if it has one. `with_cell`: see
  // Counters::Execute. `*payload` is the reply's, valid until the next call.
  //
  // Returns kMakingRoom if the call must be repeated; `may_step` allows it to make a step towards room. In a group only
  // reads are executed here: kTimeIsOver means that the item has expired but is not removed yet, and a kGetAndTouch
  // only gets, even an expired item. REQUIRES Admit() returned kOk.
  Outcome Execute(kv::RequestType type, const kv::Request& request, const kv::KeyPlace& place, bool with_cell,
                  int64_t now_ns, absl::string_view* payload, bool may_step = true) {
    if (type == kv::RequestType::kPut) [[likely]]
      return Put(request, place, now_ns, may_step);
    return ExecuteOther(request, place.hash, with_cell, now_ns, payload, may_step);
  }

  // Executes a put without options or condition. It makes no step towards room.
  [[gnu::always_inline]] kv::WriteResult Put(const kv::KeyPlace& place, const kv::KeyValue& item, int64_t now_ns) {
    static constexpr kv::PutParams kPlain{.may_step = false};
    TimedLock lock(shared_.locks->of(place.hash), times_);
    return shared_.table->Put(place, item, kPlain, TimeOfWrite(now_ns));
  }

  // Executes several puts under one hold of a lock. Each has the options of `like`, and its own key and value. Calls
  // `begin(i)` before the i-th put and `end(i, result)` after it, and stops when either returns false. Also stops at a
  // key of another partition, and after a put that was not made in place: those may take long, so they come last in a
  // hold.
  //
  // Returns the number of puts for which `end` returned true. None makes a step towards room. REQUIRES at least one
  // put, and that Admit() returned kOk.
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

  // Returns the payload for a remembered outcome; valid until the next call.
  absl::string_view PayloadOf(kv::RequestType type, const Outcome& outcome);

 private:
  Outcome ExecuteOther(const kv::Request& request, uint64_t hash, bool with_cell, int64_t now_ns,
                       absl::string_view* payload, bool may_step);
  // Returns the time when a write takes effect; called under its lock. If several workers write a partition, a time
  // read before locking may precede another worker's split. See "Retired segments" in docs/design-notes.md.
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
  std::array<char, kv::kMaxReplyPayloadBytes> value_;  // payload of a kGet's reply, or of a counter's
  std::string stat_;                                   // payload of a kStat's reply
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_EXECUTOR_EXECUTOR_H_
