// The thread of a listener: it accepts sockets, reads their first frames, and answers the READs that clients ask for.
//
// So a peer that is slow or hostile before it is a client costs no worker anything. The cost of READs without an
// adapter that executes them is reported separately: see served().
#ifndef FARLOOK_RDMA_TCP_READ_SERVER_H_
#define FARLOOK_RDMA_TCP_READ_SERVER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "rdma/host/unique_fd.h"
#include "rdma/tcp/channel.h"
#include "rdma/tcp/frame.h"
#include "rdma/transport.h"
#include "rdma/wake_fd.h"

namespace farlook::rdma::tcp {

// The memory that one client may READ. Shared by its worker and the thread.
struct ReadGrant {
  struct Range {
    const char* base = nullptr;
    uint64_t bytes = 0;
    uint32_t rkey = 0;
  };

  Ticket ticket = {};
  std::vector<Range> ranges;          // addresses in each begin at 0
  std::atomic<bool> withheld{false};  // not granted yet
  std::atomic<bool> over{false};      // no longer granted
  std::atomic<bool> attached{false};  // a socket has redeemed the ticket
};

// A client that sent hello on its first socket.
struct Caller {
  UniqueFd socket;
  std::string hello;
};

class ReadServer {
 public:
  // RESOURCE_EXHAUSTED.
  static absl::StatusOr<std::unique_ptr<ReadServer>> Start(std::vector<UniqueFd> listening, int64_t liveness_ms);
  ~ReadServer();

  // All of these: any thread.
  RemoteRange Offer(const SharedRange& range) ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the next client, if any. fd() is readable while there may be one.
  std::optional<Caller> Next() ABSL_LOCKS_EXCLUDED(mutex_);
  int fd() const { return called_.fd(); }
  // Grants READs of those of the offered ranges. Returns null if the kernel provides no random numbers.
  std::shared_ptr<ReadGrant> Admit(absl::Span<const uint32_t> rkeys, bool withheld) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on nothing is copied for the client; bytes copied before may still be sent.
  void Dismiss(ReadGrant* grant) ABSL_LOCKS_EXCLUDED(mutex_);
  ReadsServed served() const;

 private:
  // An accepted socket.
  struct Peer {
    Peer(UniqueFd socket, SpareMemory* spare) : channel(std::move(socket), spare) {}
    Channel channel;
    std::shared_ptr<ReadGrant> grant;  // null: still a stranger, or refused
    Answer answer;
    int64_t until_ns = 0;  // deadline of a stranger, or of a refused peer to receive the refusal
    bool refused = false;
    bool waits_again = false;  // is in again_
    uint32_t watched = 0;      // events that epoll waits for
  };
  using Peers = std::vector<std::unique_ptr<Peer>>;

  ReadServer(std::vector<UniqueFd> listening, UniqueFd epoll, int64_t liveness_ms);

  bool Taken(uint32_t rkey) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run();
  void Accept();
  void AcceptFrom(int listening);
  void MakeRoom();
  Peer* OldestStranger();
  void SetAccepting();
  bool WatchListening(int operation, uint32_t wanted);
  void OnEvent(Peer* peer);
  // Each returns false if the socket must be closed.
  bool Step(Peer* peer);
  bool Greet(Peer* peer, absl::string_view came);
  bool Serve(Peer* peer, absl::string_view came);
  bool Begin(Peer* peer, const ReadOrder& order);
  bool Refuse(Peer* peer, FrameType type, absl::string_view reason);
  static bool HangUp(Peer* peer, absl::string_view how);
  std::shared_ptr<ReadGrant> Redeem(absl::string_view ticket) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Watch(Peer* peer);
  void Close(Peer* peer);
  void CloseOverdue();
  void CloseDismissed();

  const std::vector<UniqueFd> listening_;
  const UniqueFd epoll_;
  const int64_t liveness_ms_;
  WakeFd wake_;    // wakes the thread
  WakeFd called_;  // wakes the caller of Next()
  std::atomic<bool> stopping_{false};
  std::atomic<bool> dismissed_{false};  // a client was dismissed since the thread last checked
  std::atomic<uint64_t> reads_{0};
  std::atomic<uint64_t> bytes_{0};

  mutable absl::Mutex mutex_;
  std::vector<ReadGrant::Range> offered_ ABSL_GUARDED_BY(mutex_);
  std::map<Ticket, std::shared_ptr<ReadGrant>> expected_ ABSL_GUARDED_BY(mutex_);
  std::deque<Caller> callers_ ABSL_GUARDED_BY(mutex_);

  // Used by the thread only.
  SpareMemory spare_;
  Peers peers_;
  std::vector<Peer*> again_;  // with work left and nothing to wait for
  size_t impatient_ = 0;      // peers with an until_ns
  bool accepting_ = true;
  int64_t accept_again_ns_ = 0;
  int64_t next_overdue_ns_ = 0;
  std::unique_ptr<uint64_t[]> room_;

  std::thread thread_;  // last: it uses all of these
};

}  // namespace farlook::rdma::tcp

#endif  // FARLOOK_RDMA_TCP_READ_SERVER_H_
