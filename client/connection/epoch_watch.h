// Decides whether what was READ from a group's primary may be believed. It looks at the epoch words of all members,
// over its own connections to all except the primary. Rules 7 to 9 of docs/cluster-design.md. A primary's Welcome
// satisfies rule 7, as only a primary that is OPEN sends one.
//
// Over a network the words are READ in rounds. A round that shows all of them OPEN is valid for a lease
// (kv/read/read_lease.h). While results arrive and operations wait, a round begins every third of a lease. On this host
// the words are loaded in place, after the data: this needs neither rounds nor clocks.
//
// If a word has another value:
// * A later epoch: successor() returns the new address, and the client reconnects.
// * SHUT in this epoch: nothing is believed until all are OPEN again. If it is the primary's (it changes the members),
//   or lasts for a lease, gets are sent as messages; the primary asks its backups about them.
// * Unreadable, since the member is gone or unreachable: the same, until the group continues without it.
#ifndef FARLOOK_CLIENT_CONNECTION_EPOCH_WATCH_H_
#define FARLOOK_CLIENT_CONNECTION_EPOCH_WATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/connection/greeting.h"
#include "client/op/last_time.h"
#include "farlook/options.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/words.h"
#include "kv/read/read_lease.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. The constructor's arguments outlive it.
class EpochWatch {
 public:
  enum class Verdict : uint8_t {
    kBelieved,
    kNotYet,  // ask again when TakeProven() returns true, and from time to time
    kAsk,     // ask the server, by a message
  };

  EpochWatch(rdma::Endpoint* endpoint, LastTime* time, const ClientOptions* options)
      : endpoint_(endpoint), time_(time), options_(options) {}

  // Starts after a primary's Welcome over `primary`; its table is `table`. REQUIRES a new object, or Lost() before.
  void Begin(rdma::Connection* primary, const kv::ServerRange& table, const kv::Welcome& welcome,
             std::vector<std::string> members);
  // The primary's connection is destroyed; destroys its own connections.
  void Lost();
  // Returns whether the server is in a group. All functions below REQUIRE it.
  bool active() const { return lease_.has_value(); }

  // Returns the number of rounds that have begun since Begin().
  uint64_t begun() const { return former_rounds_ + lease_->begun(); }
  // Judges data that was complete by `completed_ns`, a reading of LastTime, when `begun` rounds had begun.
  Verdict Judge(int64_t completed_ns, uint64_t begun);
  // On this host: judges data that was loaded before this call. A server that is alive now shows its present or a later
  // word, even if that is its last. (The word of a server that is not alive may be unmapped.)
  bool OpenNow() {
    auto shown = shown_.cbegin();
    const auto end = shown_.cend();
    do {
      if (!shown->connection->alive()) [[unlikely]]
        return false;
      const auto seen = kv::EpochWord::FromBits(kv::LoadWord(shown->word));
      if (seen != open_) [[unlikely]]
        return NotOpen(*shown, seen);
    } while (++shown != end);
    primary_shut_ = false;
    suspect_since_ns_.reset();
    return true;
  }

  // Handles completions of its own connections, and READs of WorkRequestId::Owner::kWords over the primary's.
  void Handle(const rdma::Completion& completion);
  // Connects, and begins a round if one is due; `waiting`: operations are in flight. Rings.
  void Poll(bool waiting);
  // Returns when Poll() has work, while operations are in flight.
  int64_t due_ns() const;
  // Returns whether it is connecting to some member.
  bool connects() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.own != nullptr && member.connection == nullptr; });
  }
  // Returns whether a round has proven something since the last call.
  bool TakeProven();
  // Returns the address to connect to if there is another configuration; empty: the same address. Null: the present
  // configuration is in force, as far as is known.
  const std::string* successor() const { return successor_.has_value() ? &*successor_ : nullptr; }

 private:
  // Interval of looks while a member is expected to be OPEN again or reachable.
  static constexpr int64_t kLookAgainNs = 2'000'000;
  static constexpr int64_t kLocalLookNs = 5'000'000;
  static constexpr int64_t kLeastPatienceNs = 10'000'000;
  static constexpr int64_t kLeastAttemptNs = 250'000'000;  // time for connecting to a member
  static constexpr int64_t kLeastRedialNs = 20'000'000, kMostRedialNs = 1'000'000'000;

  struct Member {
    std::string address = {};
    std::unique_ptr<rdma::Connection> own = {};  // null: the primary, or no connection now
    rdma::Connection* connection = nullptr;      // set if its word can be READ
    std::optional<Greeting> greeting = {};
    kv::ServerRange table = {};
    bool pending = false;  // a READ of its word is in flight
    uint64_t round = 0;    // the round of that READ; 0: an abandoned one
    int64_t dial_ns = 0;   // not before
    int64_t redial_ns = kLeastRedialNs;
  };

  alignas(8) static constexpr char kNoWord[8] = {};  // never shows OPEN
  // Data for the look at a member on this host.
  struct Shown {
    const char* word = kNoWord;  // as mapped; kNoWord: not mapped
    const rdma::Connection* connection = nullptr;
  };

  bool local() const { return members_[0].connection->capabilities().local; }
  void Reach(Member* member, rdma::Connection* connection, const kv::ServerRange& table);
  bool NotOpen(const Shown& shown, kv::EpochWord seen);
  void Dial(Member* member, int64_t now_ns);
  void Drop(Member* member);
  void OnMessage(Member* member, absl::string_view message);
  void Look(int64_t now_ns);
  void BeginLease();
  void Saw(const Member& member, kv::EpochWord word);
  Verdict Suspect();

  rdma::Endpoint* const endpoint_;
  LastTime* const time_;
  const ClientOptions* const options_;
  std::unique_ptr<rdma::Buffer> words_;  // READs write here, one word for each member

  // The present configuration.
  std::vector<Member> members_;  // the primary first
  std::vector<Shown> shown_;     // one for each member
  kv::EpochWord open_;
  int64_t lease_ns_ = 0;
  std::optional<kv::ReadLease> lease_;

  bool wanted_ = false;         // a round
  bool proven_ = false;         // by a round, not returned by TakeProven() yet
  bool renewed_ = false;        // the last round has proven something
  uint64_t former_rounds_ = 0;  // of this epoch, before lease_ was replaced
  uint64_t round_ = 0;          // the last that began
  int64_t round_ns_ = 0;        // its beginning
  bool primary_shut_ = false;
  int64_t next_look_ns_ = 0;
  std::optional<int64_t> suspect_since_ns_;
  std::optional<std::string> successor_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTION_EPOCH_WATCH_H_
