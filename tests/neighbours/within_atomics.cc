// Takes places of a server, and keeps them. COUNT clients each learn of counters, claim to be within an atomic, and
// break the protocol. Prints how many were admitted, and waits to be killed.
//
//     within_atomics ADDRESS COUNT
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "rdma/transport.h"

namespace farlook {
namespace {

constexpr int64_t kConnectMs = 60'000;
constexpr size_t kInsideOffset = 512;  // offset of the word inside_ (rdma/shm/segment.h)

class RawClient {
 public:
  // Connects, sends a Hello and asks for a counter, so that the server assumes that it may know cells. False: it was
  // refused.
  bool Connect(const std::string& address) {
    endpoint_ = *rdma::CreateEndpoint(address);
    auto connection = endpoint_->Connect(address, kv::ConnectData().Encode(), kConnectMs);
    if (!connection.ok()) return false;
    connection_ = *std::move(connection);
    if (!PollUntil(rdma::Opcode::kConnected)) return false;
    Send(kv::Hello().Encode());
    if (!PollUntil(rdma::Opcode::kReceive)) return false;
    kv::Request request;
    request.type = kv::RequestType::kCounterRead;
    request.number = 1;
    request.key = "hits";
    char head[kv::kMaxRequestHeadBytes];
    Send(absl::string_view(head, request.EncodeHead(head)));
    return PollUntil(rdma::Opcode::kReceive);
  }
  void Send(absl::string_view message) {
    if (!connection_->PostSend(message, {})) abort();
    connection_->Ring();
  }

 private:
  // False: it ended before.
  bool PollUntil(rdma::Opcode opcode) {
    while (true) {
      rdma::Completion completion;
      if (endpoint_->Poll(absl::MakeSpan(&completion, 1)) == 0) {
        usleep(100);
      } else if (completion.opcode == opcode) {
        return true;
      } else if (completion.opcode == rdma::Opcode::kDisconnected) {
        return false;
      }
    }
  }

  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
};

// In the memory of every connection of this process.
void PrintWithinAtomics() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (!absl::StrContains(line, "farlook-rings")) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the kernel wrote it as a number
    auto* const inside = reinterpret_cast<std::atomic<uint32_t>*>(std::stoull(line, nullptr, 16) + kInsideOffset);
    inside->store(1, std::memory_order_seq_cst);
  }
}

int Main(const std::string& address, int count) {
  std::vector<RawClient> clients;
  for (int i = 0; i < count; ++i) {
    RawClient client;
    if (!client.Connect(address)) break;
    clients.push_back(std::move(client));
  }
  PrintWithinAtomics();
  for (RawClient& client : clients) client.Send("no request at all");
  std::cout << clients.size() << std::endl;
  while (true) pause();
}

}  // namespace
}  // namespace farlook

int main(int argc, char** argv) { return argc == 3 ? farlook::Main(argv[1], atoi(argv[2])) : 1; }
