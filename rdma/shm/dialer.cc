#include "rdma/shm/dialer.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/shm/life_sign.h"
#include "rdma/shm/segment.h"

namespace farlook::rdma::shm {
namespace {

// Pause between two attempts while the server's backlog is full.
constexpr int64_t kRetryNs = 2'000'000;

// The kernel reports ECONNREFUSED for any file that is no listening socket; this names the actual cause.
absl::Status NoServerListens(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || S_ISSOCK(info.st_mode) || S_ISLNK(info.st_mode)) {
    return absl::UnavailableError(
        absl::StrCat("no server listens at shm://", path, ": the socket is of a server that is gone"));
  }
  if (S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is a directory; the address is that of a server's socket, such as shm://", path, "/kv"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat(path, " is a file of something else, not the socket of a server; give another address"));
}

absl::Status NoServer(const std::string& path, int error) {
  const absl::string_view address_prefix = "shm://";
  switch (error) {
    case ENOENT:
      return absl::UnavailableError(absl::StrCat("no server listens at ", address_prefix, path, ": no such file"));
    case ECONNREFUSED:
      return NoServerListens(path);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(
          absl::StrCat("this user may not connect to ", path,
                       ": that needs write permission on the socket, also to read; ask the operator of the server"));
    case EPROTOTYPE:
    case ENOTSOCK:
      return absl::FailedPreconditionError(absl::StrCat(path, " is not the socket of a Farlook server"));
    case ENOMEM:
    case ENOBUFS:
      return absl::ResourceExhaustedError(absl::StrCat("no memory to connect to ", path, ": ", strerror(error)));
    default:
      return absl::UnavailableError(absl::StrCat("cannot connect to ", path, ": ", strerror(error)));
  }
}

}  // namespace

Dialer::Dialer(std::string path, absl::string_view hello, int64_t deadline_ns)
    : path_(std::move(path)), deadline_ns_(deadline_ns), due_ns_(deadline_ns) {
  hello_.hello_bytes = static_cast<uint16_t>(hello.size());
  memcpy(hello_.hello, hello.data(), hello.size());
}

Dialer::Progress Dialer::Fail(absl::Status status) {
  status_ = std::move(status);
  return Progress::kFailed;
}

Dialer::Progress Dialer::Step(int64_t now_ns) {
  if (!connected_) {
    if (const Progress progress = Dial(now_ns); progress == Progress::kFailed) return progress;
  }
  if (connected_ && !hello_sent_) {
    const Io sent = SendPacket(socket(), BytesOf(hello_), {});
    if (sent == Io::kClosed) return Fail(NoServer(path_, ECONNREFUSED));
    hello_sent_ = sent == Io::kDone;
    due_ns_ = hello_sent_ ? deadline_ns_ : std::min(deadline_ns_, now_ns + kRetryNs);
  }
  if (hello_sent_) {
    if (const Progress progress = ReadAnswer(); progress != Progress::kPending) return progress;
  }
  if (now_ns < deadline_ns_) return Progress::kPending;
  return Fail(absl::UnavailableError(
      absl::StrCat("no answer from the server at shm://", path_, " in time: it is stopped or overloaded")));
}

Dialer::Progress Dialer::Dial(int64_t now_ns) {
  if (!link_.socket.ok()) {
    link_.socket = UniqueFd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!link_.socket.ok()) {
      return Fail(
          absl::ResourceExhaustedError(absl::StrCat("cannot make a socket: ", strerror(errno), " (raise ulimit -n)")));
    }
  }
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path_.data(), path_.size());
  if (connect(socket(), static_cast<const sockaddr*>(static_cast<const void*>(&address)), sizeof(address)) == 0) {
    connected_ = true;
    return Progress::kPending;
  }
  if (errno != EAGAIN && errno != EINTR) return Fail(NoServer(path_, errno));
  due_ns_ = std::min(deadline_ns_, now_ns + kRetryNs);
  return Progress::kPending;
}

Dialer::Progress Dialer::ReadAnswer() {
  ReceivedPacket packet;
  switch (ReceivePacket(socket(), &packet)) {
    case Io::kTryLater:
    case Io::kNoMemory:
      return Progress::kPending;
    case Io::kClosed:
      return Fail(absl::UnavailableError(absl::StrCat("the server at shm://", path_, " went away without an answer")));
    case Io::kDone:
      break;
  }
  if (packet.fds_lost) {
    return Fail(
        absl::ResourceExhaustedError(absl::StrCat("no room for the descriptors that the server at shm://", path_,
                                                  " hands over: too many open files (raise ulimit -n)")));
  }
  AnswerPacket answer;
  if (absl::Status status = DecodeAnswer(packet.view(), packet.fds.size(), &answer); !status.ok()) {
    return Fail(std::move(status));
  }
  if (!answer.accepted && absl::string_view(answer.text, answer.text_bytes) == kNoDescriptorsLeft) {
    return Fail(absl::ResourceExhaustedError(kNoDescriptorsLeft));
  }
  if (!answer.accepted) {
    return Fail(absl::PermissionDeniedError(absl::string_view(answer.text, answer.text_bytes)));
  }
  if (absl::Status status = TakeAnswer(answer, packet); !status.ok()) return Fail(std::move(status));
  return Progress::kDone;
}

absl::Status Dialer::TakeAnswer(const AnswerPacket& answer, const ReceivedPacket& packet) {
  absl::StatusOr<LifeView> life = LifeView::Open(packet.fds[kLifeFd].get());
  if (!life.ok()) return life.status();
  link_.life = *std::move(life);
  absl::StatusOr<Segment> segment = Segment::Open(packet.fds[kRingsFd].get());
  if (!segment.ok()) return segment.status();
  link_.segment = *std::move(segment);
  const absl::StatusOr<PeerCredentials> server = CredentialsOf(socket());
  if (!server.ok()) return server.status();
  for (size_t i = 0; i < answer.ranges; ++i) {
    const RangeEntry& entry = answer.range[i];
    const int fd = packet.fds[kFirstRangeFd + i].get();
    absl::Status status = link_.memory.AddOffer(fd, entry.rkey, entry.bytes, entry.writable != 0, server->uid);
    if (!status.ok()) return status;
  }
  link_.welcome.assign(answer.text, answer.text_bytes);
  link_.peer = DescribePeer(socket());
  return absl::OkStatus();
}

}  // namespace farlook::rdma::shm
