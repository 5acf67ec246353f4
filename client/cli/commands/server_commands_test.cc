#include <string>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

class ServerCommandsTest : public CommandTest {};

TEST_F(ServerCommandsTest, StatPrintsFigures) {
  store().set_server_stats(std::string("requests 5\nhuge_pages 2 MiB"));
  EXPECT_EQ(Run({"stat"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "requests 5\nhuge_pages 2 MiB\n");
  EXPECT_EQ(Run({"stat", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"requests\":5,\"huge_pages\":\"2 MiB\"}\n");
  EXPECT_EQ(Run({"stat", "--client"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("operations "));
  store().set_server_stats(absl::UnavailableError("gone"));
  EXPECT_EQ(Run({"stat"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("kv_cli: stat: no server answers at shm:///test"));
}

TEST_F(ServerCommandsTest, StatPrintsTheGroupsAskedFor) {
  store().set_server_stats(std::string("requests_put 5\nrequests_get 2\nkeys 3\nkey_bytes 9"));
  EXPECT_EQ(Run({"stat", "requests_"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "requests_put 5\nrequests_get 2\n");
  EXPECT_EQ(Run({"stat", "--json", "keys", "requests_get"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"requests_get\":2,\"keys\":3}\n");
  EXPECT_EQ(Run({"stat", "none"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("no figure's name begins with \"none\""));
}

TEST_F(ServerCommandsTest, TopPrintsALineEachTime) {
  store().set_server_stats(
      std::string("requests_put 5\nregion_bytes 1000\nfree_bytes 500\nreclaimable_bytes 250\nkeys 3\nconnections 2"));
  EXPECT_EQ(Run({"top", "--count=2", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(),
              MatchesRegex("time +writes/s.*\n"
                           "..:..:.. +0 +0 +- +- +0.00 +25.0% +3 +2\n..:..:.. +0 +0 +- +- +0.00 +25.0% +3 +2\n"));
  EXPECT_EQ(Run({"top", "--count=1", "--interval_ms=1", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("\\{\"time\":\".*Z\",\"writes_per_second\":0.*,\"used_share\":0.25,\"keys\":3.0,"
                                  "\"clients\":2.0\\}\n"));
}

TEST_F(ServerCommandsTest, TopShowsGetsOnceAClientHasReportedThem) {
  // Expect: before the first report the number of gets is unknown, and not 0.
  store().set_server_stats(
      std::string("region_bytes 1000\nclient_figures 1\nclient_gets_per_s 0\nreporting_clients 0"));
  EXPECT_EQ(Run({"top", "--count=1", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("time .*\n..:..:.. +0 +0 +- +- +0.00 .*\n"));
  EXPECT_EQ(Run({"top", "--count=1", "--interval_ms=1", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), Not(HasSubstr("gets_per_second")));
  store().set_server_stats(
      std::string("region_bytes 1000\nclient_figures 1\nclient_gets_per_s 1234\nreporting_clients 1\nget_p99_ns 1500"));
  EXPECT_EQ(Run({"top", "--count=1", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(),
              MatchesRegex("time +writes/s +reads/s\\* +gets/s  p99 us .*\n..:..:.. +0 +0 +1234 +1.5 +0.00 .*\n"));
  EXPECT_EQ(Run({"top", "--count=1", "--interval_ms=1", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("\"gets_per_second\":1234.0,\"get_p99_us\":1.5,"));
}

TEST_F(ServerCommandsTest, ClientsAreListedAndKicked) {
  ConnectedClient client;
  client.id = 7;
  client.peer = "10.0.0.9:1\x1b";
  client.user = "app";
  client.role = "write";
  client.state = "welcome";
  client.requests = 5;
  client.get_p99_ns = 1500;
  store().clients() = {client};
  EXPECT_EQ(Run({"clients"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex(" +id  from .*\n +7  10.0.0.9:1\\\\x1b  app   write  welcome  +0 +5 +0 +0  1.5\n"));
  EXPECT_EQ(Run({"clients", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("{\"id\":7,\"peer\":"));
  EXPECT_EQ(Run({"kick", "8", "7"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("no client has the id 8"));
  EXPECT_TRUE(store().clients().empty());
  EXPECT_EQ(Run({"kick", "seven"}), ExitCode::kUsage);
  store().set_fault([](uint64_t, const client::Operation&) { return absl::PermissionDeniedError("the role admin"); });
  EXPECT_EQ(Run({"clients"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("the role admin"));
}

TEST_F(ServerCommandsTest, WhoHoldsPlacesWithinAtomicsIsNamed) {
  ConnectedClient client;
  for (const auto& [peer, state] : std::vector<std::pair<std::string, std::string>>{{"pid 7 uid 0", "atomic"},
                                                                                    {"pid 8 uid 0", "welcome"},
                                                                                    {"pid 7 uid 0", "atomic"},
                                                                                    {"pid 9 uid 0", "kicked"}}) {
    ++client.id;
    client.peer = peer;
    client.state = state;
    store().clients().push_back(client);
  }
  EXPECT_EQ(Run({"clients"}), ExitCode::kOk);
  EXPECT_THAT(Err(), HasSubstr("within an atomic: 2, of pid 7 uid 0 (2); continue or end these processes"));
  EXPECT_EQ(Run({"clients", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Err(), "");
}

TEST_F(ServerCommandsTest, OfAClusterAllGroupsAreMeant) {
  store().groups() = {{"kv.0", 3, {"tcp://a:1"}, 2048, "0-2047"}, {"kv.1", 1, {}, 2048, "2048-4095"}};
  store().set_server_stats(std::string("keys 5\n"));
  EXPECT_EQ(Run({"stat"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "keys 10\n");
  EXPECT_EQ(Run({"stat", "--group=kv.1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "keys 5\n");
  ConnectedClient client;
  client.id = 7;
  store().clients() = {client};
  EXPECT_EQ(Run({"clients"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("group kv.0\n +id .*\n +7 .*\ngroup kv.1\n +id .*\n +7 .*\n"));
  EXPECT_EQ(Run({"clients", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("{\"group\":\"kv.1\",\"id\":7,"));
  // Expect: ids are unique per server only.
  EXPECT_EQ(Run({"kick", "7"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--group=kv.0, or --group=kv.1"));
  EXPECT_EQ(Run({"kick", "7", "--group=kv.1"}), ExitCode::kOk);

  EXPECT_EQ(Run({"cluster", "status"}), ExitCode::kOk);
  EXPECT_EQ(Out(),
            "kv.0: 2048 slots, 0-2047\nkv.1: 2048 slots, 2048-4095\n\ngroup kv.0\nepoch 1\n\ngroup kv.1\nepoch 1\n");
  EXPECT_EQ(Run({"cluster", "status", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("{\"group\":\"kv.0\",\"epoch\":3,\"slots\":2048,\"slot_ranges\":\"0-2047\"}\n"));
  EXPECT_EQ(Run({"cluster", "status", "--group=kv.1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "group kv.1\nepoch 1\n");
  // Expect: the exit code tells the state of the group, and a refused server is shown with the reason.
  store().set_group_state(
      "directory does not answer\nhealth degraded 2 of 3 members are in sync\n"
      "refused tcp://c:1 71 --memory=1GiB is too little\n"
      "joining tcp://d:1 72 lag 5 disconnected for 3 s filled 45 %\n");
  EXPECT_EQ(Run({"cluster", "status", "--group=kv.1"}), static_cast<ExitCode>(1));
  EXPECT_EQ(Run({"cluster", "status", "--group=kv.1", "--json"}), static_cast<ExitCode>(1));
  EXPECT_EQ(Out(),
            "{\"group\":\"kv.1\"}\n{\"epoch\":\"1\"}\n{\"directory\":\"does not answer\"}\n"
            "{\"health\":\"degraded\",\"reason\":\"2 of 3 members are in sync\"}\n"
            "{\"role\":\"refused\",\"address\":\"tcp://c:1\",\"incarnation\":\"71\","
            "\"reason\":\"--memory=1GiB is too little\"}\n"
            "{\"role\":\"joining\",\"address\":\"tcp://d:1\",\"incarnation\":\"72\",\"lag\":5,"
            "\"disconnected\":true,\"disconnected_seconds\":3,\"filled_percent\":45}\n");
  store().set_group_state("health blocked writes wait until 2 members are in sync\n");
  EXPECT_EQ(Run({"cluster", "status"}), static_cast<ExitCode>(2));
  store().set_group_state("health whole\n");
  EXPECT_EQ(Run({"cluster", "status", "--wait"}), ExitCode::kOk);
  store().set_group_state("");
  EXPECT_EQ(Run({"cluster", "handover"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"cluster", "handover", "--group=kv.1"}), ExitCode::kOk);
  EXPECT_EQ(Run({"cluster", "resize", "3", "--group=kv.1"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "group kv.1\nepoch 1\nmembers 3 of 3, at least 0\n") << "0: as before";
  EXPECT_EQ(Run({"cluster", "resize", "3", "--group=kv.0", "--min_insync=2", "--json"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"group\":\"kv.0\"}\n{\"epoch\":\"1\"}\n{\"members\":3,\"replicas\":3,\"min_insync\":2}\n");
}

TEST_F(ServerCommandsTest, WatchPrintsRates) {
  EXPECT_EQ(Run({"watch", "--count=2", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("requests "));
  EXPECT_THAT(Out(), HasSubstr("/s\n"));
  EXPECT_THAT(Out(), Not(HasSubstr("huge_pages"))) << "only what changed";
  EXPECT_EQ(store().operations(), 3u);
  EXPECT_EQ(Run({"watch", "--count=1", "--interval_ms=1", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("\\{\"time\":\".*Z\",\"seconds\":.*,\"figures\":\\{\"requests\":5,.*\\},"
                                  "\"per_second\":\\{\"requests\":.*\\}\\}\n"));
}

TEST_F(ServerCommandsTest, WatchGoesOnWhenTheServerComesBack) {
  store().set_fault([&](uint64_t number, const client::Operation&) {
    if (number == 4) store().set_incarnation(2);
    return number == 2 ? absl::UnavailableError("") : absl::OkStatus();
  });
  EXPECT_EQ(Run({"watch", "--count=4", "--interval_ms=1"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("no server"));
  EXPECT_THAT(Err(), HasSubstr("was restarted"));
  EXPECT_EQ(store().operations(), 5u);
}

TEST_F(ServerCommandsTest, WatchOfNoServerEndsAtOnce) {
  store().set_fault([](uint64_t, const client::Operation&) { return absl::UnavailableError(""); });
  EXPECT_EQ(Run({"watch"}), ExitCode::kError);
  EXPECT_EQ(store().operations(), 1u);
}

TEST_F(ServerCommandsTest, PingPrintsTheRoundTrip) {
  EXPECT_EQ(Run({"ping"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("answer from shm:///test in [0-9.]+ us\n"));
  EXPECT_EQ(Run({"ping", "--count=3", "--interval_ms=1"}), ExitCode::kOk);
  EXPECT_THAT(Out(), HasSubstr("3 answers: least "));
  EXPECT_EQ(Run({"ping", "--json"}), ExitCode::kOk);
  EXPECT_THAT(Out(), MatchesRegex("\\{\"address\":\"shm:///test\",\"round_trip_us\":[0-9.e-]+\\}\n"));
  store().set_fault([](uint64_t, const client::Operation&) { return absl::DeadlineExceededError(""); });
  EXPECT_EQ(Run({"ping", "--timeout_ms=50"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("no answer within 50 ms"));
}

}  // namespace
}  // namespace farlook::cli
