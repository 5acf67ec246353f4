#include "rdma/host/resolver.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/resolver_testing.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
// A child may start threads although its parent had some.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }  // NOLINT(bugprone-reserved-identifier)
#endif

namespace farlook::rdma {
namespace {

constexpr int64_t kLongMs = 60'000;

int64_t NowNs() { return Clock::Real().NowNs(); }

// Returns "[::1]:0" for each.
std::vector<std::string> Texts(const std::optional<absl::StatusOr<SocketAddresses>>& addresses) {
  std::vector<std::string> texts;
  if (!addresses.has_value() || !addresses->ok()) return texts;
  for (const SocketAddress& address : **addresses) texts.push_back(ToText(address.get()));
  return texts;
}

using List = std::vector<std::string>;

class ResolverTest : public testing::Test {
 protected:
  // Begins lookups that hang until no more are allowed; returns the error of the next one.
  absl::Status UseUpLookups() {
    names_.Hang();
    absl::Status status;
    for (int i = 0; i < 1000 && status.ok(); ++i) {
      resolvers_.push_back(std::make_unique<Resolver>([] {}));
      const auto addresses = resolvers_.back()->LookUp("server")->Addresses(NowNs());
      if (addresses.has_value()) status = addresses->status();
    }
    return status;
  }
  // Lets them continue, and waits until lookups are possible again. Returns the last error.
  absl::Status AwaitLookups() {
    names_.Set("server", {"10.0.0.1"});
    names_.GoOn();
    absl::Status status;
    for (int i = 0; i < 10'000; ++i) {
      status = Resolver([] {}).LookUp("server")->Await(kLongMs).status();
      if (status.ok()) break;
      poll(nullptr, 0, 1);
    }
    return status;
  }

  TestResolver names_;
  std::vector<std::unique_ptr<Resolver>> resolvers_;
  std::atomic<int> woken_{0};
  Resolver resolver_{[this] { ++woken_; }};
};

TEST_F(ResolverTest, NumericHostsNeedNoLookup) {
  names_.Hang();
  for (const char* host : {"127.0.0.1", "::1", "0.0.0.0"}) {
    const auto addresses = resolver_.LookUp(host)->Addresses(NowNs());
    ASSERT_TRUE(addresses.has_value()) << host;
    EXPECT_TRUE(addresses->ok()) << addresses->status();
  }
  EXPECT_EQ(names_.lookups(), 0);
}

TEST_F(ResolverTest, AllAddressesOfANameAreKnown) {
  names_.Set("server", {"::1", "127.0.0.1", "10.0.0.1"});
  const auto addresses = resolver_.LookUp("server")->Await(kLongMs);
  EXPECT_EQ(Texts(addresses), (List{"[::1]:0", "127.0.0.1:0", "10.0.0.1:0"}));
}

TEST_F(ResolverTest, WhileNoNameServerAnswersNothingWaitsForIt) {
  names_.Set("server", {"10.0.0.1"});
  names_.Hang();
  const auto lookup = resolver_.LookUp("server");
  EXPECT_FALSE(lookup->Addresses(NowNs() + kLongMs * 1'000'000).has_value());
  const absl::Status status = lookup->Await(1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "the name server does not resolve in time")) << status;
  // Expect: there is one lookup of a name at a time, and it wakes the user when it is answered.
  EXPECT_EQ(resolver_.LookUp("server"), lookup);
  names_.GoOn();
  EXPECT_EQ(Texts(lookup->Await(kLongMs)), List{"10.0.0.1:0"});
  while (woken_ == 0) poll(nullptr, 0, 1);
  EXPECT_EQ(names_.lookups(), 1);
}

TEST_F(ResolverTest, AnUnknownNameIsAnError) {
  const absl::Status status = resolver_.LookUp("nobody")->Await(kLongMs).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "nobody does not resolve")) << status;
}

TEST_F(ResolverTest, TheLastGoodAddressesAreUsedWhileThereIsNoAnswer) {
  names_.Set("server", {"10.0.0.1"});
  ASSERT_TRUE(resolver_.LookUp("server")->Await(kLongMs).ok());
  // An answer is valid for a second.
  while (names_.lookups() == 1) {
    ASSERT_TRUE(resolver_.LookUp("server")->Await(kLongMs).ok());
    poll(nullptr, 0, 10);
    if (names_.lookups() == 1) names_.Hang();
  }
  const auto lookup = resolver_.LookUp("server");
  EXPECT_EQ(Texts(lookup->Addresses(lookup->fallback_ns() - 1)), List{});
  EXPECT_EQ(Texts(lookup->Addresses(lookup->fallback_ns())), List{"10.0.0.1:0"});
  // Expect: an error does not replace them, but other addresses do.
  names_.Set("server", {});
  names_.GoOn();
  while (woken_ < 2) poll(nullptr, 0, 1);
  EXPECT_EQ(Texts(lookup->Addresses(0)), List{"10.0.0.1:0"});
  names_.Set("server", {"10.0.0.2"});
  const auto next = resolver_.LookUp("server");
  EXPECT_NE(next, lookup);
  while (woken_ < 3) poll(nullptr, 0, 1);
  EXPECT_EQ(Texts(next->Addresses(0)), List{"10.0.0.2:0"});
}

TEST_F(ResolverTest, AResolverCanGoBeforeItsLookups) {
  names_.Set("server", {"10.0.0.1"});
  names_.Hang();
  std::shared_ptr<const Lookup> lookup;
  {
    Resolver other([] { ADD_FAILURE() << "woken after the end"; });
    lookup = other.LookUp("server");
  }
  names_.GoOn();
  EXPECT_TRUE(lookup->Await(kLongMs).ok());
}

// A program that connects repeatedly, while no name server answers.
TEST_F(ResolverTest, ThreadsThatWaitAreBounded) {
  EXPECT_EQ(UseUpLookups().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LE(resolvers_.size(), 100u);
  const absl::Status later = AwaitLookups();
  EXPECT_TRUE(later.ok()) << later;
}

TEST_F(ResolverTest, AnAddressIsResolvedWithItsPort) {
  names_.Set("server", {"::1"});
  const auto addresses = ResolveWithin({.scheme = Scheme::kTcp, .path = "", .host = "server", .port = 7905}, kLongMs);
  EXPECT_EQ(Texts(addresses), List{"[::1]:7905"});
}

// Forks a child that does `act`, and expects that it ends.
void InChild(absl::FunctionRef<bool()> act) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    _exit(act() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(ResolverTest, AChildOfForkLooksUpForItselfWhateverItsParentWaitsFor) {
  ASSERT_EQ(UseUpLookups().code(), absl::StatusCode::kResourceExhausted);
  InChild([&] {
    SetLookUpForTest([](const std::string& /*host*/) -> absl::StatusOr<SocketAddresses> { return SocketAddresses(1); });
    const bool resolved = Resolver([] {}).LookUp("server")->Await(kLongMs).ok();
    resolvers_.clear();
    return resolved;
  });
  EXPECT_TRUE(AwaitLookups().ok());
}

TEST_F(ResolverTest, AChildOfForkCanEndWhileALookupWakesItsUser) {
  std::atomic<int> wakes{0};
  std::atomic<bool> forking{false};
  std::optional<Resolver> resolver(std::in_place, [&] {
    ++wakes;
    while (!forking) poll(nullptr, 0, 1);
    poll(nullptr, 0, 100);  // the fork is under way
    ++wakes;
  });
  resolver->LookUp("server");
  while (wakes == 0) poll(nullptr, 0, 1);
  forking = true;
  InChild([&] {
    resolver.reset();
    return true;
  });
  // Expect: a fork waits for the thread that wakes a user, so the child finds no partial state of the resolver.
  EXPECT_EQ(wakes, 2);
}

// Without the test's answers: the system's own resolver finds this name in /etc/hosts or generates it.
TEST(SystemResolverTest, LocalhostIsThisHost) {
  const auto addresses =
      ResolveWithin({.scheme = Scheme::kTcp, .path = "", .host = "localhost", .port = 7905}, kLongMs);
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  for (const std::string& text : Texts(addresses)) {
    EXPECT_TRUE(text == "[::1]:7905" || text == "127.0.0.1:7905") << text;
  }
}

}  // namespace
}  // namespace farlook::rdma
