// Counters by message, and the notices by which a worker keeps clients from using the cells of deleted counters.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/wire/cell_notice.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

using kv::Code;
using kv::RequestType;

kv::Request MakeCounter(RequestType type, uint64_t number, absl::string_view key, int64_t operand = 0,
                        int64_t desired = 0) {
  kv::Request request = MakeRequest(type, number, key);
  request.operands = {operand, desired};
  return request;
}

kv::Request MakeDropped(uint64_t sequence) {
  kv::Request request;
  request.type = RequestType::kCellsDropped;
  request.operands.operand = static_cast<int64_t>(sequence);
  return request;
}

class WorkerCountersTest : public testing::Test {
 protected:
  TestReply Do(FakeCall* call, const kv::Request& request) { return *worker_.Ask(call, request); }
  TestReply Create(FakeCall* call, uint64_t number, absl::string_view key, int64_t initial = 0) {
    return Do(call, MakeCounter(RequestType::kCounterCreate, number, key, initial));
  }
  TestReply Add(FakeCall* call, uint64_t number, absl::string_view key, int64_t delta) {
    return Do(call, MakeCounter(RequestType::kCounterAdd, number, key, delta));
  }
  TestReply Delete(FakeCall* call, uint64_t number, absl::string_view key) {
    return Do(call, MakeCounter(RequestType::kCounterDelete, number, key));
  }
  // Returns the sequence of the client's next notice, or 0; its hashes must be those of `keys`.
  uint64_t TakeNotice(FakeCall* call, const std::vector<std::string>& keys) {
    if (call->peer.sent.empty()) return 0;
    const std::string message = call->peer.sent.front();
    call->peer.sent.pop_front();
    auto notice = kv::CellNotice::Decode(message);
    EXPECT_TRUE(notice.ok()) << notice.status();
    if (!notice.ok()) return 0;
    EXPECT_EQ(notice->size(), keys.size());
    for (size_t i = 0; i < std::min(notice->size(), keys.size()); ++i) {
      EXPECT_EQ(notice->hash(i), worker_.table().HashOf(keys[i])) << keys[i];
    }
    return notice->sequence();
  }
  void Send(FakeCall* call, const kv::Request& request) {
    call->peer.Send(Encode(request));
    worker_.PollAll();
  }
  uint64_t Quarantined() { return worker_.counters().stats().cells_quarantined; }

  TestWorker worker_;
};

TEST_F(WorkerCountersTest, TheKeyToTheCellsIsForWritersOfTheAtomicDomain) {
  FakeCall* writer = worker_.Connect();
  EXPECT_EQ(TestWorker::WelcomeOf(writer).counters.rkey, 12u);
  EXPECT_EQ(TestWorker::WelcomeOf(writer).counters.bytes, kTestCellBytes);
  EXPECT_EQ(TestWorker::WelcomeOf(writer).counters.address, 8192u);
  EXPECT_EQ(TestWorker::WelcomeOf(writer).atomics, kv::kMaxAtomicsInFlight / 100) << "the share of each of 100 clients";
  EXPECT_EQ(writer->rkeys, (std::vector<uint32_t>{11, 12}));
  FakeCall* reader = worker_.Connect(/*read_only=*/true);
  EXPECT_EQ(TestWorker::WelcomeOf(reader).counters.rkey, 0u);
  EXPECT_EQ(TestWorker::WelcomeOf(reader).atomics, 0u);
  EXPECT_EQ(reader->rkeys, (std::vector<uint32_t>{11}));
  FakeCall* elsewhere = worker_.Call(kv::Hello(), /*port=*/1);
  worker_.PollAll();
  EXPECT_EQ(TestWorker::WelcomeOf(elsewhere).counters.rkey, 0u);
  EXPECT_EQ(elsewhere->rkeys, (std::vector<uint32_t>{22}));
}

TEST_F(WorkerCountersTest, AWriterIsToldTheCellAndOthersUseMessages) {
  FakeCall* writer = worker_.Connect();
  FakeCall* elsewhere = worker_.Call(kv::Hello(), /*port=*/1);
  worker_.PollAll();
  const TestReply created = Create(writer, 1, "c", 5);
  EXPECT_EQ(created.code, Code::kOk);
  EXPECT_TRUE(kv::ValidCell(created.counter.cell, kTestCellBytes));
  const TestReply added = Add(elsewhere, 1, "c", 2);
  EXPECT_EQ(added.code, Code::kOk);
  EXPECT_EQ(added.counter.value, 5);
  EXPECT_TRUE(added.counter.cell == 0);
  EXPECT_EQ(worker_.counters().stats().holders, 1u);
}

TEST_F(WorkerCountersTest, AReadOnlyClientReadsAndChangesNothing) {
  FakeCall* writer = worker_.Connect();
  FakeCall* reader = worker_.Connect(/*read_only=*/true);
  Create(writer, 1, "c", 5);
  const TestReply read = Do(reader, MakeCounter(RequestType::kCounterRead, 1, "c"));
  EXPECT_EQ(read.code, Code::kOk);
  EXPECT_EQ(read.counter.value, 5);
  EXPECT_TRUE(read.counter.cell == 0);
  EXPECT_EQ(Add(reader, 2, "c", 1).code, Code::kReadOnly);
  EXPECT_EQ(Create(reader, 3, "d").code, Code::kReadOnly);
  EXPECT_EQ(Delete(reader, 4, "c").code, Code::kReadOnly);
  EXPECT_EQ(worker_.counters().stats().holders, 1u);
}

TEST_F(WorkerCountersTest, ValuesAndCountersAreToldApart) {
  FakeCall* call = worker_.Connect();
  Create(call, 1, "c");
  EXPECT_EQ(Do(call, MakePut(2, "c", "text")).code, Code::kWrongKind);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kGet, 3, "c")).code, Code::kWrongKind);
  EXPECT_EQ(Do(call, MakeRequest(RequestType::kDelete, 4, "c")).code, Code::kWrongKind);
  Do(call, MakePut(5, "v", "text"));
  EXPECT_EQ(Add(call, 6, "v", 1).code, Code::kWrongKind);
}

TEST_F(WorkerCountersTest, AnAddThatIsSentAgainIsAnsweredFromMemoryWithoutTheCell) {
  FakeCall* call = worker_.Connect();
  Create(call, 1, "c", 10);
  EXPECT_NE(Add(call, 2, "c", 5).counter.cell, 0u);
  call->peer.Break();
  FakeCall* resumed = worker_.Call(TestWorker::HelloAfter(call, 1));
  worker_.PollAll();
  const TestReply again = Add(resumed, 2, "c", 5);
  EXPECT_EQ(again.code, Code::kOk);
  EXPECT_EQ(again.counter.value, 10);
  EXPECT_TRUE(again.counter.cell == 0) << "this connection was not told, so it must not know";
  EXPECT_EQ(Add(resumed, 3, "c", 0).counter.value, 15);
}

TEST_F(WorkerCountersTest, WhoMayKnowADeletedCounterIsToldAndOthersAreNot) {
  FakeCall* deleter = worker_.Connect();
  FakeCall* knows = worker_.Connect();
  FakeCall* knows_not = worker_.Connect();
  Create(deleter, 1, "c");
  Add(knows, 1, "c", 1);
  Do(knows_not, MakePut(1, "v", "text"));
  Delete(deleter, 2, "c");
  EXPECT_EQ(Quarantined(), 1u);
  const uint64_t to_deleter = TakeNotice(deleter, {"c"}), to_knows = TakeNotice(knows, {"c"});
  ASSERT_NE(to_deleter, 0u);
  ASSERT_NE(to_knows, 0u);
  EXPECT_TRUE(knows_not->peer.sent.empty());
  Send(deleter, MakeDropped(to_deleter));
  EXPECT_EQ(Quarantined(), 1u);
  Send(knows, MakeDropped(to_knows));
  EXPECT_EQ(Quarantined(), 0u);
}

TEST_F(WorkerCountersTest, NoticesComeOneByOneAndBearWhatGathered) {
  FakeCall* call = worker_.Connect();
  for (uint64_t i = 0; i < 4; ++i) Create(call, i + 1, absl::StrCat("c", i));
  Delete(call, 5, "c0");
  const uint64_t first = TakeNotice(call, {"c0"});
  Delete(call, 6, "c1");
  Delete(call, 7, "c2");
  EXPECT_TRUE(call->peer.sent.empty()) << "one at a time";
  Send(call, MakeDropped(first));
  const uint64_t second = TakeNotice(call, {"c1", "c2"});
  Send(call, MakeDropped(second));
  EXPECT_EQ(Quarantined(), 0u);
}

TEST_F(WorkerCountersTest, AClientThatDoesNotAcknowledgeIsDisconnectedInTime) {
  FakeCall* call = worker_.Connect();
  Create(call, 1, "c");
  Delete(call, 2, "c");
  ASSERT_NE(TakeNotice(call, {"c"}), 0u);
  // Expect: a sleeping worker is due in time.
  worker_.worker().Poll();
  EXPECT_EQ(worker_.worker().due_ns(), worker_.clock.now_ns + kTestPatienceNs);
  worker_.clock.now_ns += kTestPatienceNs - 1;
  worker_.worker().Poll();
  EXPECT_FALSE(call->peer.disconnecting);
  worker_.clock.now_ns += 1;
  worker_.PollAll();
  EXPECT_TRUE(call->peer.closed_here);
  EXPECT_TRUE(call->peer.disconnected);
  EXPECT_EQ(Quarantined(), 0u);
  EXPECT_EQ(worker_.worker().stats().impatient_drops.value(), 1u);
  EXPECT_EQ(worker_.worker().due_ns(), Worker::kNever);
}

// The worker is suspended for longer than its patience after it looked for messages. It has not seen the messages that
// arrived meanwhile, so no client is late.
TEST_F(WorkerCountersTest, WhoAcknowledgesWhileTheWorkerStandsStillIsNotLate) {
  FakeCall* call = worker_.Connect();
  Create(call, 1, "c");
  Delete(call, 2, "c");
  const uint64_t sequence = TakeNotice(call, {"c"});
  worker_.worker().Poll();
  worker_.endpoints[0].on_polled = [&] { worker_.clock.now_ns += 2 * kTestPatienceNs; };
  worker_.worker().Poll();
  worker_.endpoints[0].on_polled = nullptr;
  EXPECT_FALSE(call->peer.disconnecting);
  Send(call, MakeDropped(sequence));
  EXPECT_FALSE(call->peer.disconnecting);
  EXPECT_EQ(Quarantined(), 0u);
  EXPECT_EQ(worker_.worker().stats().impatient_drops.value(), 0u);
}

TEST_F(WorkerCountersTest, TheEndOfAConnectionCountsOnlyWhenNothingOfItCanArrive) {
  FakeCall* call = worker_.Connect();
  FakeCall* other = worker_.Connect();
  Create(call, 1, "c");
  call->peer.hold_disconnected = true;
  call->peer.quiescent = false;
  call->peer.Break();
  Delete(other, 1, "c");
  EXPECT_EQ(Quarantined(), 1u);
  call->peer.Release();
  worker_.PollAll();
  EXPECT_EQ(worker_.worker().stats().connections.value(), 1u) << "for everything else it is over";
  EXPECT_EQ(Quarantined(), 1u) << "but its client may be within an atomic";
  EXPECT_NE(call->peer.connection, nullptr);
  worker_.clock.now_ns += 10'000'000'000;
  worker_.PollAll();
  EXPECT_EQ(Quarantined(), 1u);
  EXPECT_NE(worker_.worker().due_ns(), Worker::kNever);
  call->peer.quiescent = true;
  worker_.clock.now_ns += 10'000'000'000;
  worker_.PollAll();
  EXPECT_EQ(Quarantined(), 0u);
  EXPECT_EQ(call->peer.connection, nullptr);
  EXPECT_EQ(worker_.worker().due_ns(), Worker::kNever);
}

// The worker keeps its socket and rings until the client has left the gate or died, so it still occupies the place of a
// client.
TEST_F(WorkerCountersTest, AClientWithinAnAtomicCountsAsAClientUntilItIsGone) {
  TestWorker worker(32 << 20, /*max_kept=*/16, /*max_clients=*/2);
  FakeCall* call = worker.Connect();
  worker.Ask(call, MakeCounter(RequestType::kCounterCreate, 1, "c"));
  call->peer.quiescent = false;
  call->peer.Send("no request at all");
  worker.PollAll();
  ASSERT_TRUE(call->peer.disconnected);
  EXPECT_EQ(worker.quota.taken(), 1);
  EXPECT_EQ(worker.worker().stats().clients_within_atomics.value(), 1u);
  EXPECT_TRUE(TestWorker::Welcome(worker.Connect()));
  EXPECT_EQ(TestWorker::RejectOf(worker.Connect()).code, kv::RefusalCode::kFull);
  call->peer.quiescent = true;
  worker.clock.now_ns += 10'000'000'000;
  worker.PollAll();
  EXPECT_EQ(worker.quota.taken(), 1);
  EXPECT_EQ(worker.worker().stats().clients_within_atomics.value(), 0u);
  EXPECT_TRUE(TestWorker::Welcome(worker.Connect()));
}

class WorkerKickTest : public testing::Test {
 protected:
  // Returns a client that is within an atomic when its connection closes.
  FakeCall* Stopped() {
    FakeCall* call = worker_.Connect();
    EXPECT_TRUE(TestWorker::Welcome(call));
    worker_.Ask(call, MakeCounter(RequestType::kCounterRead, 1, "c"));
    call->peer.quiescent = false;
    call->peer.Send("no request at all");
    worker_.PollAll();
    return call;
  }
  FakeCall* Operator(uint32_t uid) {
    FakeCall* call = worker_.CallAsOperator();
    call->credentials = rdma::PeerCredentials{7, uid, {}};
    worker_.PollAll();
    return call;
  }
  std::optional<TestReply> Ask(FakeCall* call, absl::string_view what) {
    return worker_.Ask(call, MakeRequest(RequestType::kAdmin, ++number_, what));
  }
  uint64_t within_atomics() { return worker_.worker().stats().clients_within_atomics.value(); }

  uint64_t number_ = 0;
  TestWorker worker_{32 << 20, /*max_kept=*/16, /*max_clients=*/2};
};

// Clients within atomics fill all places. An operator, which has a place of its own, sees that, and frees the places.
TEST_F(WorkerKickTest, WhoFillsThePlacesWithinAtomicsIsKicked) {
  FakeCall* stopped[] = {Stopped(), Stopped()};
  EXPECT_EQ(TestWorker::RejectOf(worker_.Connect()).code, kv::RefusalCode::kFull);
  FakeCall* ops = Operator(geteuid());
  ASSERT_TRUE(TestWorker::Welcome(ops));
  const std::string listed = Ask(ops, "clients@0")->payload;
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'), 3) << listed;
  EXPECT_TRUE(absl::StrContains(listed, "\tatomic\t")) << listed;
  EXPECT_EQ(Ask(ops, "kick 1")->payload, "");
  EXPECT_TRUE(absl::StrContains(Ask(ops, "clients@0")->payload, "\tkicked\t"));
  EXPECT_EQ(within_atomics(), 2u) << "it is not gone";
  EXPECT_NE(stopped[0]->peer.connection, nullptr);
  EXPECT_TRUE(TestWorker::Welcome(worker_.Connect()));
  EXPECT_EQ(TestWorker::RejectOf(worker_.Connect()).code, kv::RefusalCode::kFull);
  // Expect: after they have left, nothing is counted twice.
  for (FakeCall* call : stopped) call->peer.quiescent = true;
  worker_.clock.now_ns += 10'000'000'000;
  worker_.PollAll();
  EXPECT_EQ(within_atomics(), 0u);
  EXPECT_EQ(worker_.quota.taken(), 1);
  EXPECT_FALSE(absl::StrContains(Ask(ops, "clients@0")->payload, "\tkicked\t"));
}

TEST_F(WorkerKickTest, SoManyMayBeKickedAndNotGone) {
  for (int i = 0; i < 2; ++i) Stopped();
  FakeCall* ops = Operator(0);
  for (int id = 1; id < 3; ++id) EXPECT_EQ(Ask(ops, absl::StrCat("kick ", id))->payload, "");
  for (int i = 0; i < 2; ++i) Stopped();
  const std::string refused = Ask(ops, "kick 4")->payload;
  EXPECT_TRUE(absl::StartsWith(refused, "refused: 2 clients that were stopped within atomics are kicked")) << refused;
  EXPECT_TRUE(absl::StrContains(refused, "end the processes")) << refused;
  EXPECT_EQ(TestWorker::RejectOf(worker_.Connect()).code, kv::RefusalCode::kFull);
  worker_.calls()[0].peer.quiescent = true;
  worker_.clock.now_ns += 10'000'000'000;
  worker_.PollAll();
  EXPECT_EQ(within_atomics(), 3u);
  EXPECT_EQ(Ask(ops, "kick 4")->payload, "");
  EXPECT_TRUE(TestWorker::Welcome(worker_.Connect()));
}

TEST_F(WorkerKickTest, OneThatIsKickedWithinAnAtomicHasNoPlaceAnyMore) {
  FakeCall* ops = Operator(0);
  FakeCall* call = worker_.Connect();
  worker_.Ask(call, MakeCounter(RequestType::kCounterRead, 1, "c"));
  call->peer.quiescent = false;
  EXPECT_EQ(Ask(ops, "kick 2")->payload, "");
  worker_.PollAll();
  EXPECT_EQ(within_atomics(), 1u);
  EXPECT_EQ(worker_.quota.taken(), 1) << "the operator's";
}

TEST_F(WorkerKickTest, OnlyOperatorsHavePlacesBeyondTheOthersAndOnlySoMany) {
  for (int i = 0; i < 2; ++i) worker_.Connect();
  EXPECT_TRUE(TestWorker::Welcome(Operator(geteuid() + 1))) << "of another user: a probe";
  FakeCall* remote = worker_.CallAsOperator();
  worker_.PollAll();
  EXPECT_TRUE(TestWorker::Welcome(remote)) << "of another host: a probe";
  EXPECT_EQ(TestWorker::RejectOf(Operator(geteuid() + 1)).code, kv::RefusalCode::kFull);
  FakeCall* first = Operator(0);
  EXPECT_TRUE(TestWorker::Welcome(first));
  EXPECT_TRUE(TestWorker::Welcome(Operator(geteuid())));
  EXPECT_EQ(TestWorker::RejectOf(Operator(0)).code, kv::RefusalCode::kFull);
  EXPECT_EQ(worker_.Ask(first, MakePut(1, "k", "v"))->code, Code::kReadOnly);
  first->peer.Break();
  worker_.PollAll();
  EXPECT_TRUE(TestWorker::Welcome(Operator(0)));
  EXPECT_EQ(worker_.quota.taken(), 2);
}

TEST_F(WorkerCountersTest, FalseAcknowledgementsEndTheConnection) {
  FakeCall* call = worker_.Connect();
  Send(call, MakeDropped(1));
  EXPECT_TRUE(call->peer.closed_here) << "it was told nothing";
  call = worker_.Connect();
  Create(call, 1, "c");
  Delete(call, 2, "c");
  const uint64_t sequence = TakeNotice(call, {"c"});
  Send(call, MakeDropped(sequence + 1));
  EXPECT_TRUE(call->peer.closed_here);
  EXPECT_EQ(Quarantined(), 0u) << "gone, and so not waited for";
}

TEST_F(WorkerCountersTest, ANoticeWaitsBehindTheRepliesThatNameTheCell) {
  FakeCall* call = worker_.Connect();
  FakeCall* other = worker_.Connect();
  Create(call, 1, "c");
  call->peer.send_room = 0;
  call->peer.Send(Encode(MakeCounter(RequestType::kCounterAdd, 2, "c", 1)));
  worker_.PollAll();
  Delete(other, 1, "c");
  call->peer.send_room = SIZE_MAX;
  worker_.clock.now_ns += 100'000'000;
  worker_.PollAll();
  ASSERT_EQ(call->peer.sent.size(), 2u);
  const auto reply = TestWorker::TakeReply(call);
  EXPECT_NE(reply->counter.cell, 0u);
  EXPECT_NE(TakeNotice(call, {"c"}), 0u);
}

}  // namespace
}  // namespace farlook::server
