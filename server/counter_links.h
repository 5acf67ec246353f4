// The connections of one worker that may know cells of counters: telling them what was deleted, and waiting until they
// are done with it.
//
//     Enroll -> (a counter is deleted) -> CellNotice -> Acknowledge            in time, or the connection is dropped
//            -> Closed -> Counters::Leave, once nothing of the client's can arrive any more
//
// Thread safety: none; belongs to its worker.
#ifndef FARLOOK_SERVER_COUNTER_LINKS_H_
#define FARLOOK_SERVER_COUNTER_LINKS_H_

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
#include "server/counters.h"
#include "server/link.h"
#include "server/log.h"
#include "server/roster.h"

namespace farlook::server {

class CounterLinks {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // `wake`: see Counters::AddWorker. A connection has `patience_ns` to acknowledge.
  CounterLinks(Counters* counters, std::function<void()> wake, int64_t patience_ns);
  ~CounterLinks();  // those who are not gone are not waited for any more

  // The link may be told cells from now on. Nothing if it may already.
  void Enroll(Link& link);

  // The link answered a notice. False: not one that it was sent.
  bool Acknowledge(Link& link, uint64_t sequence);

  // The link's connection is over. True: nothing of the client is left, now that the link is destroyed. False: it may
  // still be within an atomic; its connection is taken from the link, and Poll() tells when it is gone.
  bool Closed(Link& link, int64_t now_ns);
  // Clients of which that is true now. What they keep is a connection's, so they have the places of clients until they
  // are kicked.
  size_t within_atomics() const { return remains_.size(); }

  // Whether a client has a notice to acknowledge: Poll() wants to know when messages were looked for.
  bool waits() const { return !waiting_.empty(); }
  // Whether Poll() has something to do now or later: the clock is only read then.
  bool busy() { return news_ || !waiting_.empty() || !remains_.empty() || (news_ = counters_->TakeNews(worker_)); }
  // Sends notices through `post`, hands each link whose time is over to `late`, which drops it, and calls `gone` for
  // each client that was within an atomic and is gone: whether it had a place. Returns how many.
  // `looked_ns`: a time that was read before the messages were looked for that have been handed over by now. What a
  // client did until then has been seen, however long this thread was stopped or busy since; so by that time a client
  // is late.
  size_t Poll(int64_t now_ns, int64_t looked_ns, absl::FunctionRef<void(Link&, absl::string_view)> post,
              absl::FunctionRef<void(Link&)> late, absl::FunctionRef<void(bool)> gone);
  // When Poll() has to be called at the latest.
  int64_t due_ns() const { return due_ns_; }

 private:
  // A connection that is over, of a client that may still be within an atomic.
  struct Remains {
    std::unique_ptr<rdma::Connection> connection;
    Counters::Holder holder;
    std::unique_ptr<Roster::Entry> entry;
  };

  size_t TellAll(absl::FunctionRef<void(Link&, absl::string_view)> post);
  size_t DropLate(int64_t looked_ns, absl::FunctionRef<void(Link&)> late);
  size_t BuryRemains(int64_t now_ns, absl::FunctionRef<void(bool)> gone);

  Counters* const counters_;
  const int64_t patience_ns_;
  RateLimit stopped_log_;
  const int worker_;
  bool news_ = false;
  std::vector<Link*> links_;    // enrolled
  std::vector<Link*> waiting_;  // of those, with a notice out, the oldest first
  std::deque<Remains> remains_;
  int64_t look_ns_ = 0;   // at remains_
  int64_t pause_ns_ = 0;  // before the next look
  int64_t due_ns_ = kNever;
  std::vector<uint64_t> hashes_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTER_LINKS_H_
