// Reports of peers that break a transport's protocol, each once, so that the server can count and log them. For the
// connection's user such a connection merely ends, and one that was never established leaves no trace.
//
// Thread safety: any thread may call anything.
#ifndef FARLOOK_RDMA_VIOLATIONS_H_
#define FARLOOK_RDMA_VIOLATIONS_H_

#include <cstdint>
#include <functional>

#include "absl/strings/string_view.h"

namespace farlook::rdma {

enum class Violator : uint8_t {
  kStranger,  // no client yet: its handshake is malformed
  kClient,    // has a connection, which ends
};

using ViolationObserver = std::function<void(Violator who, absl::string_view peer, absl::string_view how)>;

// Sets the process's observer; empty removes it. When this returns, no call of the former observer is under way. An
// observer must not call this.
void SetViolationObserver(ViolationObserver observer);

// Called by the transports of a server.
void NoteViolation(Violator who, absl::string_view peer, absl::string_view how);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_VIOLATIONS_H_
