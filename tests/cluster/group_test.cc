// A group of two kv_server processes: filled while clients write, handed over, killed, stopped. What was acknowledged
// is there, once, and nobody reads what is out of date.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "cluster/etcd_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kv/handshake.h"
#include "rdma/transport.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

// An emulated adapter is slow.
const int kItems = std::getenv("FARLOOK_RDMA_ADDRESS") == nullptr ? 20'000 : 2'000;
constexpr int64_t kTimeoutMs = 60'000;

// Also over tcp://, where gets go by messages unless somebody wants to see what READs do.
ClientOptions Reading(Fencing fencing = Fencing::kLease) {
  ClientOptions options;
  options.fencing = fencing;
  options.timeout_ms = kTimeoutMs;
  options.lookups = Lookups::kReads;
  return options;
}

// Counts in a key's value, each step only if the version is that of the step before: a write that is lost, or done
// twice, breaks the chain.
class Chain {
 public:
  // `fencing`: the reader's.
  Chain(const std::string& addresses, std::string key, Fencing fencing = Fencing::kLease)
      : key_(std::move(key)),
        writer_(MustConnect(addresses, Reading())),
        reader_(MustConnect(addresses, Reading(fencing))),
        write_thread_([this] { Write(); }),
        read_thread_([this] { Read(); }) {}
  ~Chain() { Stop(); }

  void Stop() {
    over_ = true;
    if (write_thread_.joinable()) write_thread_.join();
    if (read_thread_.joinable()) read_thread_.join();
  }
  uint64_t acknowledged() const { return acknowledged_; }
  // Waits for so many more.
  void Advance(uint64_t steps) {
    const uint64_t until = acknowledged_ + steps;
    while (acknowledged_ < until && failures_ == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  uint64_t Last() {
    auto value = writer_->Get(key_);
    uint64_t number = 0;
    EXPECT_TRUE(value.ok() && absl::SimpleAtoi(value->data, &number)) << value.status();
    return number;
  }
  int failures() const { return failures_; }
  uint64_t reads() const { return reads_; }

 private:
  void Write() {
    uint64_t version = 0;
    for (uint64_t number = 1; !over_ && failures_ == 0; ++number) {
      PutOptions options;
      options.condition = number == 1 ? Condition::IfAbsent() : Condition::IfVersion(version);
      auto put = writer_->Put(key_, absl::StrCat(number), options);
      if (!put.ok()) {
        ADD_FAILURE() << key_ << " " << number << ": " << put.status();
        ++failures_;
        return;
      }
      version = *put;
      acknowledged_ = number;
    }
  }
  void Read() {
    while (!over_ && failures_ == 0) {
      const uint64_t least = acknowledged_;
      if (least == 0) continue;
      auto value = reader_->Get(key_);
      uint64_t number = 0;
      if (!value.ok() || !absl::SimpleAtoi(value->data, &number) || number < least) {
        ADD_FAILURE() << key_ << " reads " << number << " after " << least << " was acknowledged: " << value.status();
        ++failures_;
        return;
      }
      ++reads_;
    }
  }

  const std::string key_;
  const std::unique_ptr<Client> writer_, reader_;
  std::atomic<bool> over_{false};
  std::atomic<uint64_t> acknowledged_{0}, reads_{0};
  std::atomic<int> failures_{0};
  std::thread write_thread_, read_thread_;
};

// Adds one to a counter, again and again, and moves another one on by CompareSwap: what is lost, or done twice, shows.
class Tally {
 public:
  Tally(const std::string& addresses, std::string key)
      : added_(key + ".added"),
        swapped_(key + ".swapped"),
        client_(MustConnect(addresses, Reading())),
        thread_([this] { Count(); }) {}
  ~Tally() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void ExpectExact() {
    Stop();
    EXPECT_GT(steps_, 0);
    EXPECT_EQ(client_->ReadCounter(added_).value_or(-1), steps_);
    EXPECT_EQ(client_->ReadCounter(swapped_).value_or(-1), steps_);
    EXPECT_EQ(client_->stats().atomics, 0u) << "in a group nobody changes a counter in place";
    EXPECT_TRUE(client_->DeleteCounter(added_).ok());
    EXPECT_EQ(client_->ReadCounter(added_).status().code(), absl::StatusCode::kNotFound);
  }

 private:
  void Count() {
    EXPECT_TRUE(client_->CreateCounter(added_).ok());
    EXPECT_TRUE(client_->CreateCounter(swapped_).ok());
    while (!over_) {
      const auto added = client_->FetchAdd(added_, 1);
      const auto swapped = client_->CompareSwap(swapped_, steps_, steps_ + 1);
      if (added.value_or(-1) != steps_ || swapped.value_or(-1) != steps_) {
        ADD_FAILURE() << "after " << steps_ << " steps: " << added.status() << " " << added.value_or(-1) << ", "
                      << swapped.status() << " " << swapped.value_or(-1);
        return;
      }
      ++steps_;
    }
  }

  const std::string added_, swapped_;
  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false};
  int64_t steps_ = 0;
  std::thread thread_;
};

// Puts items that live for a while, and looks at them: none ends early, none is there long after its time, and none
// that was not found is found again.
class Mortals {
 public:
  explicit Mortals(const std::string& addresses)
      : client_(MustConnect(addresses, Reading())), thread_([this] { Live(); }) {}
  ~Mortals() { Stop(); }

  void Stop() {
    over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  void Expect() {
    Stop();
    EXPECT_GT(ended_.size(), 0u);
    for (const std::string& key : ended_) EXPECT_EQ(client_->Get(key).status().code(), absl::StatusCode::kNotFound);
    for (int i = 0; i < touched_; ++i) {
      const auto ttl_ms = client_->Ttl(absl::StrCat("touched", i));
      ASSERT_TRUE(ttl_ms.ok()) << ttl_ms.status();
      EXPECT_GT(*ttl_ms, 3'000'000);
      EXPECT_LE(*ttl_ms, 3'600'000 + kLate.count()) << "a record's way may add to it";
      EXPECT_EQ(client_->Ttl(absl::StrCat("persisted", i)).value_or(-1), kForever);
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kTtl{200};
  // That a backup's way may add, and that of each who is filled.
  static constexpr std::chrono::milliseconds kLate{1000};

  void Live() {
    for (int i = 0; !over_; ++i) {
      const std::string key = absl::StrCat("mortal", i);
      PutOptions options;
      options.ttl_ms = kTtl.count();
      const auto asked = Clock::now();
      if (!Good(client_->Put(key, "v", options).status())) return;
      const auto done = Clock::now();
      options.ttl_ms = 300'000;  // longer than a failover on a busy machine
      if (!Good(client_->Put(absl::StrCat("touched", i), "v", options).status())) return;
      if (!Good(client_->Touch(absl::StrCat("touched", i), 3'600'000))) return;
      if (!Good(client_->Put(absl::StrCat("persisted", i), "v", options).status())) return;
      if (!Good(client_->Persist(absl::StrCat("persisted", i)))) return;
      touched_ = i + 1;
      for (bool is_there = true; is_there && !over_;) {
        const auto began = Clock::now();
        const auto value = client_->Get(key);
        is_there = value.ok();
        if (is_there && began > done + kTtl + kLate) return Bad("is there after its time");
        if (!is_there && !absl::IsNotFound(value.status())) return Bad(value.status().ToString());
        if (!is_there && Clock::now() < asked + kTtl) return Bad("ended early");
        if (!is_there) ended_.push_back(key);
      }
      if (!ended_.empty() && client_->Get(ended_[static_cast<size_t>(i) * 7 % ended_.size()]).ok()) {
        return Bad("came back");
      }
    }
  }
  bool Good(const absl::Status& status) {
    if (!status.ok()) Bad(status.ToString());
    return status.ok();
  }
  static void Bad(absl::string_view what) { ADD_FAILURE() << "an item with a ttl: " << what; }

  const std::unique_ptr<Client> client_;
  std::atomic<bool> over_{false};
  std::vector<std::string> ended_;
  int touched_ = 0;
  std::thread thread_;
};

// A connection that the test speaks for.
class Visitor {
 public:
  Visitor(const std::string& address, uint32_t flags) : endpoint_(*rdma::CreateEndpoint(address)) {
    kv::ConnectData data;
    data.flags = flags;
    connection_ = *endpoint_->Connect(address, data.Encode(), kTimeoutMs);
  }
  // What happens next.
  rdma::Opcode Await() {
    for (;;) {
      rdma::Completion completion;
      if (endpoint_->Poll(absl::MakeSpan(&completion, 1)) > 0) return completion.opcode;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void Say(const std::string& message) {
    EXPECT_TRUE(connection_->PostSend(message, {}));
    connection_->Ring();
  }

 private:
  const std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
};

// Asks a primary to be filled, and accepts nothing.
class StillJoiner : private Visitor {
 public:
  StillJoiner(const std::string& primary, uint64_t incarnation) : Visitor(primary, 0) {
    EXPECT_EQ(Await(), rdma::Opcode::kConnected);
    Say(kv::Hello().Encode());
    EXPECT_EQ(Await(), rdma::Opcode::kReceive);  // Welcome
    kv::Follow follow;
    follow.incarnation = incarnation;
    follow.epoch = 1;
    follow.address = absl::StrCat("shm:///", incarnation);
    Say(follow.Encode());
  }
};

class GroupTest : public testing::Test {
 protected:
  // On a busy machine nobody is silent for so long.
  explicit GroupTest(const std::string& suspicion = "10s", const std::string& group = "", int replicas = 2,
                     int min_insync = 1)
      : suspicion_(suspicion), replicas_(replicas), min_insync_(min_insync), group_(group) {
    char folder[] = "/tmp/farlook-group-XXXXXX";
    folder_ = mkdtemp(folder);
    if (group_.empty()) group_ = absl::StrCat("file://", folder_, "/groups/g");
    a_ = Start();
    addresses_ = a_->address();
    client_ = MustConnect(addresses_, Reading());
    if (min_insync == 1) Load();
  }
  void Load() {
    for (int i = 0; i < kItems; ++i) {
      ASSERT_TRUE(client_->Put(absl::StrCat("item", i), absl::StrCat("value", i)).ok());
    }
  }
  ~GroupTest() override {
    a_.reset();
    b_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::unique_ptr<ServerProcess> Start() {
    return std::make_unique<ServerProcess>(std::vector<std::string>{
        "--memory=64MiB", "--workers=2", absl::StrCat("--suspicion=", suspicion_), absl::StrCat("--group=", group_),
        absl::StrCat("--replicas=", replicas_), absl::StrCat("--min_insync=", min_insync_)});
  }
  void StartBackup() {
    b_ = Start();
    addresses_ = absl::StrCat(a_->address(), ",", b_->address());
    client_ = MustConnect(addresses_, Reading());  // which knows both
    AwaitBackup();
  }
  std::string Status() {
    auto status = GroupStatus(client_.get());
    EXPECT_TRUE(status.ok()) << status.status();
    return status.ok() ? *status : "";
  }
  // Until one is in sync, and follows.
  void AwaitBackup() {
    for (std::string status = Status(); !HasFailure(); status = Status()) {
      const bool in_sync = status.find("\nbackup ") != std::string::npos;
      if (in_sync && status.find(" disconnected") == std::string::npos) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  void AwaitStatus(absl::string_view part, bool is_there) {
    while ((Status().find(std::string(part)) != std::string::npos) != is_there && !HasFailure()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  bool IsPrimary(const ServerProcess& server) {
    return Status().find(absl::StrCat("\nprimary ", server.address(), " ")) != std::string::npos;
  }
  void ExpectAllItems() {
    for (int i = 0; i < kItems; ++i) {
      auto value = client_->Get(absl::StrCat("item", i));
      ASSERT_TRUE(value.ok()) << i << ": " << value.status();
      ASSERT_EQ(value->data, absl::StrCat("value", i));
    }
  }
  void ExpectExact(Chain* chain) {
    chain->Stop();
    EXPECT_EQ(chain->failures(), 0);
    EXPECT_EQ(chain->Last(), chain->acknowledged());
    EXPECT_GT(chain->reads(), 0u);
  }

  const std::string suspicion_;
  const int replicas_, min_insync_;
  std::string group_, folder_;
  std::unique_ptr<ServerProcess> a_, b_;
  std::string addresses_;
  std::unique_ptr<Client> client_;
};

class StoppedGroupTest : public GroupTest {
 protected:
  StoppedGroupTest() : GroupTest("1s") {}
};

TEST_F(GroupTest, IsHandedOverWhileClientsWrite) {
  Chain early(addresses_, "early");
  early.Advance(200);
  StartBackup();  // it is filled meanwhile
  Chain chain(addresses_, "chain");
  Tally tally(addresses_, "tally");
  Mortals mortals(addresses_);
  chain.Advance(200);
  for (int i = 0; i < 4; ++i) {
    const absl::Status status = HandOver(client_.get());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(IsPrimary(*b_), i % 2 == 0);
    chain.Advance(200);
    early.Advance(200);
    AwaitBackup();  // the former primary began anew
  }
  ExpectExact(&chain);
  ExpectExact(&early);
  tally.ExpectExact();
  mortals.Expect();
  ExpectAllItems();
}

TEST_F(GroupTest, WithoutABackupInSyncItIsNotHandedOver) {
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(client_->Put("key", "value").ok());
  ExpectAllItems();
}

// The connection is there, and nobody answers over it: it is found out, and the only copy stays where it is.
TEST_F(GroupTest, ToABackupThatStandsStillItIsNotHandedOver) {
  StartBackup();
  b_->Signal(SIGSTOP);
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(client_->Put("key", "value").ok());
  EXPECT_TRUE(IsPrimary(*a_));
  b_->Signal(SIGCONT);
  AwaitBackup();  // it began anew
  EXPECT_TRUE(HandOver(client_.get()).ok());
  EXPECT_TRUE(IsPrimary(*b_));
  ExpectAllItems();
}

// Neither one that is filled, and accepts nothing, nor one that waits for its turn and dies, stops writes for good.
TEST_F(GroupTest, JoinersThatStandStillOrDieAreGivenUp) {
  const StillJoiner filled(addresses_, 71);
  AwaitStatus("joining shm:///71 ", true);
  auto waiting = std::make_unique<StillJoiner>(addresses_, 72);
  AwaitStatus("joining shm:///72 ", true);
  waiting.reset();
  AwaitStatus(" shm:///72 ", false);
  AwaitStatus(" shm:///71 ", false);
  EXPECT_TRUE(client_->Put("key", "value").ok());
  StartBackup();
  ExpectAllItems();
}

class ThreeServersTest : public GroupTest {
 protected:
  explicit ThreeServersTest(const std::string& suspicion = "10s", int replicas = 3, int min_insync = 1)
      : GroupTest(suspicion, "", replicas, min_insync) {
    b_ = Start();
    c_ = Start();
    addresses_ = absl::StrCat(a_->address(), ",", b_->address(), ",", c_->address());
    client_ = MustConnect(addresses_, Reading());
    AwaitBackups(replicas - 1);
    if (min_insync > 1) Load();
  }
  ~ThreeServersTest() override { c_.reset(); }

  void AwaitBackups(size_t count) {
    while (!HasFailure() && CountBackups() != count) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  size_t CountBackups() {
    size_t count = 0;
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      count += absl::StartsWith(line, "backup ") && !absl::StrContains(line, " disconnected");
    }
    return count;
  }
  ServerProcess& Primary() { return IsPrimary(*a_) ? *a_ : IsPrimary(*b_) ? *b_ : *c_; }
  // What the group's primary says which process is at this address.
  std::string IncarnationAt(const std::string& address) {
    for (const absl::string_view line : absl::StrSplit(Status(), '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      if (words.size() > 2 && words[1] == address) return words[2];
    }
    return "";
  }
  std::map<std::string, std::string> Incarnations() {
    std::map<std::string, std::string> all;
    for (const auto* server : {a_.get(), b_.get(), c_.get()}) all[server->address()] = IncarnationAt(server->address());
    return all;
  }
  // None of them has begun anew.
  void ExpectOthersAre(const std::map<std::string, std::string>& before, const ServerProcess& primary) {
    for (const auto& [address, incarnation] : before) {
      if (address == primary.address()) continue;
      EXPECT_EQ(IncarnationAt(address), incarnation) << address << " began anew";
    }
  }

  std::unique_ptr<ServerProcess> c_;
};

class ThreeServersOneStopsTest : public ThreeServersTest {
 protected:
  ThreeServersOneStopsTest() : ThreeServersTest("1s") {}
};

// The other backup goes on from where it is, whoever of the two had accepted more.
TEST_F(ThreeServersTest, WhenThePrimaryIsKilledTheOtherBackupStaysOne) {
  Chain chain(addresses_, "chain"), other(addresses_, "other");
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = Primary();
    const auto before = Incarnations();
    primary.Signal(SIGKILL);
    primary.Wait();
    chain.Advance(100);
    other.Advance(100);
    ExpectOthersAre(before, primary);
    primary.Restart();
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  ExpectAllItems();
}

TEST_F(ThreeServersOneStopsTest, WhenThePrimaryIsStoppedOrHandsOverTheOtherBackupStaysOne) {
  Chain chain(addresses_, "chain"), other(addresses_, "other", Fencing::kStrict);
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = Primary();
    const auto before = Incarnations();
    if (i % 2 == 0) {
      primary.Signal(SIGSTOP);
    } else {
      EXPECT_TRUE(HandOver(client_.get()).ok());
    }
    chain.Advance(100);
    other.Advance(100);
    ExpectOthersAre(before, primary);
    primary.Signal(SIGCONT);
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  ExpectAllItems();
}

// Two of three are lost at once: the promoter goes on without the one that does not answer.
TEST_F(ThreeServersOneStopsTest, ThePrimaryAndABackupAreLostAtOnce) {
  Chain chain(addresses_, "chain");
  for (const int signal : {SIGKILL, SIGSTOP}) {
    chain.Advance(100);
    ServerProcess& primary = Primary();
    ServerProcess& backup = &primary == a_.get() ? *b_ : *a_;
    backup.Signal(SIGSTOP);
    primary.Signal(signal);
    if (signal == SIGKILL) primary.Wait();
    chain.Advance(100);
    backup.Signal(SIGCONT);
    if (signal == SIGKILL) {
      primary.Restart();
    } else {
      primary.Signal(SIGCONT);
    }
    AwaitBackups(2);
  }
  ExpectExact(&chain);
  ExpectAllItems();
}

// One is filled while the others come and go.
TEST_F(ThreeServersTest, OneIsFilledWhileOthersComeAndGo) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  b_->Restart();
  chain.Advance(100);
  EXPECT_TRUE(HandOver(client_.get()).ok());
  AwaitBackups(2);
  ExpectExact(&chain);
  ExpectAllItems();
}

class SpareTest : public ThreeServersTest {
 protected:
  SpareTest() : ThreeServersTest("10s", /*replicas=*/2) {}
  // That is no member, and waits.
  ServerProcess& Spare() {
    AwaitStatus("\nspare ", true);
    return Status().find(absl::StrCat("\nspare ", b_->address(), " ")) != std::string::npos ? *b_ : *c_;
  }
};

// It costs nothing until it is needed: it hears no record. Then it is filled, whoever is lost.
TEST_F(SpareTest, ASpareTakesThePlaceOfWhoeverIsLost) {
  ServerProcess& spare = Spare();
  ServerProcess& backup = &spare == b_.get() ? *c_ : *b_;
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  EXPECT_NE(Status().find("\nmembers 2 of 2, at least 1\n"), std::string::npos) << Status();
  EXPECT_EQ(CountBackups(), 1u);
  backup.Signal(SIGKILL);
  backup.Wait();
  AwaitStatus(absl::StrCat("\nbackup ", spare.address(), " "), true);
  AwaitBackups(1);
  chain.Advance(100);
  // Expect: who comes back is the spare now, and is taken in when the primary is lost.
  backup.Restart();
  EXPECT_EQ(&Spare(), &backup);
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(spare));
  AwaitStatus(absl::StrCat("\nbackup ", backup.address(), " "), true);
  AwaitBackups(1);
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

// A spare that stands still, or goes, disturbs nobody.
TEST_F(SpareTest, ASpareThatIsOfNoUseIsLeftOut) {
  ServerProcess& spare = Spare();
  ServerProcess& backup = &spare == b_.get() ? *c_ : *b_;
  Chain chain(addresses_, "chain");
  spare.Signal(SIGSTOP);
  chain.Advance(100);
  backup.Signal(SIGKILL);
  backup.Wait();
  chain.Advance(100);
  backup.Restart();
  AwaitStatus(absl::StrCat("\nbackup ", backup.address(), " "), true);
  chain.Advance(100);
  spare.Signal(SIGCONT);
  Spare();
  spare.Signal(SIGKILL);
  spare.Wait();
  AwaitStatus("\nspare ", false);
  ExpectExact(&chain);
  ExpectAllItems();
}

// From two members and a spare to three members, to one, and to two again, while clients write.
TEST_F(SpareTest, AnOperatorHasMoreMembersOrFewer) {
  Spare();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  const auto refused = [this](uint32_t replicas, uint32_t min_insync) {
    const absl::Status status = ResizeGroup(client_.get(), replicas, min_insync);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused(2, 3), testing::HasSubstr("of 2 replicas not 3 can be in sync"));
  EXPECT_THAT(refused(3, 3), testing::HasSubstr("2 in sync at present"));
  EXPECT_THAT(refused(17, 1), testing::HasSubstr("from 1 to 16 replicas"));
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 2 of 2, at least 1\n"));
  ASSERT_TRUE(ResizeGroup(client_.get(), 3, 2).ok());
  AwaitBackups(2);
  EXPECT_THAT(Status(), testing::HasSubstr("\nmembers 3 of 3, at least 2\n"));
  chain.Advance(100);
  EXPECT_THAT(refused(1, 0), testing::HasSubstr("give --min_insync as well"));
  // Expect: the two are spares, which the primary fills when it is to have them again, and they are no alarm.
  ASSERT_TRUE(ResizeGroup(client_.get(), 1, 1).ok());
  AwaitStatus("\nmembers 1 of 1, at least 1\n", true);
  AwaitStatus("\nbackup ", false);
  chain.Advance(100);
  AwaitStatus(absl::StrCat("\nspare ", b_->address(), " "), true);
  AwaitStatus(absl::StrCat("\nspare ", c_->address(), " "), true);
  EXPECT_THAT(client_->ServerStats().value_or(""), testing::HasSubstr("\ngroup_removed_backups 0\n"));
  ASSERT_TRUE(ResizeGroup(client_.get(), 2, 0).ok());
  AwaitBackups(1);
  chain.Advance(100);
  // Expect: what it was resized to outlives the primary.
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  AwaitStatus("\nmembers 2 of 2, at least 1\n", true);
  ExpectExact(&chain);
  ExpectAllItems();
}

class LeastInSyncTest : public ThreeServersTest {
 protected:
  LeastInSyncTest() : ThreeServersTest("1s", 3, /*min_insync=*/2) {}

  absl::Status PutWithin(int64_t timeout_ms, const std::string& key) {
    PutOptions options;
    options.timeout_ms = timeout_ms;
    return client_->Put(key, "value", options).status();
  }
};

// Gets go on; writes, also those that were under way, wait within their deadlines until there are two again.
TEST_F(LeastInSyncTest, WithFewerMembersNoWriteIsAcknowledged) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  c_->Signal(SIGKILL);
  c_->Wait();
  // Expect: nor is one that begins when nobody is there any more, and is committed when the last backup is removed.
  EXPECT_TRUE(absl::IsDeadlineExceeded(PutWithin(1'500, "key")));
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
  const uint64_t acknowledged = chain.acknowledged();
  EXPECT_TRUE(absl::IsDeadlineExceeded(PutWithin(500, "key")));
  ExpectAllItems();
  EXPECT_EQ(chain.acknowledged(), acknowledged);
  b_->Restart();
  chain.Advance(100);
  EXPECT_TRUE(PutWithin(kTimeoutMs, "key").ok());
  c_->Restart();
  AwaitBackups(2);
  ExpectExact(&chain);
  ExpectAllItems();
}

// Nor does one say so that has become primary alone, of a write that the former primary's members had all.
TEST_F(LeastInSyncTest, AWriteThatIsAskedForAgainIsNotAcknowledgedEither) {
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  c_->Signal(SIGKILL);
  c_->Wait();
  AwaitBackups(1);
  chain.Advance(100);
  a_->Signal(SIGKILL);
  a_->Wait();
  AwaitStatus("\nmembers 1 of 3, at least 2\n", true);
  EXPECT_TRUE(IsPrimary(*b_));
  const uint64_t acknowledged = chain.acknowledged();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(chain.acknowledged(), acknowledged);
  c_->Restart();
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

// An empty table does not pass for the one that is lost.
TEST_F(GroupTest, WhenAllAreGoneThatIsSaidUntilAnOperatorBeginsAnew) {
  StartBackup();
  const std::string before = Status();
  EXPECT_NE(before.find("\nepoch 2\n"), std::string::npos) << before;
  for (ServerProcess* const server : {b_.get(), a_.get()}) {
    server->Signal(SIGKILL);
    server->Wait();
  }
  a_->Restart();
  const auto lost = Client::Connect(a_->address(), Reading());
  ASSERT_TRUE(absl::IsDataLoss(lost.status())) << lost.status();
  const absl::string_view advice = lost.status().message();
  const size_t at = advice.find("--begin_group_anew=");
  ASSERT_NE(at, std::string::npos) << advice;
  const std::string flag(advice.substr(at, advice.find_last_of("0123456789") + 1 - at));
  const absl::Status get = client_->Get("item0").status();
  EXPECT_TRUE(absl::IsDataLoss(get)) << get << ": who knew it before is told the same";
  // Expect: neither one without a word of the operator's, nor one with a word on an earlier loss, serves.
  b_->Restart({"--begin_group_anew=1"});
  EXPECT_TRUE(absl::IsDataLoss(Client::Connect(b_->address(), Reading()).status()));
  b_->Signal(SIGTERM);
  b_->Wait();
  b_->Restart({flag});
  // The other one says what it knew until it hears of this.
  while (!Client::Connect(a_->address(), Reading()).ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  client_ = MustConnect(addresses_, Reading());
  EXPECT_TRUE(absl::IsNotFound(client_->Get("item0").status()));
  EXPECT_TRUE(client_->Put("item0", "value").ok());
  AwaitBackup();  // the other one
  // Expect: the flag stays, and says nothing of the next loss.
  a_->Signal(SIGKILL);
  a_->Wait();
  b_->Signal(SIGKILL);
  b_->Wait();
  b_->Restart({flag});
  EXPECT_TRUE(absl::IsDataLoss(Client::Connect(b_->address(), Reading()).status()));
}

TEST_F(GroupTest, APrimaryThatIsKilledLosesNothing) {
  StartBackup();
  Chain chain(addresses_, "chain"), other(addresses_, "other");
  Tally tally(addresses_, "tally");
  Mortals mortals(addresses_);
  for (int i = 0; i < 4; ++i) {
    chain.Advance(200);
    other.Advance(200);
    ServerProcess& primary = i % 2 == 0 ? *a_ : *b_;
    ASSERT_TRUE(IsPrimary(primary));
    primary.Signal(SIGKILL);
    primary.Wait();
    chain.Advance(200);
    other.Advance(200);
    primary.Restart();
    AwaitBackup();
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  tally.ExpectExact();
  mortals.Expect();
  ExpectAllItems();
}

// Its memory can still be READ, and its process goes on later: nobody believes it any more.
TEST_F(StoppedGroupTest, APrimaryThatIsStoppedIsReplaced) {
  StartBackup();
  Chain chain(addresses_, "chain"), other(addresses_, "other", Fencing::kStrict);
  Tally tally(addresses_, "tally");
  for (int i = 0; i < 4; ++i) {
    chain.Advance(100);
    other.Advance(100);
    ServerProcess& primary = i % 2 == 0 ? *a_ : *b_;
    ASSERT_TRUE(IsPrimary(primary));
    primary.Signal(SIGSTOP);
    chain.Advance(100);
    other.Advance(100);
    EXPECT_FALSE(IsPrimary(primary));
    primary.Signal(SIGCONT);
    chain.Advance(100);
    AwaitBackup();  // it began anew
  }
  ExpectExact(&chain);
  ExpectExact(&other);
  tally.ExpectExact();
  ExpectAllItems();
}

// Whoever does not know yet that there is another primary reads nothing that is out of date, however it reads: what it
// has not asked for since is what its own connection to the former one says.
TEST_F(StoppedGroupTest, WhoWasIdleMeanwhileBelievesNothingOfTheFormerPrimary) {
  StartBackup();
  ASSERT_TRUE(client_->Put("key", "old").ok());
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(MustConnect(addresses_, Reading()));
    ASSERT_EQ(idle.back()->Get("key")->data, "old");
    ASSERT_EQ(idle.back()->Get("absent").status().code(), absl::StatusCode::kNotFound);
  }
  a_->Signal(SIGSTOP);
  ASSERT_TRUE(client_->Put("key", "new").ok());
  ASSERT_TRUE(client_->Put("absent", "no more").ok());
  EXPECT_EQ(idle[0]->Get("key")->data, "new");
  EXPECT_EQ(idle[1]->Get("absent")->data, "no more");
  a_->Signal(SIGCONT);
  EXPECT_EQ(idle[2]->Get("key")->data, "new");
  EXPECT_EQ(idle[3]->Get("absent")->data, "no more");
}

// Also where there is a backup: its word is watched, and nobody's CPU is asked.
TEST_F(GroupTest, GetsAreReadsOfThePrimary) {
  StartBackup();
  ExpectAllItems();
  EXPECT_EQ(client_->Get("absent").status().code(), absl::StatusCode::kNotFound);
  const ClientStats stats = client_->stats();
  EXPECT_GT(stats.gets, static_cast<uint64_t>(kItems));
  EXPECT_LT(stats.server_gets, 100u)
      << "but for the first ones, and where this machine is so busy that words come late";
}

// Whoever has nothing to say answers when it is asked.
TEST_F(StoppedGroupTest, AnIdlePrimaryIsNotSuspected) {
  StartBackup();
  std::this_thread::sleep_for(std::chrono::seconds(2));
  EXPECT_TRUE(IsPrimary(*a_));
  EXPECT_NE(Status().find("\nepoch 2\n"), std::string::npos) << Status();
}

// What a backup lets in although it does not serve: who READs its epoch word, and asks for nothing.
TEST_F(GroupTest, ABackupLetsInWhoOnlyWatches) {
  StartBackup();
  Visitor watcher(b_->address(), kv::ConnectData::kWatch);
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kConnected);
  watcher.Say(kv::Hello().Encode());
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kReceive);
  watcher.Say("a request");
  EXPECT_EQ(watcher.Await(), rdma::Opcode::kDisconnected);
  Visitor client(b_->address(), 0);
  EXPECT_EQ(client.Await(), rdma::Opcode::kDisconnected);
  EXPECT_TRUE(client_->Put("key", "value").ok());
}

TEST_F(GroupTest, ABackupThatIsKilledIsRemovedAndFilledAnew) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  EXPECT_EQ(Status().find("\nbackup "), std::string::npos);
  EXPECT_EQ(ServerStat(client_.get(), "group_members"), 1);
  EXPECT_EQ(ServerStat(client_.get(), "group_replicas"), 2);
  EXPECT_EQ(ServerStat(client_.get(), "group_removed_backups"), 1);
  b_->Restart();
  AwaitBackup();
  a_->Signal(SIGKILL);
  a_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*b_));
  ExpectExact(&chain);
  ExpectAllItems();
}

// Constructed before the servers, and destroyed after them.
struct Etcd {
  cluster::EtcdProcesses etcd{1};
};

// Nobody but the members themselves says who has ended, as between hosts.
class EtcdGroupTest : private Etcd, public GroupTest {
 protected:
  EtcdGroupTest() : GroupTest("300ms", "etcd://" + etcd.endpoints()[0].substr(strlen("http://")) + "/g") {}

  using Etcd::etcd;
};

TEST_F(EtcdGroupTest, APrimaryThatIsStoppedKilledOrHandsOverIsReplaced) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  a_->Signal(SIGSTOP);
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*b_));
  a_->Signal(SIGCONT);
  AwaitBackup();
  b_->Signal(SIGKILL);
  b_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*a_));
  b_->Restart();
  AwaitBackup();
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(status.ok()) << status;
  chain.Advance(100);
  ExpectExact(&chain);
  ExpectAllItems();
}

// The directory is asked for nothing while a get or a write is under way. Until it is back nobody becomes primary.
TEST_F(EtcdGroupTest, WithoutEtcdTheGroupGoesOnAndAFailoverWaits) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  etcd.Signal(0, SIGSTOP);
  chain.Advance(1000);
  EXPECT_TRUE(IsPrimary(*a_));
  a_->Signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(2));
  const uint64_t acknowledged = chain.acknowledged();
  etcd.Signal(0, SIGCONT);
  chain.Advance(100);
  EXPECT_GE(chain.acknowledged(), acknowledged + 100);
  EXPECT_TRUE(IsPrimary(*b_));
  a_->Signal(SIGCONT);
  ExpectExact(&chain);
  ExpectAllItems();
}

// Nobody could take the primary's place.
TEST_F(EtcdGroupTest, WithoutEtcdItIsNotHandedOver) {
  StartBackup();
  ASSERT_TRUE(client_->Put("key", "both").ok());  // the backup is in the present epoch
  etcd.Signal(0, SIGSTOP);
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(client_->Put("key", "value").ok());
  EXPECT_TRUE(IsPrimary(*a_));
  etcd.Signal(0, SIGCONT);
  EXPECT_TRUE(HandOver(client_.get()).ok());
  EXPECT_TRUE(IsPrimary(*b_));
  ExpectAllItems();
}

// As docs/cluster.md has it done.
TEST_F(EtcdGroupTest, GoesOnWithAnEtcdThatIsRestored) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  etcd.Restore(etcd.Snapshot());
  chain.Advance(100);
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(IsPrimary(*b_));
  chain.Advance(100);
  AwaitBackup();
  ExpectExact(&chain);
  ExpectAllItems();
}

// It knows less than the members: it is not believed, and they go on as they are.
TEST_F(EtcdGroupTest, AnEtcdThatIsRestoredFromBeforeTheLastChangeIsNotBelieved) {
  const std::string before = etcd.Snapshot();
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  etcd.Restore(before);
  chain.Advance(100);
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*a_));
  ExpectExact(&chain);
  ExpectAllItems();
}

TEST_F(EtcdGroupTest, AServerThatStartsWaitsForEtcd) {
  etcd.Signal(0, SIGSTOP);
  std::thread later([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(2'500));  // a request ends after one second
    etcd.Signal(0, SIGCONT);
  });
  StartBackup();
  later.join();
  ExpectAllItems();
}

}  // namespace
}  // namespace farlook
