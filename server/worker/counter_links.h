// The connections of one worker that may know cells of counters. Notifies them of deleted counters, and waits for their
// acknowledgements.
//
//     Enroll -> (a counter is deleted) -> CellNotice -> Acknowledge            in time, or the connection is dropped
//            -> Closed -> Counters::Leave, once nothing of the client's can arrive any more
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_WORKER_COUNTER_LINKS_H_
#define FARLOOK_SERVER_WORKER_COUNTER_LINKS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "rdma/transport.h"
#include "server/base/log.h"
#include "server/counters/counters.h"
#include "server/session/connection_list.h"
#include "server/worker/link.h"

namespace farlook::server {

class CounterLinks {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // `wake`: see Counters::AddWorker. A connection has `patience_ns` to acknowledge.
  CounterLinks(Counters* counters, std::function<void()> wake, int64_t patience_ns);
  ~CounterLinks();  // no longer waits for clients within an atomic

  // Enrolls a link before it is sent cells. Does nothing if it is enrolled.
  void Enroll(Link& link);

  // Takes the acknowledgement of a notice. Returns false if the link was not sent this notice.
  bool Acknowledge(Link& link, uint64_t sequence);

  // Called when the link's connection has closed. Returns true if nothing of the client can arrive once the link is
  // destroyed. Returns false if the client may still be within an atomic: the connection is then taken from the link,
  // and Poll() reports when the client has left the atomic.
  bool Closed(Link& link, int64_t now_ns);
  // Returns the number of clients that may still be within an atomic. Each still uses a connection, so it keeps its
  // place until it is kicked.
  size_t within_atomics() const { return remains_.size(); }

  // Returns whether an acknowledgement is outstanding: Poll() then needs the time of the last look for messages.
  bool waits() const { return !waiting_.empty(); }
  // Returns whether Poll() has something to do now or later; otherwise the clock need not be read.
  bool busy() { return news_ || !waiting_.empty() || !remains_.empty() || (news_ = counters_->TakeNews(worker_)); }
  // Sends notices through `post` and passes each late link to `late`, which drops it. Calls `gone` for each client that
  // has left its atomic, with whether it has a place to release. Returns the number of things done.
  //
  // `looked_ns`: a time read before the worker looked for the messages that have been handled by now. All that a client
  // sent until then has been seen, however long this thread was stopped or busy since. Lateness is measured against it.
  size_t Poll(int64_t now_ns, int64_t looked_ns, absl::FunctionRef<void(Link&, absl::string_view)> post,
              absl::FunctionRef<void(Link&)> late, absl::FunctionRef<void(bool)> gone);
  // The latest time for the next Poll().
  int64_t due_ns() const { return due_ns_; }

 private:
  // A closed connection of a client that may still be within an atomic.
  struct Remains {
    std::unique_ptr<rdma::Connection> connection;
    Counters::Holder holder;
    std::unique_ptr<ConnectionList::Entry> entry;
  };

  size_t SendNotices(absl::FunctionRef<void(Link&, absl::string_view)> post);
  size_t DropLate(int64_t looked_ns, absl::FunctionRef<void(Link&)> late);
  size_t BuryRemains(int64_t now_ns, absl::FunctionRef<void(bool)> gone);

  Counters* const counters_;
  const int64_t patience_ns_;
  RateLimit stopped_log_;
  const int worker_;
  bool news_ = false;
  LinkQueue<CellHolderTag> links_;
  LinkQueue<CellNoticeTag> waiting_;  // for an acknowledgement, ordered by the time of the notice
  std::deque<Remains> remains_;
  int64_t look_ns_ = 0;   // time of the next look at remains_
  int64_t pause_ns_ = 0;  // between looks at remains_
  int64_t due_ns_ = kNever;
  std::vector<uint64_t> hashes_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_COUNTER_LINKS_H_
