// A group whose record is in etcd, as between hosts, including an etcd that is stopped, or was restored.
#include <signal.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "cluster/etcd_process.h"
#include "farlook/admin.h"
#include "farlook/client.h"
#include "gtest/gtest.h"
#include "tests/cluster/group_fixture.h"
#include "tests/faults/server_process.h"

namespace farlook {
namespace {

// Constructed before the servers, and destroyed after them.
struct Etcd {
  cluster::EtcdProcesses etcd{1};
};

// Only the members themselves report an end, as between hosts.
class EtcdGroupTest : private Etcd, public GroupTest {
 protected:
  explicit EtcdGroupTest(const std::string& suspicion = "300ms")
      : GroupTest(suspicion, "etcd://" + etcd.endpoints()[0].substr(strlen("http://")) + "/g") {}

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

class PatientEtcdGroupTest : public EtcdGroupTest {
 protected:
  PatientEtcdGroupTest() : EtcdGroupTest("10m") {}
};

// A primary that ends in order has the record say so: its backup does not wait for the suspicion.
TEST_F(PatientEtcdGroupTest, APrimaryThatLeavesIsReplacedAtOnce) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  const absl::Status status = HandOver(client_.get());
  ASSERT_TRUE(status.ok()) << status;
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*b_));
  AwaitBackup();
  b_->Signal(SIGTERM);
  b_->Wait();
  chain.Advance(100);
  EXPECT_TRUE(IsPrimary(*a_));
  ExpectExact(&chain);
  ExpectAllItems();
}

// The directory is not needed for a get or a write. Until it is back no backup becomes primary.
TEST_F(EtcdGroupTest, WithoutEtcdTheGroupGoesOnAndAFailoverWaits) {
  StartBackup();
  Chain chain(addresses_, "chain");
  chain.Advance(100);
  etcd.Signal(0, SIGSTOP);
  chain.Advance(1000);
  EXPECT_TRUE(IsPrimary(*a_));
  AwaitStatus("\ndirectory does not answer\nhealth degraded no member can be replaced: ", true);
  EXPECT_EQ(ServerStat(client_.get(), "group_directory_away"), 1);
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

// No backup could replace the primary.
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

// No member can be removed from a record that cannot be changed, so the backup is still a member.
TEST_F(EtcdGroupTest, ABackupThatDoesNotComeIsNotWaitedForForEver) {
  StartBackup();
  ASSERT_TRUE(client_->Put("key", "both").ok());
  etcd.Signal(0, SIGSTOP);
  b_->Signal(SIGKILL);
  b_->Wait();
  const absl::Status status = HandOver(client_.get());
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  etcd.Signal(0, SIGCONT);
  b_->Restart();
  AwaitBackup();
  EXPECT_TRUE(IsPrimary(*a_)) << "what was given up is not carried out later";
  EXPECT_TRUE(HandOver(client_.get()).ok());
  ExpectAllItems();
}

// Follows the steps of docs/cluster.md.
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

// Its record is older than the members': it is not believed, and they continue unchanged.
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
