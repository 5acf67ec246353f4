// Whether what is READ of a group's primary may be believed: looks at the epoch words of all members, over connections
// of its own to all but the primary. Rules 7 to 9 of docs/cluster.md; the Welcome of a primary is rule 7, as only one
// that is OPEN says it.
//
// Over a network the words are READ in rounds, and a round that shows all of them OPEN is good for a lease
// (kv/read_lease.h): while answers come and while operations wait, one begins every third of that. On this host they
// are loaded where they are, after the data: that needs neither rounds nor clocks.
//
// What happens when a word is another one:
//   * of a later epoch: successor() says where to go, and the client connects anew;
//   * SHUT, in this epoch: nothing is believed until all are OPEN again. Where it is the primary's (it changes the
//     members) or goes on for a lease, gets are answered by messages, for which the primary asks its backups;
//   * not to be READ, as that member is gone or cannot be reached: the same, until the group goes on without it.
#ifndef FARLOOK_CLIENT_EPOCH_WATCH_H_
#define FARLOOK_CLIENT_EPOCH_WATCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/greeting.h"
#include "client/last_time.h"
#include "farlook/options.h"
#include "kv/epoch_word.h"
#include "kv/handshake.h"
#include "kv/read_lease.h"
#include "kv/words.h"
#include "rdma/transport.h"

namespace farlook::client {

// Thread safety: one thread. What it is made with outlives it.
class EpochWatch {
 public:
  enum class Verdict : uint8_t {
    kBelieved,
    kNotYet,  // ask again when TakeProven() says so, and from time to time
    kAsk,     // by a message
  };

  EpochWatch(rdma::Endpoint* endpoint, LastTime* time, const ClientOptions* options)
      : endpoint_(endpoint), time_(time), options_(options) {}

  // A primary has said this Welcome over `primary`; its table is `table`. REQUIRES that Lost() was the last.
  void Begin(rdma::Connection* primary, const kv::ServerRange& table, const kv::Welcome& welcome,
             std::vector<std::string> members);
  // The primary's connection is destroyed; its own are now.
  void Lost();
  // Whether the server is a group's. All that follows REQUIRES it.
  bool active() const { return lease_.has_value(); }

  // Rounds that have begun since Begin().
  uint64_t begun() const { return former_rounds_ + lease_->begun(); }
  // Of what was complete by `completed_ns`, a reading of LastTime, when so many rounds had begun.
  Verdict Judge(int64_t completed_ns, uint64_t begun);
  // On this host: of what was loaded before this call. Who lives now shows a word of now or later, even if that is the
  // last that it ever shows. (Of who is not alive the word may not be mapped any more.)
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
    doubtful_since_ns_.reset();
    return true;
  }

  // What its own connections say, and READs of WorkRequestId::Owner::kWords over the primary's.
  void Handle(const rdma::Completion& completion);
  // Connects, and begins a round if one is due; `waiting`: operations are in flight. Rings.
  void Poll(bool waiting);
  // While operations are in flight: when Poll() has something to do.
  int64_t due_ns() const;
  // Whether it is about to connect to some member.
  bool connects() const {
    return std::any_of(members_.begin(), members_.end(),
                       [](const Member& member) { return member.own != nullptr && member.connection == nullptr; });
  }
  // Whether a round has proven something since this was last asked.
  bool TakeProven();
  // Where to connect to, as there is another configuration; empty: at the same address. Null: this one is in force, as
  // far as is known.
  const std::string* successor() const { return successor_.has_value() ? &*successor_ : nullptr; }

 private:
  // How often is looked where something is awaited: a member is to be OPEN again, or to be reached.
  static constexpr int64_t kLookAgainNs = 2'000'000;
  static constexpr int64_t kLocalLookNs = 5'000'000;
  static constexpr int64_t kLeastPatienceNs = 10'000'000;
  static constexpr int64_t kLeastAttemptNs = 250'000'000;  // to connect to a member
  static constexpr int64_t kLeastRedialNs = 20'000'000, kMostRedialNs = 1'000'000'000;

  struct Member {
    std::string address = {};
    std::unique_ptr<rdma::Connection> own = {};  // null: the primary, or none now
    rdma::Connection* connection = nullptr;      // set where its word can be READ
    std::optional<Greeting> greeting = {};
    kv::ServerRange table = {};
    bool pending = false;  // a READ of its word
    uint64_t round = 0;    // for which; 0: for none any more
    int64_t dial_ns = 0;   // not before
    int64_t redial_ns = kLeastRedialNs;
  };

  alignas(8) static constexpr char kNoWord[8] = {};  // shows that nobody is OPEN
  // On this host, what is looked at for each member, and nothing else.
  struct Shown {
    const char* word = kNoWord;  // as it is mapped; kNoWord: it is not
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
  Verdict Doubt();

  rdma::Endpoint* const endpoint_;
  LastTime* const time_;
  const ClientOptions* const options_;
  std::unique_ptr<rdma::Buffer> words_;  // that READs land in, one for each member

  // Of the configuration.
  std::vector<Member> members_;  // the primary first
  std::vector<Shown> shown_;     // of each of them
  kv::EpochWord open_;
  int64_t lease_ns_ = 0;
  std::optional<kv::ReadLease> lease_;

  bool wanted_ = false;         // a round
  bool proven_ = false;         // by a round, which nobody was told of
  bool renewed_ = false;        // the round that began last has proven something
  uint64_t former_rounds_ = 0;  // of this epoch, before lease_ began anew
  uint64_t round_ = 0;          // that began last
  int64_t round_ns_ = 0;        // when
  bool primary_shut_ = false;
  int64_t next_look_ns_ = 0;
  std::optional<int64_t> doubtful_since_ns_;
  std::optional<std::string> successor_;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_EPOCH_WATCH_H_
