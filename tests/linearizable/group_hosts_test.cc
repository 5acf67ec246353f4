// A group on two or three guests (tests/vm, --hosts): servers on the last two, etcd on one of these, clients on all of
// them, over Soft-RoCE. Links are cut, and servers are killed and stopped. The monitor of their hypervisor stops whole
// guests: that of the primary, that of the backup, and one of clients only. The answers to all clients must be
// linearizable, in the time of the machine, which no cut link and no stopped guest affects (host_time.h).
//
// A stopped guest's clocks stop too, so clients there are fenced strictly; others have a lease.
//
//     bazel test --config=opt //tests/linearizable:group_hosts_test_rxe     (three; group_two_hosts_test_rxe: two)
//     ... --test_env=FARLOOK_FULL_LENGTH=1 --test_timeout=14400             30 rounds
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cluster/configuration.h"
#include "cluster/etcd_directory.h"
#include "gtest/gtest.h"
#include "tests/faults/peer.h"
#include "tests/faults/values.h"
#include "tests/history/history.h"
#include "tests/linearizable/board.h"
#include "tests/linearizable/group_host.h"
#include "tests/linearizable/host_time.h"
#include "tests/linearizable/orders.h"
#include "tests/linearizable/verdict.h"

namespace farlook {
namespace {

constexpr char kName[] = "g";
constexpr int kUsers = 1;  // beside a server; elsewhere two
constexpr int64_t kNsInS = 1'000'000'000;
constexpr int64_t kPatienceNs = 180 * kNsInS;  // emulated, on a busy machine

std::string self;  // this program

void Run(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }

// The events of all rounds.
struct Events {
  size_t operations = 0, held_up = 0;
  int failovers = 0, cuts = 0, kills = 0, stops = 0, standstills = 0, users = 0;
};

// One group, from its beginning to the verdict.
class GroupOnHosts {
 public:
  GroupOnHosts(int round, uint32_t seed, Events* events)
      : hosts_(std::getenv("FARLOOK_VM_HOSTS")),
        folder_(absl::StrCat("/run/vm/round", round)),
        random_(seed),
        events_(*events),
        orders_(folder_),
        machine_(MachineTime(folder_ + "-clock")) {
    std::printf("seed %u\n", seed);
    std::fflush(stdout);
    mkdir(folder_.c_str(), 0777);
    for (const char host : hosts_) {
      hands_.push_back(
          std::make_unique<PeerProcess>(std::vector<std::string>{self, "--obey", std::string(1, host), folder_}, host));
    }
    Begin();
    Log("users begin");
  }

  // Runs one event after the other, until the time is up; at least the first two.
  void Disturb(int64_t most_ns, bool shuffled) {
    struct Event {
      const char* name;
      void (GroupOnHosts::*run)();
    };
    // In this order each event finds the primary where it needs it: at first it is on the host that will be stopped.
    std::vector<Event> events = {{"the members are cut off from each other", &GroupOnHosts::CutMembersApart},
                                 {"the backup's host stands still", &GroupOnHosts::StopHostOfBackup},
                                 {"the primary is stopped", &GroupOnHosts::StopPrimary},
                                 {"the primary's host stands still", &GroupOnHosts::StopHostOfPrimary},
                                 {"the primary is killed", &GroupOnHosts::KillPrimary}};
    if (three()) {
      events[0] = {"the primary is cut off from all", &GroupOnHosts::CutPrimaryOff};
      events[2] = {"clients stand still while the primary is stopped", &GroupOnHosts::StopHostOfClients};
      events.push_back({"the members are cut off from each other", &GroupOnHosts::CutMembersApart});
      events.push_back({"clients are cut off from the primary", &GroupOnHosts::CutClientsFromPrimary});
      events.push_back({"clients are cut off from the backup", &GroupOnHosts::CutClientsFromBackup});
      events.push_back({"the primary is stopped", &GroupOnHosts::StopPrimary});
    }
    if (shuffled) std::shuffle(events.begin(), events.end(), random_);
    const int64_t end_ns = MachineNow() + most_ns;
    for (size_t i = 0; i < events.size() && (i < 2 || MachineNow() < end_ns); ++i) {
      if (testing::Test::HasFailure()) return;
      Log(events[i].name);
      (this->*events[i].run)();
      Do(hosts_[random_() % hosts_.size()], "disturb");
      ++events_.users;
    }
  }

  void Judge() {
    for (const char host : hosts_) EXPECT_EQ(Do(host, "end"), "") << "host " << host;
    for (const auto& hand : hands_) EXPECT_EQ(hand->Wait(), 0);
    Board all;
    for (const char host : hosts_) {
      const std::vector<TimeSample> samples = ReadSamples(TimePath(folder_, host));
      ASSERT_GT(samples.size(), 2u);
      LogClockUncertainty(host, samples);
      ASSERT_TRUE(all.Merge(
          HistoryPath(folder_, host), host - 'a', [&](int64_t ns) { return EarliestThere(samples, ns); },
          [&](int64_t ns) { return LatestThere(samples, ns); }));
    }
    ExpectLinearizable(all);
    int others = 0;
    for (const history::KeyHistory& history : all.Histories()) {
      for (const history::Operation& operation : history) Count(operation, &others);
    }
    EXPECT_GT(others, 0) << "the hosts had nothing to do with each other";
  }

 private:
  bool three() const { return hosts_.size() == 3; }
  char Other(char server) const { return server == hosts_.back() ? hosts_[hosts_.size() - 2] : hosts_.back(); }
  void Nap(uint32_t least_ms, uint32_t most_ms) {
    usleep((least_ms + static_cast<uint32_t>(random_()) % (most_ms - least_ms)) * 1'000);
  }

  std::string Do(char host, const std::string& order) {
    const std::optional<std::string> answer = orders_.Do(host, order);
    EXPECT_TRUE(answer.has_value()) << "host " << host << " does not " << order;
    return answer.value_or("");
  }

  void Begin() {
    still_ = three() && random_() % 2 == 0 ? 'c' : 'b';
    EXPECT_EQ(Do(Other(still_), "etcd"), "");
    cluster::EtcdOptions options;
    options.endpoints.push_back(absl::StrCat("http://", EtcdOn(Other(still_))));
    auto directory = cluster::EtcdDirectory::Create(options);
    ASSERT_TRUE(directory.ok()) << directory.status();
    directory_ = *std::move(directory);
    Await("etcd", [&] { return directory_->Get(kName, cluster::Freshness::kLatest).ok(); });
    const std::string flags =
        absl::StrCat("serve --memory=32MiB --log_level=none --suspicion=1s --lease=500ms --group=", "etcd://",
                     EtcdOn(Other(still_)), "/", kName);
    std::vector<std::string> addresses;
    for (const char host : {still_, Other(still_)}) addresses.push_back(Do(host, flags));
    AwaitWhole();
    for (const char host : hosts_) {
      const bool stands_still = host == still_ || (three() && host == 'a');
      Do(host, absl::StrCat("use ", absl::StrJoin(addresses, ","), stands_still ? " strict " : " lease ",
                            static_cast<uint32_t>(random_()), " ", three() && host == 'a' ? 2 * kUsers : kUsers));
    }
    Nap(500, 1'000);
  }

  // Prints each event with its time, to see where a run got stuck.
  void Log(const std::string& what) {
    std::printf("%6.1f s: %s\n", static_cast<double>(MachineNow() - began_ns_) / 1e9, what.c_str());
    std::fflush(stdout);
  }

  // ---- The content of the record.

  bool Await(const std::string& what, const std::function<bool()>& condition) {
    for (const int64_t end_ns = HostNowNs() + kPatienceNs; !condition(); usleep(1'000'000)) {
      // Each query takes an emulated etcd a long time.
      if (HostNowNs() < end_ns) continue;
      ADD_FAILURE() << "not seen: " << what;
      return false;
    }
    return true;
  }
  // Nothing: etcd does not answer just now.
  std::optional<cluster::Configuration> Record() {
    const auto entry = directory_->Get(kName, cluster::Freshness::kLatest);
    if (!entry.ok() || entry->revision == 0) return std::nullopt;
    auto record = cluster::DecodeConfiguration(entry->value);
    EXPECT_TRUE(record.ok()) << record.status();
    return record.ok() ? std::optional(*std::move(record)) : std::nullopt;
  }
  // All members must have been there for a while: a backup that was added may be lost again, as it reconnects.
  void AwaitWhole() {
    uint64_t epoch = 0;
    int64_t since_ns = 0;
    Await("both are members", [&] {
      const auto record = Record();
      const bool whole = record.has_value() && record->members.size() == 2;
      if (!whole || record->epoch != epoch) since_ns = HostNowNs();
      epoch = whole ? record->epoch : 0;
      return whole && HostNowNs() - since_ns > 2 * kNsInS;
    });
    Log("both are members");
  }
  char Primary() {
    char primary = 'b';
    Await("a primary", [&] {
      const auto record = Record();
      if (record.has_value()) primary = HostOf(record->primary().address);
      return record.has_value();
    });
    return primary;
  }
  char HostOf(const std::string& address) const {
    for (const char host : hosts_) {
      if (address.find(IpOf(host) + ":") != std::string::npos) return host;
    }
    ADD_FAILURE() << address;
    return 'b';
  }

  // ---- Links.

  // Cuts links for the hosts on both sides, and for as long as `meanwhile` takes.
  void Cut(const std::vector<std::pair<char, char>>& links, const std::function<void()>& meanwhile) {
    const int64_t begin_ns = MachineNow();
    for (const auto& [one, other] : links) EXPECT_EQ(Do(one, Link(other, "cut")), "0");
    events_.cuts += static_cast<int>(links.size());
    meanwhile();
    for (const auto& [one, other] : links) EXPECT_EQ(Do(one, Link(other, "up")), "0");
    cuts_.push_back({begin_ns, MachineNow()});
  }
  static std::string Link(char other, const std::string& what) {
    return absl::StrCat("run link --to=", std::string(1, other), " ", what);
  }
  int64_t MachineNow() {
    const std::optional<int64_t> now_ns = machine_();
    EXPECT_TRUE(now_ns.has_value());
    return now_ns.value_or(0);
  }

  // ---- Events. All begin and end with a group that is whole.

  void AwaitSuccessorOf(char primary) {
    bool alone = false;
    const bool seen = Await(absl::StrCat("a successor of ", std::string(1, primary)), [&] {
      const auto record = Record();
      if (!record.has_value()) return false;
      // It had just removed the other one.
      alone = record->members.size() == 1 && HostOf(record->primary().address) == primary;
      return alone || HostOf(record->primary().address) != primary;
    });
    Log(alone ? "no server can take its place"
              : absl::StrCat("another one than ", std::string(1, primary), " is primary"));
    if (!seen || alone) return;
    ++events_.failovers;
    Nap(500, 1'500);  // while clients may still READ the memory of the former one
  }
  // Waits for the successor of a primary that was cut off. The server beside etcd keeps the place: the other cannot
  // promote itself.
  void AwaitSuccessorIfItReachesEtcd(char primary) {
    if (primary == still_) {
      AwaitSuccessorOf(primary);
    } else {
      Nap(3'000, 5'000);
    }
  }
  void KillPrimary() {
    const char primary = Primary();
    Do(primary, "kill");
    ++events_.kills;
    AwaitSuccessorOf(primary);
    Do(primary, "restart");
    AwaitWhole();
  }
  void StopPrimary() {
    const char primary = Primary();
    Do(primary, "stop");
    ++events_.stops;
    AwaitSuccessorOf(primary);
    Do(primary, "continue");
    AwaitWhole();
  }
  void MakePrimary(char host) {
    while (Primary() != host && !testing::Test::HasFailure()) StopPrimary();
  }
  void CutMembersApart() {
    const char primary = Primary();
    Cut({{primary, Other(primary)}}, [&] { AwaitSuccessorIfItReachesEtcd(primary); });
    AwaitWhole();
  }
  void CutPrimaryOff() {
    const char primary = Primary();
    Cut({{primary, 'a'}, {primary, Other(primary)}}, [&] { AwaitSuccessorIfItReachesEtcd(primary); });
    AwaitWhole();
  }
  void CutClientsFromPrimary() {
    Cut({{'a', Primary()}}, [&] { Nap(2'000, 3'500); });
    AwaitWhole();
  }
  void CutClientsFromBackup() {
    Cut({{'a', Other(Primary())}}, [&] { Nap(2'000, 3'500); });
    AwaitWhole();
  }
  void StopHostOfPrimary() {
    MakePrimary(still_);
    Run(absl::StrCat("peer ", std::string(1, still_), " pause"));
    ++events_.standstills;
    AwaitSuccessorOf(still_);
    Run(absl::StrCat("peer ", std::string(1, still_), " resume"));
    AwaitWhole();
  }
  void StopHostOfBackup() {
    MakePrimary(Other(still_));
    Run(absl::StrCat("peer ", std::string(1, still_), " pause"));
    ++events_.standstills;
    Nap(1'500, 4'000);
    Run(absl::StrCat("peer ", std::string(1, still_), " resume"));
    AwaitWhole();
  }
  // While the clients of host a are stopped, the primary loses its role. It can still be READ when they continue: by
  // their clocks they checked the words a moment ago.
  void StopHostOfClients() {
    const char primary = Primary();
    Do(primary, "stop");
    ++events_.stops;
    Run("peer a nap 12");
    ++events_.standstills;
    AwaitSuccessorOf(primary);
    Do(primary, "continue");
    AwaitWhole();
  }

  // ---- The answers to clients.

  static void LogClockUncertainty(char host, const std::vector<TimeSample>& samples) {
    std::vector<int64_t> spans_ns;
    for (size_t i = 1; i < samples.size(); ++i) spans_ns.push_back(samples[i].there_ns - samples[i - 1].there_ns);
    std::sort(spans_ns.begin(), spans_ns.end());
    std::printf("host %c: moments known to within %.1f ms, one in a hundred to %.1f, none worse than %.1f\n", host,
                static_cast<double>(spans_ns[spans_ns.size() / 2]) / 1e6,
                static_cast<double>(spans_ns[spans_ns.size() * 99 / 100]) / 1e6,
                static_cast<double>(spans_ns.back()) / 1e6);
  }

  void Count(const history::Operation& operation, int* others) {
    ++events_.operations;
    if (operation.found != 0 && Board::HostOf(operation.found) != Board::HostOfClient(operation.client)) ++*others;
    const bool has_end = operation.end_ns != history::kNever;
    if (has_end && operation.end_ns - operation.begin_ns < kNsInS / 2) return;
    for (const auto& [begin_ns, end_ns] : cuts_) {
      if (operation.begin_ns > begin_ns && operation.begin_ns < end_ns) ++events_.held_up;
    }
  }

  const std::string hosts_, folder_;

  std::minstd_rand random_;
  Events& events_;
  Orders orders_;
  TimeAsker::Question machine_;
  std::vector<std::unique_ptr<PeerProcess>> hands_;
  std::unique_ptr<cluster::EtcdDirectory> directory_;
  char still_ = 'b';  // of the hosts of servers, the one that is stopped; the other one has etcd
  const int64_t began_ns_ = MachineNow();
  std::vector<std::pair<int64_t, int64_t>> cuts_;
};

TEST(GroupHostsTest, WhatClientsOfAllHostsAreToldIsLinearizable) {
  std::random_device device;
  Events events;
  const int64_t rounds = Repeat(1, 30);
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    const char* const given = std::getenv("FARLOOK_SEED");  // of a round to repeat
    GroupOnHosts group(round, given == nullptr ? device() : static_cast<uint32_t>(std::strtoul(given, nullptr, 10)),
                       &events);
    group.Disturb(rounds == 1 ? 55 * kNsInS : 3'600 * kNsInS, /*shuffled=*/round > 0);
    group.Judge();
    std::printf(
        "after %d rounds: %zu operations, %d failovers, %d cuts of a link that held up %zu operations, %d servers "
        "killed, "
        "%d stopped, %d standstills of a guest, %d processes killed or stopped\n",
        round + 1, events.operations, events.failovers, events.cuts, events.held_up, events.kills, events.stops,
        events.standstills, events.users);
    std::fflush(stdout);
  }
  EXPECT_GT(events.failovers, 0) << "nobody took a primary's place";
  EXPECT_GT(events.standstills, 0);
  EXPECT_GT(events.held_up, 0u) << "nobody was cut off";
}

}  // namespace
}  // namespace farlook

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  farlook::self = argv[0];
  if (argc == 4 && std::string(argv[1]) == "--obey") return farlook::ObeyAsHost(argv[2][0], argv[3]);
  return RUN_ALL_TESTS();
}
