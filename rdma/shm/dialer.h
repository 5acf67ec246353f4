// A client's side of the handshake, until both sides have mapped the rings.
#ifndef FARLOOK_RDMA_SHM_DIALER_H_
#define FARLOOK_RDMA_SHM_DIALER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/link.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/packet_socket.h"

namespace farlook::rdma::shm {

class Dialer {
 public:
  enum class Progress : uint8_t { kPending, kDone, kFailed };

  // REQUIRES: `path` fits sockaddr_un, `hello` has at most kMaxHelloBytes.
  Dialer(std::string path, absl::string_view hello, int64_t deadline_ns);

  // Continues without blocking. kDone: take link(). kFailed: status() is the reason.
  Progress Step(int64_t now_ns);

  // To be watched for reading once connected(); -1 before.
  bool connected() const { return connected_; }
  int socket() const { return link_.socket.get(); }

  // Step must be called then at the latest, whatever the socket reports.
  int64_t due_ns() const { return due_ns_; }

  Link& link() { return link_; }
  const absl::Status& status() const { return status_; }

 private:
  Progress Fail(absl::Status status);
  Progress Dial(int64_t now_ns);
  Progress ReadAnswer();
  absl::Status TakeAnswer(const AnswerPacket& answer, const ReceivedPacket& packet);

  const std::string path_;
  HelloPacket hello_;
  const int64_t deadline_ns_;
  int64_t due_ns_;
  bool connected_ = false;
  bool hello_sent_ = false;
  Link link_;
  absl::Status status_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_DIALER_H_
