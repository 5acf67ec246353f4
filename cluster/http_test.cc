// Host names, with a system resolver that does not answer. This test is the resolver: its getaddrinfo() replaces the C
// library's, also for libcurl.
#include "cluster/http.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cluster/loopback_server.h"
#include "gtest/gtest.h"

namespace farlook::cluster {
namespace {

enum class Resolver { kAnswers, kHangs, kFails };
absl::Mutex g_mutex;
Resolver g_resolver ABSL_GUARDED_BY(g_mutex) = Resolver::kAnswers;
std::atomic<int> g_lookups{0};

void SetResolver(Resolver resolver) {
  absl::MutexLock lock(&g_mutex);
  g_resolver = resolver;
}

}  // namespace
}  // namespace farlook::cluster

// Resolves each name to this host.
extern "C" int getaddrinfo(const char*, const char* service, const addrinfo* hints, addrinfo** found) {
  using namespace farlook::cluster;  // NOLINT(google-build-using-namespace)
  ++g_lookups;
  {
    const auto answers = []() ABSL_SHARED_LOCKS_REQUIRED(g_mutex) { return g_resolver != Resolver::kHangs; };
    absl::MutexLock lock(&g_mutex);
    g_mutex.Await(absl::Condition(&answers));
    if (g_resolver == Resolver::kFails) return EAI_AGAIN;
  }
  auto* const answer = static_cast<addrinfo*>(calloc(1, sizeof(addrinfo) + sizeof(sockaddr_in)));
  auto* const address = reinterpret_cast<sockaddr_in*>(answer + 1);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address->sin_port = htons(static_cast<uint16_t>(service == nullptr ? 0 : atoi(service)));
  answer->ai_family = AF_INET;
  answer->ai_socktype = hints == nullptr || hints->ai_socktype == 0 ? SOCK_STREAM : hints->ai_socktype;
  answer->ai_addr = reinterpret_cast<sockaddr*>(address);
  answer->ai_addrlen = sizeof(sockaddr_in);
  *found = answer;
  return 0;
}

extern "C" void freeaddrinfo(addrinfo* found) { free(found); }

namespace farlook::cluster {
namespace {

class HttpTest : public testing::Test {
 protected:
  ~HttpTest() override { SetResolver(Resolver::kAnswers); }
  HttpReply Post(absl::Duration timeout = absl::Seconds(60)) {
    return http_.Post(absl::StrCat("http://etcd.test:", server_.port(), "/"), "{}", timeout, 1000);
  }

  LoopbackServer server_{""};  // answers with an empty body
  Http http_;
};

// Only the end of the test ends the lookup: if the call waited for it, the test would hang.
TEST_F(HttpTest, AResolverThatHangsDoesNotOutlastTheTime) {
  SetResolver(Resolver::kHangs);
  const HttpReply reply = Post(absl::Milliseconds(100));
  EXPECT_EQ(reply.sent, HttpReply::Sent::kNo);
  EXPECT_TRUE(absl::StrContains(reply.error, "esolving timed out")) << reply.error;
}

class ResolverTroubleTest : public HttpTest, public testing::WithParamInterface<Resolver> {};
INSTANTIATE_TEST_SUITE_P(, ResolverTroubleTest, testing::Values(Resolver::kHangs, Resolver::kFails));

TEST_P(ResolverTroubleTest, AHostThatWasReachedIsReachedAgain) {
  ASSERT_EQ(Post().sent, HttpReply::Sent::kAnswered);
  // The answer is cached for some seconds. Then one request finds out that there is no new answer.
  SetResolver(GetParam());
  const int before = g_lookups;
  HttpReply reply;
  do {
    reply = Post(absl::Milliseconds(500));
    usleep(20'000);
  } while (g_lookups == before);
  EXPECT_EQ(reply.sent, HttpReply::Sent::kNo);
  reply = Post();
  EXPECT_EQ(reply.sent, HttpReply::Sent::kAnswered) << reply.error;
  // Expect: when the resolver answers again, requests succeed.
  SetResolver(Resolver::kAnswers);
  EXPECT_EQ(Post().sent, HttpReply::Sent::kAnswered);
}

}  // namespace
}  // namespace farlook::cluster
