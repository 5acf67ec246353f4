#include "server/acceptor/acceptor.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/base/log.h"
#include "server/session/session.h"
#include "server/testing/test_worker.h"

namespace farlook::server {
namespace {

constexpr size_t kRegionBytes = 16 << 20;

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest() {
    std::vector<Worker*> workers;
    for (int i = 0; i < 3; ++i) {
      workers_.push_back(std::make_unique<TestWorker>(kRegionBytes, 16, 100, i));
      workers.push_back(&workers_.back()->worker());
    }
    acceptor_ = std::make_unique<Acceptor>(std::vector<rdma::Listener*>{&listeners_[0], &listeners_[1]}, &clock_);
    acceptor_->Open(workers);
  }

  FakeCall* Call(std::string hello, int port = 0) {
    calls_.emplace_back();
    calls_.back().hello = std::move(hello);
    listeners_[port].calls.push_back(&calls_.back());
    return &calls_.back();
  }
  FakeCall* Call(const kv::Hello& hello, int port = 0) {
    kv::ConnectData connect;
    connect.session = hello.session;
    FakeCall* call = Call(connect.Encode(), port);
    call->first = hello.Encode();
    return call;
  }
  void PollAll() {
    while (acceptor_->Poll() > 0) {
    }
    for (auto& worker : workers_) worker->PollAll();
  }
  // Returns the worker that has the client.
  int WorkerOf(const FakeCall* call) const {
    for (size_t i = 0; i < workers_.size(); ++i) {
      for (const FakeEndpoint& endpoint : workers_[i]->endpoints) {
        if (call->peer.endpoint == &endpoint) return static_cast<int>(i);
      }
    }
    return -1;
  }

  FakeClock clock_;
  FakeListener listeners_[2];
  std::deque<FakeCall> calls_;
  std::vector<std::unique_ptr<TestWorker>> workers_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, AClientThatComesBeforeTheServerIsReadyIsNoWarning) {
  struct Lines final : LogSink {
    void Put(std::string line) override { text += line; }
    std::string text;
  } lines;
  SetLogSink(&lines);
  Acceptor starting({&listeners_[0]}, &clock_, [] { return std::string("the server is starting: 7 %"); });
  Call(kv::Hello{});
  while (starting.Poll() > 0) {
  }
  EXPECT_EQ(lines.text, "");
  EXPECT_EQ(starting.rejected(), 1u);
  // Expect: a call that any server would reject is logged as a warning.
  Call("no hello");
  while (starting.Poll() > 0) {
  }
  SetLogSink(nullptr);
  EXPECT_TRUE(absl::StrContains(lines.text, "level=warning msg=\"client rejected\"")) << lines.text;
}

// Bounds the number of descriptors.
TEST_F(AcceptorTest, NoMoreWaitThanMay) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 500; ++i) calls.push_back(Call(kv::Hello{}, i % 2));
  size_t let_in = 0;
  for (int round = 0; let_in < calls.size(); ++round) {
    ASSERT_LT(round, 500);
    acceptor_->Poll();
    size_t waiting = 0;
    for (const auto& worker : workers_) waiting += worker->worker().waiting();
    EXPECT_LE(waiting, 3 * Acceptor::kMaxWaiting);
    EXPECT_EQ(acceptor_->crowded(), waiting == 3 * Acceptor::kMaxWaiting);
    for (const auto& worker : workers_) worker->PollAll();
    let_in = static_cast<size_t>(std::count_if(
        calls.begin(), calls.end(), [](const FakeCall* call) { return call->accepted || call->rejected.has_value(); }));
  }
}

// On this thread: the worker's thread is busy with requests.
TEST_F(AcceptorTest, PreparesWhoComesAndCleansUpThoughNobodyMayCome) {
  std::vector<FakeCall*> calls;
  for (size_t i = 0; i < 3 * Acceptor::kMaxWaiting; ++i) calls.push_back(Call(kv::Hello{}));
  acceptor_->Poll();
  ASSERT_TRUE(acceptor_->crowded());
  for (const FakeCall* call : calls) {
    EXPECT_TRUE(call->prepared);
    EXPECT_FALSE(call->accepted);
  }
  for (const FakeListener& listener : listeners_) {
    const int before = listener.cleanings;
    acceptor_->Poll();
    EXPECT_EQ(listener.cleanings, before + 1);
  }
}

TEST_F(AcceptorTest, SaysOnceWhenNobodyCanComeAndOnceWhenTheyCanAgain) {
  const auto logs = [this] {
    testing::internal::CaptureStderr();
    PollAll();
    PollAll();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(logs(), "");
  listeners_[1].away = absl::UnavailableError("the device is gone");
  const std::string lost = logs();
  EXPECT_TRUE(absl::StrContains(lost, "no client can connect")) << lost;
  EXPECT_TRUE(absl::StrContains(lost, "the device is gone")) << lost;
  EXPECT_EQ(std::count(lost.begin(), lost.end(), '\n'), 1) << lost;
  listeners_[1].away = absl::OkStatus();
  const std::string back = logs();
  EXPECT_TRUE(absl::StrContains(back, "listening again")) << back;
  EXPECT_EQ(std::count(back.begin(), back.end(), '\n'), 1) << back;
}

TEST_F(AcceptorTest, BeforeItIsOpenClientsAreToldWhyAndMayTryAgain) {
  int percent = 37;
  Acceptor closed({&listeners_[0]}, &clock_, [&] { return absl::StrCat("preparing memory, ", percent, " %"); });
  FakeCall* call = Call(kv::Hello());
  EXPECT_EQ(closed.Poll(), 1u);
  ASSERT_TRUE(call->rejected);
  EXPECT_EQ(TestWorker::RejectOf(call).text, "preparing memory, 37 %");
  EXPECT_TRUE(kv::WorthTryingAgain(TestWorker::RejectOf(call).code));
  closed.Open({&workers_[0]->worker()});
  call = Call(kv::Hello());
  EXPECT_EQ(closed.Poll(), 1u);
  workers_[0]->PollAll();
  EXPECT_TRUE(call->accepted);
}

TEST_F(AcceptorTest, SpreadsNewClientsEvenly) {
  std::vector<int> clients(3);
  for (int i = 0; i < 9; ++i) {
    FakeCall* call = Call(kv::Hello());
    PollAll();
    ++clients[static_cast<size_t>(WorkerOf(call))];
  }
  EXPECT_EQ(clients, (std::vector<int>{3, 3, 3}));
}

TEST_F(AcceptorTest, SpreadsThemAlsoBeforeTheyAreLetIn) {
  for (int i = 0; i < 9; ++i) Call(kv::Hello());
  EXPECT_EQ(acceptor_->Poll(), 9u);
  for (auto& worker : workers_) EXPECT_EQ(worker->worker().load(), 3);
  PollAll();
}

TEST_F(AcceptorTest, TheLeastLoadedIsNext) {
  std::vector<FakeCall*> calls;
  for (int i = 0; i < 6; ++i) {
    calls.push_back(Call(kv::Hello()));
    PollAll();
  }
  const int left = WorkerOf(calls[4]);
  calls[4]->peer.Break();
  PollAll();
  FakeCall* next = Call(kv::Hello());
  PollAll();
  EXPECT_EQ(WorkerOf(next), left);
}

TEST_F(AcceptorTest, AResumptionGoesToTheOwnerWhicheverTheListener) {
  for (int i = 0; i < 6; ++i) {
    FakeCall* call = Call(kv::Hello());
    PollAll();
    const int owner = WorkerOf(call);
    FakeCall* next = Call(TestWorker::HelloAfter(call), 1);
    PollAll();
    EXPECT_EQ(WorkerOf(next), owner);
    EXPECT_EQ(TestWorker::WelcomeOf(next).flags, kv::Welcome::kResumed);
    EXPECT_EQ(next->peer.endpoint, &workers_[static_cast<size_t>(owner)]->endpoints[1]);
  }
}

TEST_F(AcceptorTest, SessionsOfAnotherServerGoAnywhere) {
  kv::Hello hello;
  hello.session = 640 + 1;
  hello.epoch = 1;
  hello.incarnation = kTestIncarnation + 1;
  FakeCall* other_life = Call(hello);
  hello.incarnation = kTestIncarnation;
  hello.session = 640 + 63;  // of a worker that does not exist
  FakeCall* no_worker = Call(hello);
  PollAll();
  for (FakeCall* call : {other_life, no_worker}) {
    ASSERT_TRUE(call->accepted);
    EXPECT_EQ(TestWorker::WelcomeOf(call).flags, 0u);
  }
}

TEST_F(AcceptorTest, RejectsWhatIsNoClientWithTheReason) {
  const std::string good = kv::ConnectData().Encode();
  std::vector<FakeCall*> bad;
  bad.push_back(Call(""));
  bad.push_back(Call(good.substr(0, good.size() - 1)));
  bad.push_back(Call(std::string(rdma::kMaxHelloBytes, '\0')));
  bad.push_back(Call(std::string(rdma::kMaxHelloBytes, '\xff')));
  for (size_t at : {0, 4, 6, 10}) {  // magic, length, versions, mandatory flags
    std::string changed = good;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    bad.push_back(Call(changed));
  }
  PollAll();
  for (FakeCall* call : bad) {
    EXPECT_FALSE(call->accepted);
    ASSERT_TRUE(call->rejected);
    EXPECT_NE(TestWorker::RejectOf(call).text, "");
    EXPECT_LE(call->rejected->size(), rdma::kMaxRejectBytes);
  }
  EXPECT_EQ(acceptor_->rejected(), bad.size());
  for (auto& worker : workers_) EXPECT_EQ(worker->worker().load(), 0);
}

TEST_F(AcceptorTest, PrivateDataMayBePadded) {
  FakeCall* call = Call(kv::ConnectData().Encode() + std::string(rdma::kMaxHelloBytes - kv::ConnectData::kBytes, '\0'));
  PollAll();
  EXPECT_TRUE(call->accepted);
}

TEST_F(AcceptorTest, TurnsEverybodyAwayWhenShuttingDown) {
  acceptor_->Shutdown();
  FakeCall* call = Call(kv::Hello());
  PollAll();
  EXPECT_EQ(TestWorker::RejectOf(call).code, kv::RefusalCode::kShuttingDown);
}

}  // namespace
}  // namespace farlook::server
