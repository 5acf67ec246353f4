#include "rdma/tcp/channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rdma/host/word_copy.h"

namespace farlook::rdma::tcp {

void Channel::Close() {
  if (socket_.ok()) shutdown(fd(), SHUT_RDWR);
  socket_.reset();
  unsent_.Clear();
  rest_.Clear();
}

void Channel::Flush() {
  while (!unsent_.empty()) {
    const ssize_t sent = send(fd(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      unsent_.Consume(static_cast<size_t>(sent));
    } else if (sent < 0 && errno != EINTR) {
      if (errno == EAGAIN) return;
      if (errno != EPIPE) error_ = errno;  // of the socket, which reports it once
      stopped_ = true;
      unsent_.Clear();
    }
  }
}

absl::string_view Channel::Receive(char* room, bool more) {
  size_t bytes = rest_.size();
  static_assert(kRoomBytes >= kReceiveBytes + kReceiveBytes / 2);
  more = more && bytes < kReceiveBytes / 2;  // otherwise the rest contains frames that were given back
  if (bytes > 0) memcpy(room, rest_.data(), bytes);
  rest_.Clear();
  while (more && !ended_) {
    dry_ = false;
    const ssize_t came = recv(fd(), room + bytes, kReceiveBytes, MSG_DONTWAIT);
    if (came > 0) {
      bytes += static_cast<size_t>(came);
    } else if (came == 0 || (errno != EINTR && errno != EAGAIN)) {
      if (came < 0) error_ = errno;
      ended_ = true;
    } else if (errno == EINTR) {
      continue;
    } else {
      dry_ = true;
    }
    break;
  }
  return {room, bytes};
}

void Channel::GiveBack(absl::string_view left) {
  if (rest_.Append(left)) return;
  ended_ = true;
  error_ = ENOMEM;
}

bool Channel::has_frame() const {
  absl::string_view bytes = rest_.view();
  Frame frame;
  return !bytes.empty() && NextFrame(&bytes, &frame) != Parsed::kPartial;
}

bool Continue(Answer* answer, Bytes* unsent) {
  while (answer->left > 0) {
    if (unsent->size() >= kMaxUnsentBytes) return false;
    const uint32_t bytes = std::min<uint32_t>(answer->left, kChunkBytes);
    char* const to = AppendData(bytes, unsent);
    if (to == nullptr) return false;
    CopyAligned(to, answer->from, bytes);
    answer->from += bytes;
    answer->left -= bytes;
  }
  return true;
}

}  // namespace farlook::rdma::tcp
