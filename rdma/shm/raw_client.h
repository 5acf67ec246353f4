// A client that does to a server what no honest one would. For tests.
#ifndef FARLOOK_RDMA_SHM_RAW_CLIENT_H_
#define FARLOOK_RDMA_SHM_RAW_CLIENT_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/packet_socket.h"
#include "rdma/shm/segment.h"

namespace farlook::rdma::shm {

class RawClient {
 public:
  // Connects the socket and sends nothing.
  explicit RawClient(absl::string_view shm_address) : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const absl::string_view path = shm_address.substr(strlen("shm://"));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.data(), path.size());
    connected_ =
        connect(socket_.get(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)) == 0;
  }

  bool connected() const { return connected_; }
  int socket() const { return socket_.get(); }
  void Close() { socket_.reset(); }

  Io Send(absl::string_view packet, absl::Span<const int> fds = {}) { return SendPacket(socket(), packet, fds); }

  // Waits for a packet, at most 10 s.
  Io Receive(ReceivedPacket* packet) {
    pollfd waiting = {socket(), POLLIN, 0};
    poll(&waiting, 1, 10'000);
    return ReceivePacket(socket(), packet);
  }

  // Returns the rings, mapped for writing, after the server accepted.
  SegmentLayout* TakeRings() {
    ReceivedPacket packet;
    EXPECT_EQ(Receive(&packet), Io::kDone);
    AnswerPacket answer;
    EXPECT_TRUE(DecodeAnswer(packet.view(), packet.fds.size(), &answer).ok());
    if (packet.fds.size() <= kRingsFd) return nullptr;
    absl::StatusOr<Mapping> mapping = Map(packet.fds[kRingsFd].get(), sizeof(SegmentLayout), /*writable=*/true);
    EXPECT_TRUE(mapping.ok());
    if (!mapping.ok()) return nullptr;
    rings_ = *std::move(mapping);
    rings_fd_ = std::move(packet.fds[kRingsFd]);
    life_fd_ = std::move(packet.fds[kLifeFd]);
    return static_cast<SegmentLayout*>(static_cast<void*>(rings_.data()));
  }
  int rings_fd() const { return rings_fd_.get(); }
  int life_fd() const { return life_fd_.get(); }

 private:
  UniqueFd socket_;
  bool connected_;
  Mapping rings_;
  UniqueFd rings_fd_;
  UniqueFd life_fd_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_RAW_CLIENT_H_
