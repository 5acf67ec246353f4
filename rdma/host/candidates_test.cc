#include "rdma/host/candidates.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "rdma/address.h"
#include "rdma/clock.h"
#include "rdma/resolver_testing.h"

namespace farlook::rdma {
namespace {

class CandidatesTest : public testing::Test {
 protected:
  Candidates Of(absl::string_view text) {
    const Address address = *ParseAddress(text);
    const auto lookup = resolver_.LookUp(address.host);
    lookup->Await(60'000).IgnoreError();
    return Candidates(lookup, address);
  }
  static int64_t NowNs() { return Clock::Real().NowNs(); }

  TestResolver names_;
  Resolver resolver_{[] {}};
};

TEST_F(CandidatesTest, EachAddressIsTriedOnceWithThePort) {
  names_.Set("server", {"::1", "127.0.0.1"});
  Candidates candidates = Of("tcp://server:7905");
  ASSERT_EQ(candidates.Find(NowNs()).value(), true);
  EXPECT_TRUE(candidates.is_name());
  ASSERT_EQ(candidates.left(), 2u);
  const SocketAddress first = candidates.Next(), second = candidates.Next();
  EXPECT_EQ(candidates.left(), 0u);
  EXPECT_EQ(candidates.Shown(first), "tcp://[::1]:7905");
  candidates.Failed(first, "refused");
  candidates.Failed(second, "no route");
  EXPECT_EQ(candidates.Tried(), "[::1]:7905: refused, 127.0.0.1:7905: no route");
  EXPECT_EQ(candidates.shown(), "tcp://server:7905");
}

TEST_F(CandidatesTest, ANumericAddressIsItsOwnCandidate) {
  for (const char* address : {"tcp://127.0.0.1:7905", "rdma://[::1]:7905"}) {
    Candidates candidates = Of(address);
    ASSERT_EQ(candidates.Find(NowNs()).value(), true);
    EXPECT_FALSE(candidates.is_name());
    ASSERT_EQ(candidates.left(), 1u);
    EXPECT_EQ(candidates.Shown(candidates.Next()), address);
  }
}

TEST_F(CandidatesTest, ANameThatDoesNotResolveHasNone) {
  EXPECT_EQ(Of("tcp://nobody:7905").Find(NowNs()).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farlook::rdma
