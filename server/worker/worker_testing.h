// Fixture of the worker's tests.
#ifndef FARLOOK_SERVER_WORKER_WORKER_TESTING_H_
#define FARLOOK_SERVER_WORKER_WORKER_TESTING_H_

#include <vector>

#include "gtest/gtest.h"
#include "server/testing/test_worker.h"

namespace farlook::server {

class WorkerTest : public ::testing::Test {
 protected:
  void TearDown() override {
    // Expect: every connection that closed was released in two phases.
    for (FakeCall* call : watched_) EXPECT_FALSE(call->peer.destroyed_early);
  }
  FakeCall* Connect(bool read_only = false) {
    watched_.push_back(t_.Connect(read_only));
    return watched_.back();
  }
  FakeCall* Resume(const kv::Hello& hello, int port = 0) {
    watched_.push_back(t_.Call(hello, port));
    t_.PollAll();
    return watched_.back();
  }
  const WorkerStats& stats() { return t_.worker().stats(); }

  TestWorker t_;
  std::vector<FakeCall*> watched_;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_WORKER_TESTING_H_
