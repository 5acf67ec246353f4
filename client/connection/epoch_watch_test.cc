// The belief of a client in a group of two members, whose words the test sets.
#include "client/connection/epoch_watch.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/op/last_time.h"
#include "gtest/gtest.h"
#include "kv/layout/epoch_word.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/words.h"
#include "kv/wire/handshake.h"
#include "rdma/fake/fake_transport.h"

namespace farlook::client {
namespace {

using kv::EpochWord;
using Verdict = EpochWatch::Verdict;

constexpr uint64_t kEpoch = 5;
constexpr int64_t kLeaseMs = 150;

// Records the timeout of an attempt to connect.
class DialledEndpoint : public rdma::FakeEndpoint {
 public:
  using rdma::FakeEndpoint::FakeEndpoint;
  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                            int64_t timeout_ms) override {
    last_timeout_ms = timeout_ms;
    return rdma::FakeEndpoint::Connect(address, hello, timeout_ms);
  }
  int64_t last_timeout_ms = 0;
};

class EpochWatchTest : public testing::Test {
 protected:
  // `local`: on this host.
  explicit EpochWatchTest(bool local = false) {
    capabilities_.local = local;
    endpoint_.on_connect = [this](rdma::FakeEndpoint* endpoint, absl::string_view hello) {
      const auto data = kv::ConnectData::Decode(hello);
      EXPECT_TRUE(data.ok() && (data->flags & kv::ConnectData::kWatch) != 0);
      return Connect(endpoint);
    };
    primary_ = Connect(&endpoint_);
  }
  ~EpochWatchTest() override {
    primary_.reset();
    watch_.Lost();
  }

  std::unique_ptr<rdma::Connection> Connect(rdma::FakeEndpoint* endpoint) {
    rdma::FakePeer& peer = peers_.emplace_back();
    peer.endpoint = endpoint;
    kv::AcceptData accept;
    accept.incarnation = peers_.size();
    accept.table = {0, kv::kMinRegionBytes, static_cast<uint32_t>(peers_.size())};
    peer.welcome = accept.Encode();
    const size_t member = peers_.size() - 1;
    peer.alive = [this, member] { return member >= alive_.size() || alive_[member]; };
    peer.mapped = [this, member](uint64_t address, uint64_t /*bytes*/, uint32_t /*rkey*/) {
      EXPECT_EQ(address, kv::kEpochWordOffset);
      return reinterpret_cast<const char*>(words_[member].get());
    };
    auto connection = std::make_unique<rdma::FakeConnection>(&peer, capabilities_);
    if (reachable_) peer.Connected();
    return connection;
  }
  void Begin() {
    kv::Welcome welcome;
    welcome.group_epoch = kEpoch;
    welcome.lease_us = kLeaseMs * 1000;
    watch_.Begin(primary_.get(), {0, kv::kMinRegionBytes, 1}, welcome, {"fake://a", "fake://b"});
    HandleAll();
  }
  // The backup's server sends its Welcome.
  void LetIn() {
    HandleAll();
    ASSERT_EQ(peers_.size(), 2u);
    ASSERT_TRUE(kv::IsFirstMessage(peers_[1].first, kv::FirstMessage::kHello));
    kv::Welcome welcome;
    welcome.session = welcome.window = 1;
    welcome.time_us = 1;
    peers_[1].Send(welcome.Encode());
    HandleAll();
    watch_.Poll(/*waiting=*/true);
  }
  void HandleAll() {
    rdma::Completion completion;
    while (endpoint_.Poll(absl::MakeSpan(&completion, 1)) > 0) watch_.Handle(completion);
  }
  // Completes the READ of a member's word.
  void Show(size_t member, EpochWord word) {
    ASSERT_FALSE(peers_[member].reads.empty()) << member;
    EXPECT_EQ(peers_[member].reads.front().remote_address, kv::kEpochWordOffset);
    char bytes[8];
    kv::StoreAs(bytes, word.bits());
    peers_[member].CompleteRead({bytes, sizeof bytes});
    HandleAll();
  }
  void ShowBoth() {
    Show(0, EpochWord::Open(kEpoch));
    Show(1, EpochWord::Open(kEpoch));
  }
  // Ends the READs in flight, and begins a round of which all READs are pending.
  void FreshRound() {
    for (size_t member = 0; member < 2; ++member) {
      while (!peers_[member].reads.empty()) Show(member, EpochWord::Open(kEpoch));
    }
    Pass(kLeaseMs);
    ASSERT_EQ(peers_[0].reads.size(), 1u);
    ASSERT_EQ(peers_[1].reads.size(), 1u);
    EXPECT_NE(JudgeNow(), Verdict::kBelieved);
    watch_.TakeProven();
  }
  Verdict JudgeNow() { return watch_.Judge(time_.NowNs(), watch_.begun()); }
  void Pass(int64_t ms) {
    clock_.AdvanceMs(ms);
    watch_.Poll(/*waiting=*/true);
  }

  rdma::FakeClock clock_{1'000'000'000};
  LastTime time_{clock_};
  ClientOptions options_;
  rdma::FakeMemory memory_;
  DialledEndpoint endpoint_{&memory_};
  rdma::Capabilities capabilities_;
  bool reachable_ = true;
  // Words of primary and backup as mapped on this host; and whether the servers are alive.
  std::array<std::unique_ptr<uint64_t>, 2> words_ = {std::make_unique<uint64_t>(EpochWord::Open(kEpoch).bits()),
                                                     std::make_unique<uint64_t>(EpochWord::Open(kEpoch).bits())};
  std::array<bool, 2> alive_ = {true, true};
  std::deque<rdma::FakePeer> peers_;
  std::unique_ptr<rdma::Connection> primary_;
  EpochWatch watch_{&endpoint_, &time_, &options_};
};

// A caller that waits for its client lets it connect first.
TEST_F(EpochWatchTest, SaysWhetherItIsAboutToConnect) {
  EXPECT_FALSE(watch_.connects());
  Begin();
  watch_.Poll(/*waiting=*/false);
  EXPECT_TRUE(watch_.connects());
  LetIn();
  EXPECT_FALSE(watch_.connects());
  peers_[1].Break();
  HandleAll();
  EXPECT_FALSE(watch_.connects()) << "until it dials again";
}

TEST_F(EpochWatchTest, AServerThatIsInNoGroupIsNotWatched) {
  watch_.Begin(primary_.get(), {}, kv::Welcome(), {});
  EXPECT_FALSE(watch_.active());
  EXPECT_EQ(peers_.size(), 1u);
}

TEST_F(EpochWatchTest, BelievesAfterBothWordsAndForALease) {
  Begin();
  LetIn();
  const int64_t earlier_ns = time_.last_ns();
  FreshRound();
  Show(0, EpochWord::Open(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
  EXPECT_FALSE(watch_.TakeProven());
  Show(1, EpochWord::Open(kEpoch));
  EXPECT_TRUE(watch_.TakeProven());
  EXPECT_FALSE(watch_.TakeProven());
  EXPECT_EQ(JudgeNow(), Verdict::kBelieved);
  EXPECT_EQ(watch_.Judge(earlier_ns, 0), Verdict::kBelieved) << "what was complete before is believed too";
  clock_.AdvanceMs(kLeaseMs);
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
}

// Slow READs count too: no new round begins while one in flight can still succeed.
TEST_F(EpochWatchTest, ARoundIsGivenTheTimeOfALease) {
  Begin();
  LetIn();
  FreshRound();
  Show(0, EpochWord::Open(kEpoch));
  for (int64_t ms = 0; ms < kLeaseMs - 10; ++ms) Pass(1);
  EXPECT_FALSE(peers_[0].reads.empty()) << "it is looked at meanwhile";
  Show(0, EpochWord::Open(kEpoch));
  Show(1, EpochWord::Open(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kBelieved);
}

TEST_F(EpochWatchTest, TheBackupsWordNamesTheSuccessor) {
  Begin();
  LetIn();
  FreshRound();
  Show(0, EpochWord::Open(kEpoch));
  Show(1, EpochWord::Shut(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
  EXPECT_EQ(watch_.successor(), nullptr) << "its proposal may fail";
  Pass(2);
  Show(1, EpochWord::Open(kEpoch + 1));  // the primary stands still, and does not reply
  ASSERT_NE(watch_.successor(), nullptr);
  EXPECT_EQ(*watch_.successor(), "fake://b");
  EXPECT_NE(JudgeNow(), Verdict::kBelieved);
}

// Words that were READ before one was SHUT prove nothing about the time after it was OPEN again.
TEST_F(EpochWatchTest, AfterAProposalThatFailedItBeginsAnew) {
  Begin();
  LetIn();
  FreshRound();
  ShowBoth();
  ASSERT_EQ(JudgeNow(), Verdict::kBelieved);
  Pass(kLeaseMs / 3 + 1);
  Show(1, EpochWord::Shut(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
  Show(0, EpochWord::Open(kEpoch));
  Pass(3);
  Show(1, EpochWord::Open(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
  Show(0, EpochWord::Open(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kBelieved);
}

TEST_F(EpochWatchTest, AShutPrimaryIsAskedAtOnceAndASilentBackupAfterALease) {
  Begin();
  LetIn();
  FreshRound();
  Show(0, EpochWord::Shut(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kAsk);
  Pass(3);
  Show(0, EpochWord::Open(kEpoch));
  Show(1, EpochWord::Open(kEpoch));
  Pass(3);
  ShowBoth();
  EXPECT_EQ(JudgeNow(), Verdict::kBelieved);
  FreshRound();
  Show(0, EpochWord::Open(kEpoch));
  EXPECT_EQ(JudgeNow(), Verdict::kNotYet);
  clock_.AdvanceMs(kLeaseMs + 1);
  EXPECT_EQ(JudgeNow(), Verdict::kAsk) << "the backup does not answer";
}

// With strict fencing, data waits for words that were READ afterwards, even if the lease was replaced meanwhile.
TEST_F(EpochWatchTest, StrictlyARoundOfItsOwnIsWaitedFor) {
  options_.fencing = Fencing::kStrict;
  Begin();
  LetIn();
  FreshRound();
  const uint64_t under_way = watch_.begun();
  ShowBoth();
  EXPECT_EQ(watch_.Judge(time_.NowNs(), under_way), Verdict::kNotYet) << "it was begun before";
  watch_.Poll(/*waiting=*/true);
  EXPECT_EQ(watch_.begun(), under_way + 1) << "at once, as it is wanted";
  ShowBoth();
  EXPECT_EQ(watch_.Judge(time_.NowNs(), under_way), Verdict::kBelieved);
  const uint64_t before = watch_.begun();
  EXPECT_EQ(watch_.Judge(time_.NowNs(), before), Verdict::kNotYet);
  watch_.Poll(/*waiting=*/true);
  Show(1, EpochWord::Shut(kEpoch));
  Show(0, EpochWord::Open(kEpoch));
  Pass(3);
  ShowBoth();
  EXPECT_EQ(watch_.Judge(time_.NowNs(), before), Verdict::kBelieved);
  clock_.AdvanceMs(100 * kLeaseMs);
  EXPECT_EQ(watch_.Judge(time_.NowNs(), before), Verdict::kBelieved) << "no clock counts";
}

// Attempts become less and less frequent.
TEST_F(EpochWatchTest, ABackupThatIsGoneIsDialledAgain) {
  Begin();
  LetIn();
  peers_[1].Break();
  HandleAll();
  reachable_ = false;
  for (int i = 0; i < 100; ++i) Pass(1);
  EXPECT_GT(peers_.size(), 2u);
  for (int i = 0; i < 20; ++i) {
    peers_.back().Break();
    HandleAll();
    Pass(100);
  }
  EXPECT_LT(peers_.size(), 15u);
  EXPECT_NE(JudgeNow(), Verdict::kBelieved);
}

// If its reply was lost, nothing is believed until the next attempt.
TEST_F(EpochWatchTest, AnAttemptDoesNotLastAsLongAsAnOperation) {
  options_.timeout_ms = 60'000;
  reachable_ = false;
  Begin();
  for (int i = 0; i < 20; ++i) {
    EXPECT_GE(endpoint_.last_timeout_ms, 250);
    EXPECT_LE(endpoint_.last_timeout_ms, 1'250);
    peers_.back().Break();
    HandleAll();
    Pass(1'000);
  }
  options_.timeout_ms = 100;
  peers_.back().Break();
  HandleAll();
  Pass(1'000);
  EXPECT_EQ(endpoint_.last_timeout_ms, 100);
}

class LocalWatchTest : public EpochWatchTest {
 protected:
  LocalWatchTest() : EpochWatchTest(/*local=*/true) {}
};

TEST_F(LocalWatchTest, BelievesWhileAllWordsAreOpen) {
  Begin();
  EXPECT_FALSE(watch_.OpenNow()) << "the backup's is not known yet";
  LetIn();
  EXPECT_TRUE(watch_.OpenNow());
  EXPECT_EQ(JudgeNow(), Verdict::kBelieved);
  for (const auto& word : words_) {
    for (const EpochWord other : {EpochWord::Shut(kEpoch), EpochWord::Open(kEpoch + 1)}) {
      kv::StoreWord(word.get(), other.bits());
      EXPECT_FALSE(watch_.OpenNow());
      EXPECT_NE(JudgeNow(), Verdict::kBelieved);
      kv::StoreWord(word.get(), EpochWord::Open(kEpoch).bits());
      EXPECT_TRUE(watch_.OpenNow());
    }
  }
  EXPECT_EQ(*watch_.successor(), "fake://b");
}

TEST_F(LocalWatchTest, TheWordOfWhoDoesNotLiveIsNotBelieved) {
  Begin();
  LetIn();
  for (bool& alive : alive_) {
    alive = false;
    EXPECT_FALSE(watch_.OpenNow());
    alive = true;
    EXPECT_TRUE(watch_.OpenNow());
  }
  // Expect: its word is not loaded either, since it may be unmapped before the event is handled.
  peers_[1].connected = false;
  peers_[1].Break();
  words_[1].reset();
  EXPECT_FALSE(watch_.OpenNow());
  HandleAll();
  EXPECT_FALSE(watch_.OpenNow());
}

// A member's memory cannot be mapped, although it is on this host and alive: it is neither believed nor a successor.
TEST_F(LocalWatchTest, AMemberWhoseWordIsNotMappedIsNotBelieved) {
  for (size_t member = 0; member < words_.size(); ++member) {
    SCOPED_TRACE(member);
    const std::unique_ptr<uint64_t> word = std::move(words_[member]);
    primary_.reset();
    watch_.Lost();
    peers_.clear();
    primary_ = Connect(&endpoint_);
    Begin();
    LetIn();
    EXPECT_FALSE(watch_.OpenNow());
    EXPECT_NE(JudgeNow(), Verdict::kBelieved);
    EXPECT_EQ(watch_.successor(), nullptr);
    words_[member] = std::make_unique<uint64_t>(EpochWord::Open(kEpoch).bits());
  }
}

}  // namespace
}  // namespace farlook::client
