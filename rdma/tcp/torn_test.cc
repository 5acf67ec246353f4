// Sockets that are cut after any number of bytes, or deliver them one by one: whole frames are delivered, nothing else
// is, and both sides notice the end.
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"
#include "rdma/host/resolver.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shared_memory.h"
#include "rdma/tcp/endpoint.h"
#include "rdma/tcp/listener.h"
#include "rdma/tcp/socket.h"
#include "rdma/tcp/test_address.h"
#include "rdma/transport.h"

namespace farlook::rdma::tcp {
namespace {

constexpr auto kBound = std::chrono::seconds(20);

// The place at which a connection is cut.
struct Cut {
  size_t socket = SIZE_MAX;  // 0: that of messages, 1: that of READs; otherwise none
  bool to_server = false;    // the direction whose bytes count
  size_t after = 0;
  bool reset = false;  // the sockets end with RST, and unread bytes are lost; otherwise with FIN
};

// A proxy between clients and a server that forwards their bytes.
class Between {
 public:
  explicit Between(const std::string& server)
      : to_(ResolveWithin(*ParseAddress(server), 0)->front()),
        address_(UnusedAddress()),
        listening_(std::move(ListenAt(*ParseAddress(address_))->front())) {}

  const std::string& address() const { return address_; }
  // Applies to sockets that connect from now on.
  void Begin(const Cut& cut, size_t at_once) {
    pairs_.clear();
    cut_ = cut;
    at_once_ = at_once;
    has_cut_ = false;
  }
  bool has_cut() const { return has_cut_; }

  void Pump() {
    if (UniqueFd came = AcceptFrom(listening_.get(), 3000); came.ok()) {
      Pair pair;
      pair.ends[0] = std::move(came);
      pair.ends[1] = UniqueFd(socket(to_.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(connect(pair.ends[1].get(), to_.get(), to_.bytes()), 0) << strerror(errno);
      if (pairs_.size() == cut_.socket) pair.left[cut_.to_server ? 0 : 1] = cut_.after;
      pairs_.push_back(std::move(pair));
    }
    for (Pair& pair : pairs_) {
      for (const int from : {0, 1}) Forward(pair, from);
    }
  }

 private:
  struct Pair {
    UniqueFd ends[2];                       // the client's, the server's
    size_t left[2] = {SIZE_MAX, SIZE_MAX};  // that are forwarded from each
  };

  void Forward(Pair& pair, int from) {
    if (!pair.ends[0].ok()) return;
    char bytes[4096];
    size_t& left = pair.left[from];
    ssize_t came = -1;
    if (left > 0) {
      came = recv(pair.ends[from].get(), bytes, std::min({left, sizeof bytes, at_once_}), MSG_DONTWAIT);
      if (came < 0 && errno == EAGAIN) return;
    }
    if (came > 0) {
      left -= left == SIZE_MAX ? 0 : static_cast<size_t>(came);
      // Little is under way, so there is room. The other side may be closed already.
      send(pair.ends[1 - from].get(), bytes, static_cast<size_t>(came), MSG_NOSIGNAL);
      if (left > 0) return;
    }
    has_cut_ = has_cut_ || left == 0;
    for (UniqueFd& end : pair.ends) {
      const linger at_once = {1, 0};
      if (cut_.reset) setsockopt(end.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      end.reset();
    }
  }

  const SocketAddress to_;
  const std::string address_;
  const UniqueFd listening_;
  std::list<Pair> pairs_;
  Cut cut_;
  size_t at_once_ = 4096;
  bool has_cut_ = false;
};

class TornTest : public testing::Test {
 protected:
  static constexpr uint64_t kTableBytes = uint64_t{1} << 20;

  void SetUp() override {
    const std::string address = UnusedAddress();
    listener_ = *TcpListener::Create(*ParseAddress(address), TransportOptions());
    SharedMemoryOptions memory;
    memory.bytes = kTableBytes;
    memory.huge_pages = HugePages::kNone;
    memory_ = std::make_unique<SharedMemory>(*SharedMemory::Create(memory));
    for (uint64_t i = 0; i < kTableBytes; ++i) memory_->data()[i] = static_cast<char>('a' + i % 23);
    table_ = *listener_->Offer(memory_->range(), Access::kRemoteRead);
    server_ = *listener_->CreateEndpoint();
    client_ = *TcpEndpoint::Create({});
    buffer_ = *client_->Allocate(4096, /*readable_by_peers=*/true);
    for (size_t i = 0; i < 4096; ++i) buffer_->bytes()[i] = static_cast<char>('A' + i % 19);
    between_ = std::make_unique<Between>(address);
  }

  // One side of a conversation.
  struct Side {
    std::unique_ptr<Connection> connection;
    std::vector<std::string> received;
    std::vector<uint64_t> read;  // wr_ids of the READs that succeeded
    bool ended = false;
  };
  struct Read {
    uint64_t address;
    uint32_t bytes;
    char to[64] = {};
  };

  // Messages of various lengths, the same from both sides.
  static std::vector<std::string> Messages() { return {"m", "message2", std::string(30, '3')}; }

  void Speak(Side& side, std::vector<Read>& reads, uint32_t rkey) {
    for (const std::string& message : Messages()) EXPECT_TRUE(side.connection->PostSend(message, ""));
    for (size_t i = 0; i < reads.size(); ++i) {
      const Sge piece = {reads[i].to, reads[i].bytes};
      EXPECT_TRUE(side.connection->PostRead(i, {&piece, 1}, reads[i].address, rkey));
    }
    side.connection->Ring();
  }

  void Take(Endpoint* endpoint, Side& side, const std::vector<Read>& reads, const char* memory) {
    Completion done[16];
    const size_t count = endpoint->Poll(absl::MakeSpan(done));
    for (size_t i = 0; i < count; ++i) {
      if (done[i].connection != side.connection.get()) continue;  // of an earlier conversation
      if (done[i].opcode == Opcode::kReceive)
        side.received.emplace_back(done[i].message.data(), done[i].message.size());
      if (done[i].opcode == Opcode::kDisconnected) side.ended = true;
      if (done[i].opcode == Opcode::kConnected) Speak(client_side_, client_reads_, table_.rkey);
      if (done[i].opcode != Opcode::kRead || done[i].status != WcStatus::kSuccess) continue;
      const Read& read = reads[done[i].wr_id];
      EXPECT_EQ(memcmp(read.to, memory + read.address, read.bytes), 0);
      side.read.push_back(done[i].wr_id);
    }
  }

  void Pump() {
    between_->Pump();
    if (std::unique_ptr<ConnectionRequest> request = listener_->Next(); request != nullptr) {
      // Otherwise it belongs to a conversation that was cut before its server accepted it.
      if (request->hello().substr(0, hello_.size()) == hello_) {
        auto accepted = request->Accept(server_.get(), "welcome", {&table_.rkey, 1});
        if (accepted.ok()) {
          server_side_.connection = *std::move(accepted);
          Speak(server_side_, server_reads_, buffer_->remote().rkey);
        }
      }
    }
    Take(client_.get(), client_side_, client_reads_, memory_->data());
    Take(server_.get(), server_side_, server_reads_, buffer_->bytes().data() - buffer_->remote().address);
  }

  static bool ReceivedAll(const Side& side) { return side.received == Messages() && side.read.size() == 2; }
  static void ExpectWhole(const Side& side) {
    const std::vector<std::string> messages = Messages();
    ASSERT_LE(side.received.size(), messages.size());
    EXPECT_TRUE(std::equal(side.received.begin(), side.received.end(), messages.begin()));
    ASSERT_LE(side.read.size(), 2u);
    for (size_t i = 0; i < side.read.size(); ++i) EXPECT_EQ(side.read[i], i);
  }

  // Runs a whole conversation. Returns whether it was cut.
  bool Converse(const Cut& cut, size_t at_once = 4096) {
    between_->Begin(cut, at_once);
    hello_ = absl::StrCat("conversation ", ++conversations_, ".");
    client_reads_ = {{64, 64}, {4096, 40}};
    server_reads_ = {{buffer_->remote().address, 64}, {buffer_->remote().address + 8, 40}};
    client_side_.connection = *client_->Connect(between_->address(), hello_, 10'000);
    const auto until = std::chrono::steady_clock::now() + kBound;
    const auto over = [this] {
      return client_side_.ended && (server_side_.connection == nullptr || server_side_.ended);
    };
    while (!over() && !(ReceivedAll(client_side_) && ReceivedAll(server_side_))) {
      Pump();
      if (std::chrono::steady_clock::now() > until) {
        ADD_FAILURE() << "neither an end nor all that was said: client " << client_side_.ended << ", server "
                      << (server_side_.connection != nullptr) << server_side_.ended;
        break;
      }
      std::this_thread::yield();
    }
    ExpectWhole(client_side_);
    ExpectWhole(server_side_);
    const bool was_cut = between_->has_cut();
    EXPECT_EQ(client_side_.connection->status().ok(), !was_cut);
    EXPECT_EQ(client_side_.ended, was_cut);
    client_side_ = Side();
    server_side_ = Side();
    return was_cut;
  }

  // Cuts one direction of a socket after each of its bytes.
  void CutEverywhere(size_t socket, bool to_server, size_t at_least) {
    for (const bool reset : {false, true}) {
      Cut cut = {socket, to_server, 0, reset};
      for (; Converse(cut) && !HasFailure(); ++cut.after) {
        SCOPED_TRACE(absl::StrCat("after ", cut.after, reset ? ", reset" : ""));
      }
      ASSERT_FALSE(HasFailure());  // each wait in vain lasts kBound
      EXPECT_GE(cut.after, at_least);
    }
    EXPECT_FALSE(Converse(Cut()));
  }

  std::unique_ptr<SharedMemory> memory_;
  std::unique_ptr<TcpListener> listener_;
  RemoteRange table_;
  std::unique_ptr<Endpoint> server_;
  std::unique_ptr<TcpEndpoint> client_;
  std::unique_ptr<Buffer> buffer_;
  std::unique_ptr<Between> between_;
  std::string hello_;
  int conversations_ = 0;
  std::vector<Read> client_reads_, server_reads_;
  Side client_side_, server_side_;
};

// At least three message frames with 16 bytes of head are sent each way, after the handshake.
TEST_F(TornTest, MessagesToTheServer) { CutEverywhere(0, true, 100); }
TEST_F(TornTest, MessagesToTheClient) { CutEverywhere(0, false, 100); }
TEST_F(TornTest, ReadsToTheServer) { CutEverywhere(1, true, 64); }
TEST_F(TornTest, ReadsToTheClient) { CutEverywhere(1, false, 120); }

TEST_F(TornTest, ByteByByteAllIsSaid) { EXPECT_FALSE(Converse(Cut(), 1)); }

}  // namespace
}  // namespace farlook::rdma::tcp
