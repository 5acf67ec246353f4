#include "rdma/address.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/choices.h"

namespace farlook::rdma {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(absl::string_view text) {
  absl::StatusOr<Address> address = ParseAddress(text);
  if (address.ok()) return "OK";
  EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(address.status().message());
}

TEST(AddressTest, ParsesAbsolutePaths) {
  absl::StatusOr<Address> address = ParseAddress("shm:///tmp/x");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(address->scheme, Scheme::kShm);
  EXPECT_EQ(address->path, "/tmp/x");
}

TEST(AddressTest, ParsesHostsOfAllKinds) {
  struct {
    const char* text;
    Scheme scheme;
    const char* host;
    int port;
  } const kCases[] = {
      {"rdma://10.0.0.7:7000", Scheme::kRdma, "10.0.0.7", 7000},
      {"rdma://[fe80::1%eth0]:1", Scheme::kRdma, "fe80::1%eth0", 1},
      {"rdma://node-3.example.com:65535", Scheme::kRdma, "node-3.example.com", 65535},
      {"tcp://[::1]:7000", Scheme::kTcp, "::1", 7000},
  };
  for (const auto& c : kCases) {
    absl::StatusOr<Address> address = ParseAddress(c.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->scheme, c.scheme);
    EXPECT_EQ(address->host, c.host);
    EXPECT_EQ(address->port, c.port);
    EXPECT_EQ(FormatAddress(*address), c.text);
  }
}

TEST(AddressTest, PathLimitIsThatOfUnixSockets) {
  const std::string longest = absl::StrCat("/", std::string(kMaxSocketPathBytes - 1, 'a'));
  absl::StatusOr<Address> address = ParseAddress(absl::StrCat("shm://", longest));
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(FormatAddress(*address), absl::StrCat("shm://", longest));
  EXPECT_THAT(ErrorOf(absl::StrCat("shm://", longest, "a")), HasSubstr("the path has 108 bytes"));
}

TEST(AddressTest, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(ErrorOf(""),
              HasSubstr("an address is shm:///absolute/path, rdma://host:port, tcp://host:port or auto://host:port"));
  EXPECT_THAT(ErrorOf("http://a:1"), HasSubstr("an address is"));
  EXPECT_THAT(ErrorOf("shm://tmp/x"), HasSubstr("must be absolute"));
  EXPECT_THAT(ErrorOf("shm://"), HasSubstr("must be absolute"));
  EXPECT_THAT(ErrorOf("shm:///tmp/"), HasSubstr("names a directory"));
  EXPECT_THAT(ErrorOf(absl::string_view("shm:///t\0x", 10)), HasSubstr("zero byte"));
  EXPECT_THAT(ErrorOf("rdma://host"), HasSubstr("port is missing"));
  EXPECT_THAT(ErrorOf("rdma://host:"), HasSubstr("port is missing"));
  EXPECT_THAT(ErrorOf("rdma://:1"), HasSubstr("host is missing"));
  EXPECT_THAT(ErrorOf("rdma://host:0"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(ErrorOf("rdma://host:65536"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(ErrorOf("rdma://host:+1"), HasSubstr("from 1 to 65535"));
  EXPECT_THAT(ErrorOf("rdma://fe80::1:7000"), HasSubstr("needs brackets"));
  EXPECT_THAT(ErrorOf("rdma://[fe80::1:7000"), HasSubstr("not closed"));
  EXPECT_THAT(ErrorOf("rdma://[fe80::1]7000"), HasSubstr("port is missing"));
  EXPECT_THAT(ErrorOf("rdma://[10.0.0.1]:7000"), HasSubstr("IPv6 addresses only"));
  EXPECT_THAT(ErrorOf("rdma://a b:1"), HasSubstr("the host contains"));
}

TEST(AddressTest, AutoStandsForRdmaThenTcpAndOthersForThemselves) {
  const auto choices = [](absl::string_view text) {
    const auto all = Choices(text);
    if (all.ok()) return absl::StrJoin(*all, " ");
    EXPECT_EQ(all.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(all.status().message());
  };
  EXPECT_EQ(choices("auto://[::1]:7000"), "rdma://[::1]:7000 tcp://[::1]:7000");
  EXPECT_EQ(choices("tcp://a:1"), "tcp://a:1");
  EXPECT_EQ(choices("shm:///tmp/x"), "shm:///tmp/x");
  EXPECT_EQ(choices("auto://host"), "address \"auto://host\": the port is missing (as in rdma://host:port)");
  EXPECT_THAT(choices("auto:///tmp/x"), HasSubstr("port is missing"));
  EXPECT_THAT(choices("auto://rdma://host:1"), HasSubstr("needs brackets"));
  EXPECT_THAT(choices("auto:host:1"), HasSubstr("an address is"));
  // A transport is one of the choices.
  EXPECT_THAT(ErrorOf("auto://host:1"), HasSubstr("an address is"));
}

TEST(AddressTest, ErrorsEscapeAndShortenTheInput) {
  const std::string message = ErrorOf(absl::StrCat("\n", std::string(5000, 'x')));
  EXPECT_THAT(message, HasSubstr("\\n"));
  EXPECT_LT(message.size(), 400u);
}

}  // namespace
}  // namespace farlook::rdma
