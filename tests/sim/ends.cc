#include "tests/sim/ends.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kv/layout/expiry_word.h"
#include "server/base/server_time.h"
#include "tests/history/values.h"

namespace farlook::sim {
namespace {

using history::kNever;
using history::Operation;
using history::Outcome;

// Returns the time at which an item expires whose ttl began at `begin_ns`: as soon as the server's clock shows its
// time.
int64_t MomentOf(const rdma::sim::SimClock& clock, int64_t begin_ns, int64_t ttl_ms) {
  const server::ServerTime time;
  const uint64_t end_ms = time.ExpiryMs(static_cast<uint64_t>(ttl_ms) * 1000, clock.At(begin_ns));
  int64_t before = begin_ns, after = begin_ns + 2 * (ttl_ms + 2) * 1'000'000;
  while (after - before > 1) {
    const int64_t between = before + (after - before) / 2;
    (kv::HasExpired(end_ms, time.At(clock.At(between))) ? after : before) = between;
  }
  return after;
}

struct Touch {
  size_t place;
  End end;
};

// An expired counter exists until the sweep removes it, at most this much later. (The sweep runs every 256 ms, but the
// server may be stopped.)
constexpr int64_t kSweptNs = 2'000'000'000;

// Adds the ends of a key's counters, which are deletions without a request. Returns a description of a counter that was
// there for too long.
std::string AddEndsOfCounters(const EndOf& end_of, const std::vector<Lease>& leases, history::KeyHistory* history) {
  std::unordered_map<size_t, int64_t> ttls_ms;     // by place
  std::unordered_map<uint64_t, int64_t> swept_ns;  // by write
  for (const Lease& lease : leases) ttls_ms[lease.place] = lease.ttl_ms;
  const size_t count = history->size();
  for (size_t i = 0; i < count; ++i) {
    const Operation create = (*history)[i];
    const bool by_add = create.type == history::Type::kAddOrCreate;
    if (create.type != history::Type::kCreateCounter && !by_add) continue;
    const bool was_there = by_add && create.outcome == Outcome::kOk && create.counter != create.expected_counter;
    if (was_there) continue;
    if (create.outcome != Outcome::kOk && create.outcome != Outcome::kPending) continue;
    End end = end_of(create, ttls_ms[i]);
    // For a touch it is not known what it touched.
    for (const Lease& touch : leases) {
      if (!touch.touches || (*history)[touch.place].end_ns < create.begin_ns) continue;
      end = {std::min(end.lo_ns, end_of((*history)[touch.place], touch.ttl_ms).lo_ns), kNever};
    }
    if (!end.finite()) continue;
    Operation deletion;
    deletion.type = history::Type::kDeleteCounter;
    deletion.client = -1;
    deletion.begin_ns = end.lo_ns;
    if (end.hi_ns != kNever) {
      deletion.until_ns = end.hi_ns + kSweptNs;
      swept_ns[history::WriteOfNumber(by_add ? create.expected_counter : create.operand)] = deletion.until_ns;
    }
    history->push_back(deletion);
  }
  for (const Operation& operation : *history) {
    if (!history::HasCounterValue(operation)) continue;
    const auto swept = swept_ns.find(history::WriteOfNumber(operation.counter));
    if (swept != swept_ns.end() && operation.begin_ns > swept->second) {
      return absl::StrCat("there after it was to be swept at ", swept->second, ": ", ToString(operation));
    }
  }
  return "";
}

// The touches of one key.
struct Touches {
  std::unordered_map<uint64_t, std::vector<Touch>> sure;  // by the write whose value was touched
  std::vector<Touch> unsure;                              // which may have touched whatever value, or none
};

Touches Sort(const EndOf& end_of, const std::vector<Lease>& leases, history::KeyHistory* history) {
  std::unordered_map<uint64_t, uint64_t> writes;  // by version
  for (const Operation& operation : *history) {
    if (operation.version == 0 || operation.outcome != Outcome::kOk) continue;
    if (operation.write != 0 || operation.found != 0) {
      writes[operation.version] = operation.write != 0 ? operation.write : operation.found;
    }
  }
  Touches touches;
  for (const Lease& lease : leases) {
    Operation& operation = (*history)[lease.place];
    if (!lease.touches || (operation.outcome == Outcome::kNotFound && !lease.apart)) continue;
    const Touch touch{lease.place, end_of(operation, lease.ttl_ms)};
    const auto write = writes.find(operation.version);
    if (operation.outcome == Outcome::kOk && write != writes.end() && !lease.apart) {
      touches.sure[write->second].push_back(touch);
    } else {
      touches.unsure.push_back(touch);
    }
  }
  return touches;
}

Operation Expiry(uint64_t write, Outcome outcome, End end) {
  Operation operation;
  operation.type = history::Type::kExpire;
  operation.outcome = outcome;
  operation.client = -1;
  operation.begin_ns = end.lo_ns;
  operation.end_ns = end.hi_ns;
  operation.found = write;
  return operation;
}

}  // namespace

EndOf EndByClock(ClockAt clock_at) {
  return [clock_at = std::move(clock_at)](const Operation& operation, int64_t ttl_ms) -> End {
    if (ttl_ms == 0) return {};
    const bool ended = operation.outcome == Outcome::kOk;
    // The server may have restarted within the operation, so both clocks count.
    const rdma::sim::SimClock first = clock_at(operation.begin_ns);
    const rdma::sim::SimClock last = ended ? clock_at(operation.end_ns) : first;
    return {
        std::min(MomentOf(first, operation.begin_ns, ttl_ms), MomentOf(last, operation.begin_ns, ttl_ms)),
        ended ? std::max(MomentOf(first, operation.end_ns, ttl_ms), MomentOf(last, operation.end_ns, ttl_ms)) : kNever};
  };
}

End EndInGroup(const Operation& operation, int64_t ttl_ms) {
  constexpr int64_t kDriftNsInMs = 3'000;  // of three clocks: who counted, who took over, and the reader's
  constexpr int64_t kRoundedNs = 2'000'000;
  // The delay of copies to members that joined since, at most 3 s in the product. Here no process is stopped for a
  // third of this.
  constexpr int64_t kCopiesNs = 1'000'000'000;
  if (ttl_ms == 0) return {};
  const int64_t ttl_ns = ttl_ms * 1'000'000, drift_ns = ttl_ms * kDriftNsInMs;
  const bool ended = operation.outcome == Outcome::kOk;
  return {operation.begin_ns + ttl_ns - drift_ns,
          ended ? operation.end_ns + ttl_ns + drift_ns + kRoundedNs + kCopiesNs : kNever};
}

std::string AddEnds(const EndOf& end_of, const std::vector<Lease>& leases, history::KeyHistory* history) {
  if (std::string late = AddEndsOfCounters(end_of, leases, history); !late.empty()) return late;
  Touches touches = Sort(end_of, leases, history);
  std::unordered_map<size_t, Lease> puts;       // by place
  std::unordered_map<uint64_t, End> sure_ends;  // by version
  for (const Lease& lease : leases) {
    if (!lease.touches) puts[lease.place] = lease;
  }
  const size_t count = history->size();
  for (size_t i = 0; i < count; ++i) {
    const Operation write = (*history)[i];
    if (write.write == 0 || (write.outcome != Outcome::kOk && write.outcome != Outcome::kPending)) continue;
    const auto put = puts.find(i);
    End end = end_of(write, put == puts.end() ? 0 : put->second.ttl_ms);
    bool sure = write.outcome == Outcome::kOk;
    if (put != puts.end() && put->second.keeps && write.type != history::Type::kInsert) {
      // For a compare-and-set the previous value is known.
      const auto old = sure_ends.find(write.type == history::Type::kCompareAndSet ? write.expected : 0);
      sure &= old != sure_ends.end();
      end = old != sure_ends.end() ? old->second : End{write.begin_ns, kNever};
    }
    std::vector<Touch>& own = touches.sure[write.write];
    const auto begin_ns = [&](const Touch& touch) { return (*history)[touch.place].begin_ns; };
    std::sort(own.begin(), own.end(), [&](const Touch& a, const Touch& b) { return begin_ns(a) < begin_ns(b); });

    // If the order of touches, or their effect, is unknown, the value ends at some time from the earliest one on, or
    // never.
    int64_t earliest_ns = end.lo_ns, latest_ns = end.hi_ns;
    for (size_t t = 0; t < own.size(); ++t) {
      sure &= t == 0 || begin_ns(own[t]) > (*history)[own[t - 1].place].end_ns;
      earliest_ns = std::min(earliest_ns, own[t].end.lo_ns);
      latest_ns = std::max(latest_ns, own[t].end.hi_ns);
    }
    for (const Touch& touch : touches.unsure) {
      if (begin_ns(touch) > latest_ns) continue;
      sure = false;
      earliest_ns = std::min(earliest_ns, touch.end.lo_ns);
    }
    if (!sure) {
      if (earliest_ns != kNever) history->push_back(Expiry(write.write, Outcome::kPending, {earliest_ns, kNever}));
      continue;
    }
    for (const Touch& touch : own) {
      Operation& operation = (*history)[touch.place];
      if (operation.begin_ns > end.hi_ns) {
        return absl::StrCat("touched after its end at ", end.hi_ns, ": ", ToString(operation));
      }
      operation.end_ns = std::min(operation.end_ns, end.hi_ns);
      end = touch.end;
    }
    if (write.version != 0) sure_ends[write.version] = end;
    if (end.finite()) history->push_back(Expiry(write.write, Outcome::kOk, end));
  }
  return "";
}

}  // namespace farlook::sim
