// Sends a worker's messages to its clients in order, and keeps those that a send queue does not take.
//
//     Answer -> (a pack, where a message stands for several requests) -> Send -> ReplyQueue -> Ring, once for each batch
//                                                                          |
//                                                      send queue full -> stuck -> Continue, in turns
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_WORKER_OUTBOX_H_
#define FARLOOK_SERVER_WORKER_OUTBOX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "server/base/log.h"
#include "server/executor/request_times.h"
#include "server/session/session.h"
#include "server/worker/link.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

class Outbox final {
 public:
  // The number of full send queues at which one Continue() looks.
  static constexpr size_t kLooks = 8;

  explicit Outbox(WorkerContext* context) : context_(*context), times_(context->shared.slow_ns, &context->stats) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Sends a message, in order with all that was sent before; the client is notified by RingAll() at the latest.
  [[gnu::always_inline]] void Send(Link& link, absl::string_view head, absl::string_view payload) {
    if (link.closing) return;
    // Nothing follows the answer to a message that arrived alone, except if its replies fill several packs.
    const bool rings = came_alone_ && packing_ == nullptr;
    if (!link.replies.Post(head, payload, rings)) [[unlikely]]
      return SendLater(link, head, payload);
    if (!rings) WantRing(link);
  }
  // Sends the reply to a request, and ends its time if it is timed.
  void Answer(Link& link, uint64_t number, const Outcome& outcome, absl::string_view payload = {});
  [[gnu::always_inline]] void AnswerHere(Link& link, uint64_t number, const Outcome& outcome,
                                         absl::string_view payload);

  // Between these, replies to `link` are put into packs.
  void BeginPacks(Link& link) { packing_ = &link; }
  void EndPacks(Link& link);

  // Tells whether the message in hand is the only one of its batch; then its reply notifies the client at once.
  void SetAlone(bool is_alone) { came_alone_ = is_alone; }
  void WantRing(Link& link) { unrung_.Add(&link); }
  void RingAll() {
    while (Link* const link = unrung_.Pop()) link->connection->Ring();
  }

  // Connections whose send queue was full.
  bool has_stuck() const { return !stuck_.empty(); }
  void MarkStuck(Link& link);
  // Looks at some of them, each in its turn, and passes each that it looked at to `looked`. Returns how many of them
  // made progress.
  size_t Continue(absl::FunctionRef<void(Link&)> looked);
  // Returns whether the worker must look once more before it sleeps.
  bool looks_due() const { return looks_due_ > 0; }
  // Has each looked at once after a sleep: free space in a send queue may have ended it.
  void PrepareSleep() { looks_due_ = stuck_.size(); }

  // Stops receiving from a connection for which too much is kept, and receives again when half of it is gone.
  void Balance(Link& link);
  // Forgets a connection that has ended.
  void Remove(Link& link);

  // The requests that are timed.
  RequestTimes& times() { return times_; }

 private:
  void SendLater(Link& link, absl::string_view head, absl::string_view payload);
  bool Look(Link& link);
  void EndTimed(const Link& link, OpenRequests::Request* request);
  void PackAgain(Link& link, const kv::Reply& reply);

  WorkerContext& context_;
  bool came_alone_ = false;
  Link* packing_ = nullptr;  // the connection whose replies go into pack_
  LinkQueue<UnrungTag> unrung_;
  LinkQueue<StuckTag> stuck_;
  size_t looks_due_ = 0;
  int64_t retry_ns_ = 0;  // the pause before the next look at stuck_, if the worker sleeps
  RequestTimes times_;
  RateLimit slow_log_;
  kv::ReplyPack pack_;
};

[[gnu::always_inline]] inline void Outbox::AnswerHere(Link& link, uint64_t number, const Outcome& outcome,
                                                      absl::string_view payload) {
  if (link.closing) return;
  if (OpenRequests::Request& timed = link.open.at(number); timed.number == number) [[unlikely]]
    EndTimed(link, &timed);
  context_.stats.replies[static_cast<size_t>(outcome.code)].Add();
  kv::Reply reply;
  reply.code = outcome.code;
  reply.number = number;
  reply.version = outcome.version;
  reply.slot = outcome.slot;
  reply.time_us = context_.now_us;
  reply.payload = payload;
  if (packing_ == &link) {
    if (pack_.Add(reply)) [[likely]]
      return;
    const kv::Reply of_next = reply;  // so that most need not be in memory
    return PackAgain(link, of_next);
  }
  uint64_t words[kv::Reply::kHeaderBytes / 8];  // an array of char would have the stack guarded, at each message
  char* const head = reinterpret_cast<char*>(words);
  reply.EncodeHead(head);
  Send(link, {head, sizeof words}, payload);
}

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_OUTBOX_H_
