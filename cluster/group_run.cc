#include "cluster/group_run.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cluster/breaks.h"
#include "cluster/configuration.h"
#include "cluster/directory.h"
#include "cluster/group_reader.h"
#include "cluster/member.h"
#include "cluster/simulated_directory.h"
#include "kv/epoch_word.h"

namespace farlook::cluster {
namespace {

constexpr size_t kNodes = 3;
constexpr uint32_t kLeaseUs = 1'000;
constexpr char kName[] = "g";

using Role = Member::Role;
using Fault = SimulatedDirectory::Fault;
using Records =
    std::set<int>;  // writes are numbered as they begin, so a log is in order; a record's place is its sequence

struct Node {
  explicit Node(uint64_t incarnation) : member(incarnation) {}

  Member member;
  std::deque<Action> actions;
  bool stored = false;               // the clock is to be read
  std::optional<CasResult> swapped;  // what it is to be told
  EpochWord word;                    // as others READ it
  int table = 0;                     // the last write that was published in it
  Records log;
  uint64_t filled_by = 0;     // the primary whose records it has; only a member goes on with another's
  uint64_t stream_epoch = 0;  // of the stream that it writes
  std::set<uint64_t> agreed;  // members whose log has nothing that this promoter's lacks
  bool shares = false, serves = false;
  std::map<uint64_t, Records> accepted;  // from it, by each incarnation, as it was told
};

class Run {
 public:
  explicit Run(uint64_t seed)
      : random_(seed),
        is_slow_(seed % 2 == 0),
        may_leave_(seed % 3 == 0),
        reader_({.any = [this](size_t below) { return Any(below); },
                 .record = [this](size_t ago) { return records_.Get(kName, ago); },
                 .reach = [this](uint64_t incarnation) { return Reach(incarnation); },
                 .known = &known_},
                /*is_strict=*/seed % 4 == 1) {
    for (size_t i = 0; i < kNodes; ++i) nodes_.emplace_back(NewIncarnation());
    // One founds the group; the others join.
    Configuration first;
    first.group = 1;
    first.lease_us = kLeaseUs;
    first.members.push_back(
        {.incarnation = nodes_[0]->member.incarnation(), .kind = Replica::Kind::kPrimary, .address = "a"});
    Actions actions;
    nodes_[0]->member.Create(first, &actions).IgnoreError();
    Queue(&*nodes_[0], &actions);
  }

  RunResult Do(int steps) {
    for (int i = 0; i < steps && result_.wrong.empty(); ++i) {
      now_ += absl::Microseconds(Any(is_slow_ ? 100 : 8) == 0 ? Any(600) : Any(is_slow_ ? 3 : 20));
      const size_t who = Any(kNodes + 3);
      if (who < kNodes) {
        Step(&*nodes_[who]);
      } else if (who < kNodes + 2) {
        result_.wrong = reader_.Step(now_);
      } else if (records_.delayed() != 0 && Any(4) == 0) {
        records_.Execute(Any(records_.delayed()));
      }
    }
    result_.gets = reader_.gets();
    return result_;
  }

 private:
  size_t Any(size_t below) { return random_() % below; }
  uint64_t NewIncarnation() { return ++incarnations_; }

  Node* Find(uint64_t incarnation) {
    for (std::optional<Node>& node : nodes_) {
      if (node->member.incarnation() == incarnation) return &*node;
    }
    return nullptr;
  }

  static void Queue(Node* node, Actions* actions) {
    for (Action& action : *actions) node->actions.push_back(std::move(action));
    actions->clear();
  }

  // ---- A node: one thread, paused after each of these steps.

  void Step(Node* node) {
    Actions actions;
    if (node->stored) {
      node->stored = false;
      node->member.Stored(now_, &actions);
    } else if (node->swapped.has_value()) {
      node->member.Swapped(*std::exchange(node->swapped, std::nullopt), &actions);
    } else if (!node->actions.empty()) {
      const Action action = std::move(node->actions.front());
      node->actions.pop_front();
      Carry(node, action);
      return;
    } else {
      Event(node, &actions);
    }
    Queue(node, &actions);
  }

  Fault AnyFault() {
    switch (Any(8)) {
      case 0:
        return Fault::kRequestLost;
      case 1:
        return Fault::kReplyLost;
      case 2:
        return Fault::kLate;
      default:
        return Fault::kNone;
    }
  }

  void Carry(Node* node, const Action& action) {
    switch (action.kind) {
      case Action::Kind::kStoreWord:
        node->word = action.word;
        node->stored = true;
        return;
      case Action::Kind::kCas: {
        node->swapped =
            SimulatedDirectory(&records_, [this] { return AnyFault(); }).Cas(kName, action.expected, action.record);
        if (node->swapped->outcome == CasOutcome::kUnknown) ++result_.unknown;
        return;
      }
      case Action::Kind::kRead:
        Learn(node, 0);
        return;
      case Action::Kind::kShareTail:
        node->shares = true;
        node->agreed.clear();
        SendLog(node);
        return;
      case Action::Kind::kPublishTail:
        if (!node->log.empty()) node->table = *node->log.rbegin();
        return;
      case Action::Kind::kServe: {
        // A promoter that was deposed before it got here may open its epoch all the same: no reader believes it.
        const bool is_last = DecodeConfiguration(records_.Get(kName).value)->epoch == node->member.epoch();
        for (const int write : acknowledged_) {
          if (is_last && node->log.count(write) == 0) {
            result_.wrong = absl::StrCat("write ", write, " was acknowledged and is lost");
          }
        }
        node->shares = false;
        node->serves = true;
        for (const int write : node->log) Acknowledge(write);
        if (node->member.epoch() > 1) ++result_.promotions;
        return;
      }
      case Action::Kind::kStepDown:
        ++result_.stepped_down;
        BeginAnew(node);
        return;
    }
  }

  // In the same place: `node` is another process now.
  void BeginAnew(Node* node, bool keeps_connections = false) {
    const auto slot = std::find_if(nodes_.begin(), nodes_.end(), [node](const auto& any) { return &*any == node; });
    const uint64_t old = node->member.incarnation();
    const EpochWord word = node->word;
    const int table = node->table;
    slot->emplace(NewIncarnation());
    if (broken != Break::kOldConnections && !keeps_connections) return;
    old_of_[old] = static_cast<size_t>(slot - nodes_.begin());
    (*slot)->word = word;
    if (keeps_connections) (*slot)->table = table;
  }

  // It ends in order: when nobody can READ it any more the record says so.
  void Leave(Node* node) {
    const uint64_t incarnation = node->member.incarnation();
    const Entry last = records_.Get(kName);
    const Configuration configuration = *DecodeConfiguration(last.value);
    const auto next = Member::AfterLeaving(configuration, incarnation);
    const bool is_last = std::none_of(configuration.members.begin(), configuration.members.end(), [&](const auto& one) {
      return one.incarnation != incarnation && Find(one.incarnation) != nullptr;
    });
    if (!next.has_value() || is_last) return;
    BeginAnew(node, /*keeps_connections=*/broken == Break::kSaysTooEarlyThatItLeft);
    SimulatedDirectory(&records_, [this] { return AnyFault(); }).Cas(kName, last.revision, EncodeConfiguration(*next));
    ++result_.left;
  }

  void Learn(Node* node, size_t ago) {
    const Entry entry = records_.Get(kName, ago);
    if (entry.revision == 0) return;
    const auto configuration = DecodeConfiguration(entry.value);
    Actions actions;
    const absl::Status status =
        configuration.ok() ? node->member.Learn(entry.revision, *configuration, &actions) : configuration.status();
    if (!status.ok()) result_.wrong = std::string(status.message());
    Queue(node, &actions);
    const bool joins = node->member.role() == Role::kJoining && node->filled_by != 0;
    if (joins && configuration.ok() && configuration->primary().incarnation != node->filled_by) BeginAnew(node);
  }

  void Event(Node* node, Actions* actions) {
    Member* const member = &node->member;
    if (member->role() == Role::kBackup && member->configuration().primary_left && Any(2) == 0) {
      member->Promote({}, false, actions).IgnoreError();
      return;
    }
    if (may_leave_ && Any(100) == 0 && IsPrimary(node)) return Leave(node);
    switch (Any(12)) {
      case 0:
        Learn(node, Any(3));
        break;
      case 1:
        member->Retry(actions);
        break;
      case 2:
        member->Tick(now_, actions);
        break;
      case 3:
        if (Any(4) == 0 && member->epoch() != 0) {
          std::vector<uint64_t> lost;
          if (Any(2) == 0) lost.push_back(nodes_[Any(kNodes)]->member.incarnation());
          member->Promote(lost, false, actions).IgnoreError();
        }
        break;
      case 4:
        if (Any(6) == 0 && member->Remove(nodes_[Any(kNodes)]->member.incarnation(), actions).ok()) ++result_.removals;
        break;
      case 5:
        AddOne(node, actions);
        break;
      case 6:
        if (Any(3) == 0) Write(node);
        break;
      case 7:
      case 8:
        Accept(node);
        break;
      case 9:
        Publish(node);
        break;
      case 10:
        Share(node, actions);
        break;
      default:
        // Of two members one may crash; the last one is the group.
        if (Any(60) == 0 && member->role() == Role::kBackup) {
          ++result_.crashes;
          BeginAnew(node);
        }
    }
  }

  // ---- Records.

  void SendLog(Node* node) {
    node->stream_epoch = node->member.epoch();
    streams_[node->stream_epoch] = node->log;
  }

  bool IsPrimary(Node* node) {
    if (!node->serves || !node->member.Serves()) return false;
    if (node->stream_epoch != node->member.epoch()) SendLog(node);
    return true;
  }

  void Write(Node* node) {
    if (!IsPrimary(node)) return;
    node->log.insert(++writes_);
    streams_[node->stream_epoch].insert(writes_);
    if (broken == Break::kVisibleEarly) node->table = writes_;
  }

  void Accept(Node* node) {
    const Member& member = node->member;
    if (member.epoch() == 0) return;
    const uint64_t primary = member.configuration().primary().incarnation;
    Node* const from = Find(primary);
    const bool accepts = member.Accepts(primary, member.epoch());
    const Records& stream = streams_[member.epoch()];
    if (member.role() == Role::kJoining && node->filled_by != 0 && node->filled_by != primary) return;
    if (accepts) node->filled_by = primary;
    if (broken == Break::kAdapterAcknowledges && from != nullptr) {
      for (const int write : stream) from->accepted[member.incarnation()].insert(write);
    }
    if (!accepts) return;
    size_t sequence = 0;
    for (const int write : stream) {
      // What it has in the place of a record it takes for that record.
      if (++sequence <= node->log.size() && node->log.count(write) == 0) result_.wrong = "two logs differ";
      const bool told = from == nullptr || from->accepted[member.incarnation()].count(write) != 0;
      if (!node->log.insert(write).second && told) continue;
      if (from != nullptr) from->accepted[member.incarnation()].insert(write);
      return;
    }
  }

  bool AllAccepted(Node* node, int write) {
    const std::vector<uint64_t> all = node->member.MustAccept();
    return std::all_of(all.begin(), all.end(),
                       [node, write](uint64_t by) { return node->accepted[by].count(write) != 0; });
  }

  void Acknowledge(int write) {
    acknowledged_.insert(write);
    known_ = std::max(known_, write);
  }

  void Publish(Node* node) {
    if (!IsPrimary(node)) return;
    for (const int write : node->log) {
      if (acknowledged_.count(write) != 0 && write <= node->table) continue;
      if (!AllAccepted(node, write)) return;
      node->table = std::max(node->table, write);
      Acknowledge(write);
      ++result_.writes;
      return;
    }
  }

  void AddOne(Node* node, Actions* actions) {
    if (!IsPrimary(node)) return;
    Node& joiner = *nodes_[Any(kNodes)];
    if (joiner.member.role() != Role::kJoining || &joiner == node || joiner.member.is_proposing()) return;
    const uint64_t incarnation = joiner.member.incarnation();
    if (broken != Break::kJoinerNotFilled) {
      if (joiner.filled_by != 0 && joiner.filled_by != node->member.incarnation()) return;
      for (const int write : node->log) {
        if (write <= node->table && node->accepted[incarnation].count(write) == 0) return;
      }
    }
    if (!node->member.Add({.incarnation = incarnation, .address = "a"}, actions).ok()) return;
    joiner.filled_by = node->member.incarnation();
    ++result_.additions;
  }

  // A member knows by their number how many records of its log the promoter lacks, and cuts those off.
  void Cut(Records* log, const Records& to) {
    if (broken == Break::kTailNotCut) return;
    while (log->size() > to.size()) log->erase(std::prev(log->end()));
    if (!std::includes(to.begin(), to.end(), log->begin(), log->end())) result_.wrong = "two logs differ";
  }

  void Share(Node* node, Actions* actions) {
    if (!node->shares) return;
    const uint64_t epoch = node->member.epoch();
    const std::vector<uint64_t> all = node->member.MustAccept();
    for (const uint64_t incarnation : all) {
      Node* const other = Find(incarnation);
      if (node->agreed.count(incarnation) != 0 || other == nullptr || other->member.epoch() != epoch) continue;
      Cut(&other->log, node->log);
      node->agreed.insert(incarnation);
      break;
    }
    const bool accepted =
        node->agreed.size() == all.size() &&
        std::all_of(node->log.begin(), node->log.end(), [this, node](int write) { return AllAccepted(node, write); });
    if (accepted || broken == Break::kTailNotAccepted) node->member.TailAccepted(epoch, now_, actions);
  }

  // ---- What the reader READs.

  // Of the node that connections to this incarnation lead to.
  std::optional<Shown> Reach(uint64_t incarnation) {
    const auto old = old_of_.find(incarnation);
    const Node* const node = old != old_of_.end() ? &*nodes_[old->second] : Find(incarnation);
    if (node == nullptr) return std::nullopt;
    return Shown{node->word, node->table};
  }

  std::mt19937_64 random_;
  const bool is_slow_;    // time passes slowly: much happens within a lease
  const bool may_leave_;  // primaries end in order too
  absl::Time now_ = absl::UnixEpoch();
  uint64_t incarnations_ = 0;
  std::vector<std::optional<Node>> nodes_;
  SimulatedRecords records_;
  std::map<uint64_t, Records> streams_;  // what was sent in each epoch, whether it arrived or not
  std::map<uint64_t, size_t> old_of_;    // nodes that were reincarnated under their old connections
  int writes_ = 0;
  int known_ = 0;  // the latest write that somebody was told of
  Records acknowledged_;

  GroupReader reader_;
  RunResult result_;
};

}  // namespace

RunResult RunGroup(uint64_t seed, int steps) { return Run(seed).Do(steps); }

}  // namespace farlook::cluster
