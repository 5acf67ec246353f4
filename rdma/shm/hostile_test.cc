// Clients that break every rule: the server goes on serving, and leaks nothing.
#include <fcntl.h>
#include <linux/memfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shared_memory.h"
#include "rdma/shm/limits.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/packet_socket.h"
#include "rdma/shm/raw_client.h"
#include "rdma/transport.h"
#include "rdma/violations.h"

namespace farlook::rdma::shm {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kBoundMs = 20'000;

class HostileTest : public testing::Test {
 protected:
  HostileTest() {
    SetViolationObserver([this](Violator who, absl::string_view, absl::string_view) {
      ++(who == Violator::kStranger ? strangers_ : violating_clients_);
    });
    static int next = 0;
    address_ = absl::StrCat("shm:///tmp/farlook_hostile_", std::random_device()(), "_", next++);
    SharedMemoryOptions options;
    options.bytes = 1 << 20;
    options.huge_pages = HugePages::kNone;
    absl::StatusOr<SharedMemory> memory = SharedMemory::Create(options);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = std::make_unique<SharedMemory>(*std::move(memory));
    absl::StatusOr<std::unique_ptr<Listener>> listener = Listen(address_);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    table_ = *listener_->Offer(memory_->range(), Access::kRemoteRead);
    endpoint_ = *listener_->CreateEndpoint();
  }
  ~HostileTest() override {
    SetViolationObserver(nullptr);
    connections_.clear();
    endpoint_.reset();
    listener_.reset();
  }

  // One round of a server: accepts, polls, echoes; forgets disconnected clients. Returns the number of completions.
  size_t Serve() {
    listener_->CleanUp();
    while (std::unique_ptr<ConnectionRequest> request = listener_->Next()) {
      absl::StatusOr<std::unique_ptr<Connection>> connection =
          request->Accept(endpoint_.get(), "welcome", absl::MakeConstSpan(&table_.rkey, 1));
      EXPECT_TRUE(connection.ok()) << connection.status();
      if (connection.ok()) connections_.push_back(*std::move(connection));
    }
    Completion completions[16];
    const size_t count = endpoint_->Poll(absl::MakeSpan(completions));
    for (size_t i = 0; i < count; ++i) {
      const Completion& c = completions[i];
      last_status_ = c.status;
      if (c.opcode == Opcode::kReceive) {
        ++received_;
        c.connection->PostSend("echo", "");
        c.connection->Ring();
      } else if (c.opcode == Opcode::kRead) {
        ++reads_;
      } else if (c.opcode == Opcode::kDisconnected) {
        ++disconnected_;
        last_reason_ = std::string(c.connection->status().message());
        connections_.erase(std::find_if(connections_.begin(), connections_.end(),
                                        [&](const auto& connection) { return connection.get() == c.connection; }));
      }
    }
    return count;
  }

  template <typename Done>
  bool ServeUntil(Done done) {
    const int64_t end_ns = Clock::Real().NowNs() + kBoundMs * 1'000'000;
    while (!done()) {
      Serve();
      if (Clock::Real().NowNs() > end_ns) {
        ADD_FAILURE() << "not within " << kBoundMs << " ms";
        return false;
      }
    }
    return true;
  }

  // Returns a raw client that was accepted.
  std::unique_ptr<RawClient> Accepted() {
    auto client = std::make_unique<RawClient>(address_);
    EXPECT_TRUE(client->connected());
    client->Send(BytesOf(HelloPacket()));
    const size_t before = connections_.size();
    ServeUntil([&] { return connections_.size() > before; });
    return client;
  }

  // Expect: an honest client is served.
  void ExpectServes() {
    absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = CreateEndpoint(address_);
    ASSERT_TRUE(endpoint.ok());
    absl::StatusOr<std::unique_ptr<Connection>> connection = (*endpoint)->Connect(address_, "honest", kBoundMs);
    ASSERT_TRUE(connection.ok());
    Completion completion;
    ASSERT_TRUE(ServeUntil([&] { return (*endpoint)->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
    ASSERT_EQ(completion.opcode, Opcode::kConnected) << (*connection)->status();
    ASSERT_TRUE((*connection)->PostSend("ping", ""));
    (*connection)->Ring();
    ASSERT_TRUE(ServeUntil([&] { return (*endpoint)->Poll(absl::MakeSpan(&completion, 1)) == 1; }));
    ASSERT_EQ(completion.opcode, Opcode::kReceive);
    connection->reset();
    const size_t before = disconnected_;
    ServeUntil([&] { return disconnected_ > before; });
  }

  // A server READ of a buffer that the client named.
  WcStatus Pull(uint64_t offset, uint32_t bytes, uint32_t rkey) {
    landing_.resize(bytes);
    const Sge piece = {landing_.data(), bytes};
    const size_t before = reads_;
    EXPECT_FALSE(connections_.empty());
    if (!connections_.back()->PostRead(1, absl::MakeConstSpan(&piece, 1), offset, rkey)) return WcStatus::kFlushed;
    connections_.back()->Ring();
    Completion completion;
    while (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 0) {
    }
    EXPECT_EQ(completion.opcode, Opcode::kRead);
    EXPECT_EQ(reads_, before);
    return completion.status;
  }

  std::string address_;
  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<Listener> listener_;
  RemoteRange table_;
  std::unique_ptr<Endpoint> endpoint_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string landing_;
  size_t received_ = 0;
  size_t reads_ = 0;
  size_t disconnected_ = 0;
  WcStatus last_status_ = WcStatus::kSuccess;
  std::string last_reason_;
  int strangers_ = 0, violating_clients_ = 0;  // as reported
};

NoticePacket OfferNotice(uint32_t rkey, uint64_t bytes) {
  NoticePacket notice;
  notice.notice = Notice::kOffer;
  notice.rkey = rkey;
  notice.bytes = bytes;
  return notice;
}

uint64_t AllocatedBytes(int fd) {
  struct stat info;
  EXPECT_EQ(fstat(fd, &info), 0);
  return 512 * static_cast<uint64_t>(info.st_blocks);
}

// Memory as an honest client offers it: fully allocated and sealed.
UniqueFd Offerable(uint64_t bytes) {
  absl::StatusOr<UniqueFd> memory = CreateSealable("x", bytes);
  EXPECT_TRUE(memory.ok());
  EXPECT_EQ(fallocate(memory->get(), 0, 0, static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(Seal(memory->get(), Sealing::kReadOnly).ok());
  return *std::move(memory);
}

size_t CountFds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

size_t CountOurMappings() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("farlook-") != std::string::npos ? 1 : 0;
  return count;
}

TEST_F(HostileTest, GarbageInsteadOfAHello) {
  std::mt19937_64 random(1);
  for (size_t bytes = 0; bytes < 700; bytes += 7) {
    RawClient client(address_);
    std::string noise(bytes + 1, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (bytes % 2 == 0) memcpy(noise.data(), &kMagic, std::min(noise.size(), sizeof(kMagic)));
    client.Send(noise);
    Serve();
  }
  EXPECT_EQ(strangers_, 100) << "each is reported";
  EXPECT_TRUE(connections_.empty());
  ExpectServes();
}

TEST_F(HostileTest, AnotherVersionIsToldWhy) {
  RawClient client(address_);
  HelloPacket hello;
  hello.version = 99;
  client.Send(BytesOf(hello));
  Serve();
  ReceivedPacket packet;
  ASSERT_EQ(client.Receive(&packet), Io::kDone);
  AnswerPacket answer;
  ASSERT_TRUE(DecodeAnswer(packet.view(), packet.fds.size(), &answer).ok());
  EXPECT_FALSE(answer.accepted);
  EXPECT_THAT(std::string(answer.text, answer.text_bytes), HasSubstr("version 99"));
}

TEST_F(HostileTest, ClientsThatSayNothingNeitherBlockNorPileUp) {
  const size_t fds_before = CountFds();
  std::vector<std::unique_ptr<RawClient>> silent;
  for (size_t i = 0; i < 3 * kMaxPendingHandshakes; ++i) {
    silent.push_back(std::make_unique<RawClient>(address_));
    ASSERT_TRUE(silent.back()->connected());
    Serve();
  }
  // Expect: at most the allowed number is held, in addition to the test's own end of each.
  EXPECT_LE(CountFds() - fds_before - silent.size(), kMaxPendingHandshakes);
  ExpectServes();
  // Expect: the oldest were dropped.
  ReceivedPacket packet;
  EXPECT_EQ(silent.front()->Receive(&packet), Io::kClosed);
}

TEST_F(HostileTest, DescriptorsWithTheHelloAreClosed) {
  const size_t before = CountFds();
  for (int i = 0; i < 50; ++i) {
    RawClient client(address_);
    const std::vector<int> fds(kMaxPacketFds, 0);
    client.Send(BytesOf(HelloPacket()), fds);
    Serve();
  }
  EXPECT_EQ(CountFds(), before);
  ExpectServes();
}

TEST_F(HostileTest, TheRingsCannotBeTruncatedNorTheLifePageWritten) {
  auto client = Accepted();
  ASSERT_NE(client->TakeRings(), nullptr);
  EXPECT_NE(ftruncate(client->rings_fd(), 0), 0);
  EXPECT_NE(ftruncate(client->life_fd(), 0), 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client->life_fd(), 0), MAP_FAILED);
  const int reopened = open(absl::StrCat("/proc/self/fd/", client->life_fd()).c_str(), O_RDWR);
  ASSERT_GE(reopened, 0);
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, reopened, 0), MAP_FAILED);
  close(reopened);
  // Expect: holes punched into the rings read as zeros and cause no signals.
  fallocate(client->rings_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof(SegmentLayout));
  for (int i = 0; i < 1000; ++i) Serve();
  ExpectServes();
}

TEST_F(HostileTest, RandomRings) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    auto client = Accepted();
    SegmentLayout* const rings = client->TakeRings();
    ASSERT_NE(rings, nullptr);
    const size_t before = disconnected_;
    for (int step = 0; step < 60 && disconnected_ == before; ++step) {
      for (int i = 0; i < 500; ++i) {
        uint64_t word = random();
        // Tags that look valid, more often than by chance.
        if (i % 2 == 0) word = (1 + random() % 2) << 32 | (random() % (kMaxMessageBytes + (i % 20 == 0 ? 200 : 0)));
        rings->to_server[random() % kClientToServerCells].tag.store(word, std::memory_order_relaxed);
        rings->to_server[random() % 64].tag.store(word, std::memory_order_relaxed);
      }
      rings->to_client_consumer.head.store(random() % 3 == 0 ? random() : random() % 10'000);
      rings->to_client_consumer.sleeping.store(static_cast<uint32_t>(random()));
      rings->to_server_consumer.head.store(random());
      rings->to_server_producer.wants_room.store(static_cast<uint32_t>(random()));
      rings->to_client_producer.wants_room.store(static_cast<uint32_t>(random()));
      Serve();
    }
    client->Close();
    ServeUntil([&] { return disconnected_ > before; });
  }
  ExpectServes();
}

// A client that sends for ever and never reads: the server neither blocks nor harms other clients.
TEST_F(HostileTest, AClientThatNeverReads) {
  auto client = Accepted();
  SegmentLayout* const rings = client->TakeRings();
  ASSERT_NE(rings, nullptr);
  RingProducer producer(rings->to_server, kClientToServerCells, &rings->to_server_consumer, &rings->to_server_producer);
  for (int i = 0; i < 20'000; ++i) {
    producer.Send("noise", "");
    client->Send(BytesOf(NoticePacket()));        // unrequested wake-ups, until the socket is full
    rings->to_client_consumer.sleeping.store(1);  // requests a wake-up for each echo
    Serve();
  }
  EXPECT_GT(received_, 1000u);
  ExpectServes();
}

// A client may write to its ring even after its end of file: kDisconnected is delivered all the same.
TEST_F(HostileTest, AClientThatWritesAfterItsEnd) {
  auto client = Accepted();
  SegmentLayout* const rings = client->TakeRings();
  ASSERT_NE(rings, nullptr);
  RingProducer producer(rings->to_server, kClientToServerCells, &rings->to_server_consumer, &rings->to_server_producer);
  client->Close();
  ServeUntil([&] {
    for (int i = 0; i < 100; ++i) producer.Send("zombie", "");
    return disconnected_ == 1;
  });
}

TEST_F(HostileTest, MalformedNoticesBreakThatConnectionOnly) {
  auto bystander = Accepted();
  for (int kind = 0; kind < 4; ++kind) {
    auto client = Accepted();
    NoticePacket notice;
    switch (kind) {
      case 0:
        client->Send("x");
        break;
      case 1:
        notice.notice = static_cast<Notice>(77);
        client->Send(BytesOf(notice));
        break;
      case 2:
        client->Send(BytesOf(OfferNotice(kRangeSlots, 4096)));  // without a descriptor
        break;
      case 3:
        client->Send(std::string(5000, 'x'));
        break;
    }
    const size_t before = disconnected_;
    ServeUntil([&] { return disconnected_ > before; });
    EXPECT_THAT(last_reason_, HasSubstr("broke the protocol"));
    EXPECT_EQ(violating_clients_, kind + 1) << "each is reported";
  }
  EXPECT_EQ(connections_.size(), 1u);
}

// Every kind of descriptor whose mapping could harm the server.
TEST_F(HostileTest, BuffersThatAreNotSealedMemoryAreRefused) {
  constexpr uint64_t kBytes = 1 << 16;
  std::vector<std::pair<std::string, UniqueFd>> fds;
  const auto add = [&](const char* what, int fd) -> int {
    EXPECT_GE(fd, 0) << what;
    fds.emplace_back(what, UniqueFd(fd));
    return fd;
  };
  int fd = add("memfd without seals", memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  fd = add("memfd that cannot be sealed", memfd_create("x", 0));
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  fd = add("memfd sealed against growing only", memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd, kBytes), 0);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL), 0);
  fd = add("shorter than its stated length", memfd_create("x", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fd, kBytes / 2), 0);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  add("ordinary file", open("/proc/self/exe", O_RDONLY));
  add("device", open("/dev/zero", O_RDWR));
  add("eventfd", eventfd(0, 0));
  const int huge = memfd_create("x", MFD_ALLOW_SEALING | MFD_HUGETLB | MFD_HUGE_2MB);
  if (huge >= 0) {
    fd = add("huge pages, whose holes are signals", huge);
    ASSERT_EQ(ftruncate(fd, 2 << 20), 0);
    ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  }
  for (const auto& [what, bad] : fds) {
    SCOPED_TRACE(what);
    auto client = Accepted();
    const int sent = bad.get();
    ASSERT_EQ(client->Send(BytesOf(OfferNotice(kRangeSlots, kBytes)), absl::MakeConstSpan(&sent, 1)), Io::kDone);
    EXPECT_EQ(Pull(0, 8, kRangeSlots), WcStatus::kFlushed);
    const size_t before = disconnected_;
    ServeUntil([&] { return disconnected_ > before; });
    EXPECT_THAT(last_reason_, HasSubstr("broke the protocol"));
  }
  ExpectServes();
}

TEST_F(HostileTest, TooManyOrTooLargeBuffersBreakTheConnection) {
  const UniqueFd large = Offerable(kMaxBufferBytes / 4);
  const int fd = large.get();
  auto client = Accepted();
  for (uint32_t i = 0; i < 5; ++i) {
    client->Send(BytesOf(OfferNotice(kRangeSlots + i, kMaxBufferBytes / 4)), absl::MakeConstSpan(&fd, 1));
  }
  ServeUntil([&] { return disconnected_ == 1; });
  EXPECT_THAT(last_reason_, HasSubstr("more memory than a connection may"));
  // Expect: refused are a key in use, an offer's key, and 0.
  for (const uint32_t rkey : {kRangeSlots, kRangeSlots + kMaxBuffers, uint32_t{0}}) {
    client = Accepted();
    client->Send(BytesOf(OfferNotice(kRangeSlots, 4096)), absl::MakeConstSpan(&fd, 1));
    client->Send(BytesOf(OfferNotice(rkey, 4096)), absl::MakeConstSpan(&fd, 1));
    const size_t before = disconnected_;
    ServeUntil([&] { return disconnected_ > before; });
  }
  ExpectServes();
}

// A READ posted before the withdrawal must not touch the mapping after it.
TEST_F(HostileTest, AWithdrawalBetweenPostAndRing) {
  const UniqueFd memory = Offerable(4096);
  const int fd = memory.get();
  auto client = Accepted();
  client->Send(BytesOf(OfferNotice(kRangeSlots, 4096)), absl::MakeConstSpan(&fd, 1));
  EXPECT_EQ(Pull(0, 8, kRangeSlots), WcStatus::kSuccess);
  char to[16];
  const Sge piece = {to, 8};
  ASSERT_TRUE(connections_.back()->PostRead(1, absl::MakeConstSpan(&piece, 1), 0, kRangeSlots));
  NoticePacket withdraw;
  withdraw.notice = Notice::kWithdraw;
  withdraw.rkey = kRangeSlots;
  client->Send(BytesOf(withdraw));
  // An unknown key makes the server check its socket, and so find the withdrawal.
  ASSERT_TRUE(connections_.back()->PostRead(2, absl::MakeConstSpan(&piece, 1), 0, kRangeSlots + 1));
  connections_.back()->Ring();
  ServeUntil([&] { return disconnected_ == 1; });
  EXPECT_EQ(reads_, 2u);
}

// Reading a hole through a mapping allocates a page, which is charged to the reader. So a client with a few files could
// fill the server's memory: it offers holes, announces values there, withdraws, and repeats that with the next file.
TEST_F(HostileTest, ReadingAClientsMemoryAllocatesNone) {
  constexpr uint64_t kBytes = 1 << 20;
  for (const bool punched : {false, true}) {
    SCOPED_TRACE(punched);
    absl::StatusOr<UniqueFd> memory = CreateSealable("x", kBytes);
    ASSERT_TRUE(memory.ok());
    const int fd = memory->get();
    if (punched) {
      ASSERT_EQ(fallocate(fd, 0, 0, kBytes), 0);
    }
    ASSERT_TRUE(Seal(fd, punched ? Sealing::kFixedSize : Sealing::kReadOnly).ok());
    auto client = Accepted();
    client->Send(BytesOf(OfferNotice(kRangeSlots, kBytes)), absl::MakeConstSpan(&fd, 1));
    Serve();
    if (punched) {
      ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kBytes), 0);
    }
    EXPECT_EQ(Pull(0, kBytes, kRangeSlots), WcStatus::kFlushed);
    EXPECT_EQ(AllocatedBytes(fd), 0u);
    ServeUntil([&] { return connections_.empty(); });
    EXPECT_THAT(last_reason_, HasSubstr("broke the protocol"));
  }
}

// A hole beyond the length that the client announced.
TEST_F(HostileTest, MemoryWithAHoleAnywhereIsRefused) {
  for (const uint64_t hole : {0, 4096, 61440}) {
    absl::StatusOr<UniqueFd> memory = CreateSealable("x", 1 << 16);
    ASSERT_TRUE(memory.ok());
    const int fd = memory->get();
    ASSERT_EQ(fallocate(fd, 0, 0, 1 << 16), 0);
    ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(hole), 4096), 0);
    ASSERT_TRUE(Seal(fd, Sealing::kReadOnly).ok());
    auto client = Accepted();
    client->Send(BytesOf(OfferNotice(kRangeSlots, 4096)), absl::MakeConstSpan(&fd, 1));
    ServeUntil([&] { return connections_.empty(); });
    EXPECT_THAT(last_reason_, HasSubstr("has holes"));
  }
}

TEST_F(HostileTest, NoHoleCanBePunchedUnderAPull) {
  const UniqueFd memory = Offerable(1 << 20);
  absl::StatusOr<Mapping> mapping = Map(memory.get(), 1 << 20, /*writable=*/false);
  ASSERT_TRUE(mapping.ok());
  const int fd = memory.get();
  auto client = Accepted();
  client->Send(BytesOf(OfferNotice(kRangeSlots, 1 << 20)), absl::MakeConstSpan(&fd, 1));
  EXPECT_EQ(Pull(0, 1 << 20, kRangeSlots), WcStatus::kSuccess);
  EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20), 0);
  EXPECT_NE(madvise(mapping->data(), 1 << 20, MADV_REMOVE), 0);
  EXPECT_EQ(AllocatedBytes(fd), uint64_t{1} << 20);
}

#if defined(ABSL_HAVE_THREAD_SANITIZER) || defined(ABSL_HAVE_ADDRESS_SANITIZER)
constexpr int kKills = 100;  // a fork takes long
#else
constexpr int kKills = 1000;
#endif

// The life of one client, to be killed at any point of it.
[[noreturn]] void ClientLife(const std::string& address) {
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = CreateEndpoint(address);
  if (!endpoint.ok()) _exit(1);
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*endpoint)->Allocate(1 << 16, true);
  if (!buffer.ok()) _exit(1);
  absl::StatusOr<std::unique_ptr<Connection>> connection = (*endpoint)->Connect(address, "victim", kBoundMs);
  if (!connection.ok()) _exit(1);
  Completion completion;
  while (true) {
    if ((*endpoint)->Poll(absl::MakeSpan(&completion, 1)) == 0) {
      pollfd waiting = {(*endpoint)->fd(), POLLIN, 0};
      if ((*endpoint)->Arm()) poll(&waiting, 1, -1);
      continue;
    }
    if (completion.opcode == Opcode::kDisconnected) _exit(0);
    (*connection)->PostSend("work", "");
    (*connection)->Ring();
  }
}

TEST_F(HostileTest, AThousandClientsKilledInTheMiddleLeaveNothing) {
  ExpectServes();
  Serve();
  const size_t fds_before = CountFds();
  const size_t mappings_before = CountOurMappings();
  std::mt19937_64 random(5);
  int connected_kills = 0;
  for (int i = 0; i < kKills; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) ClientLife(address_);
    // From "has not connected" to "exchanges messages".
    const size_t wanted = received_ + random() % 4;
    const bool early = i % 5 == 0;
    if (!early) ServeUntil([&] { return received_ >= wanted && !connections_.empty(); });
    if (!connections_.empty()) ++connected_kills;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    // A hello may still wait in the backlog.
    for (int round = 0; round < 3; ++round) Serve();
    ServeUntil([&] { return connections_.empty(); });
  }
  Serve();
  EXPECT_GE(connected_kills, kKills / 2);
  EXPECT_EQ(CountFds(), fds_before);
  EXPECT_EQ(CountOurMappings(), mappings_before);
  ExpectServes();
}

}  // namespace
}  // namespace farlook::rdma::shm
