// The seam between what Farlook does and how bytes move.
//
// The interface speaks the language of verbs: a reliable connection (queue pair), memory regions with remote keys, work
// requests posted to a queue, completions polled from another. Every backend passes rdma/conformance_test.cc, so code
// above this line need not know which one it was given:
//
//     rdma://host:port     libibverbs and librdmacm, reliable connected queue pairs
//     shm:///path          memory of the server mapped by clients of the same host
//     tcp://host:port      sockets; a thread of the server's answers READs
//     (simulated)          tests
//
// Nothing here knows of keys, buckets or items.
//
// Thread safety: an Endpoint, its Connections and its Buffers belong to one thread. A Listener belongs to one thread,
// which may be another. A ConnectionRequest may be handed from the listener's thread to the endpoint's.
//
// Invariants:
//   * A buffer named in a posted READ or atomic belongs to the transport until that work request completes.
//   * A READ fetches aligned 8-byte words, each atomically, in no promised order, not even within one READ.
//   * A completion is an acquire: what is posted after it sees at least what its READ saw.
//   * Every posted READ and atomic completes exactly once. When a connection breaks, what had not completed completes
//     with kFlushed (or the error that broke it); then kDisconnected comes, once, as the connection's last completion.
//   * A request that fails, for whatever reason, breaks its connection.
#ifndef FARLOOK_RDMA_TRANSPORT_H_
#define FARLOOK_RDMA_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farlook::rdma {

class Connection;

// rdma_cm carries this much private data for RDMA_PS_TCP: 56 bytes with a connect, 196 with an accept, 148 with a
// reject. The verbs backend needs 16, 16 and 4 of them for itself (rdma/verbs/envelope.h).
inline constexpr size_t kMaxHelloBytes = 40;
inline constexpr size_t kMaxWelcomeBytes = 180;
inline constexpr size_t kMaxRejectBytes = 144;

// The longest message that a SEND carries. Receive buffers have this size.
inline constexpr size_t kMaxMessageBytes = 4096;

// Scatter elements of one READ, where Capabilities::max_read_sges allows as many.
inline constexpr size_t kMaxReadSges = 4;

enum class Opcode : uint8_t {
  kRead,          // a posted READ ended
  kFetchAdd,      // a posted FETCH_ADD ended
  kCompareSwap,   // a posted COMPARE_SWAP ended
  kReceive,       // a message of the peer arrived
  kConnected,     // Connect() succeeded: posts may begin, Connection::welcome() is set
  kDisconnected,  // the connection is over, or never came to be; Connection::status() says why
};

// How a work request ended. See ibv_wc_status; of a failed one only wr_id, status and connection mean anything.
enum class WcStatus : uint8_t {
  kSuccess,
  kFlushed,        // the connection broke before this ran; whether an atomic ran is unknown
  kRemoteAccess,   // the peer's memory region does not allow it, or does not reach so far (iWARP: kFlushed)
  kRetryExceeded,  // the peer does not answer
  kLocalError,     // a local buffer is not registered or too short
};

struct Completion {
  uint64_t wr_id = 0;  // as posted; 0 for kReceive, kConnected, kDisconnected
  Connection* connection = nullptr;
  Opcode opcode = Opcode::kRead;
  WcStatus status = WcStatus::kSuccess;
  absl::Span<const char> message;  // kReceive: the bytes, valid until the next Endpoint::Poll; 8-byte aligned
};

// One piece of local memory. It must lie in one Buffer of the same endpoint, or, at a server, in one range that its
// listener offers, unless Capabilities::any_local_memory. Else the request fails with kLocalError.
struct Sge {
  char* data;
  uint32_t bytes;
};

// What a connection can do, negotiated between both sides and the device. Fixed once connected.
struct Capabilities {
  bool atomics = false;                // PostFetchAdd and PostCompareSwap work
  bool any_local_memory = false;       // READs may land in memory that is not registered
  bool local = false;                  // the peer is on this host: a READ costs a cache miss, not a round trip
  bool reads_at_once = false;          // ReadAtOnce() may do it
  uint32_t max_outstanding_reads = 0;  // READs and atomics that the peer serves at once; more queue up
  uint32_t send_queue_depth = 0;       // work requests posted and not completed
  uint32_t max_read_sges = 1;
  uint64_t max_read_bytes = 0;  // of one READ
};

// What a peer may do with memory that this side offers. Local writing is always allowed.
enum class Access : uint8_t {
  kRemoteRead,        // READ
  kRemoteReadAtomic,  // READ, FETCH_ADD, COMPARE_SWAP
};

// How far ReadAtOnce() came.
enum class AtOnce : uint8_t {
  kNo,      // nothing was done: PostRead() can do it
  kPosted,  // as by PostRead() and Ring(): its completion comes with Poll()
  kDone,    // it completed with kSuccess, and no completion of it comes
};

// Who carries out the atomics of a listener's clients.
enum class AtomicDomain : uint8_t {
  kNone,    // nobody: their connections are without Capabilities::atomics
  kCpu,     // CPUs of this host, whose own atomics are atomic with theirs
  kDevice,  // a device, whose atomics need not be atomic with a CPU's: this process uses a Loopback
};

// Memory that a server offers: a mapping, and the descriptor that clients of the same host can map.
struct SharedRange {
  char* base = nullptr;
  uint64_t bytes = 0;
  int fd = -1;
};

// A process of this host, as the kernel vouches for it.
struct PeerCredentials {
  int64_t pid = 0;
  uint32_t uid = 0;
  std::vector<uint32_t> gids;  // its group, then its supplementary groups
  bool operator==(const PeerCredentials&) const = default;
};

// What answering READs took of this process, where no adapter does it (tcp).
struct ReadsServed {
  uint64_t reads = 0;
  uint64_t bytes = 0;
  uint64_t cpu_ns = 0;  // of the thread that answers them
};

// A range as a peer names it.
struct RemoteRange {
  uint64_t address = 0;  // of its first byte, as RDMA addresses it (0 on shm)
  uint64_t bytes = 0;
  uint32_t rkey = 0;
};

// Registered local memory, from Endpoint::Allocate or Endpoint::Register. Destroy it before its endpoint, and not while
// work that names it is posted. Where remote() names it, a peer of any connection of the endpoint can READ it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  absl::Span<char> bytes() const { return bytes_; }
  // Its rkey is 0 unless allocated as readable by peers. It may be another one for the next connection.
  const RemoteRange& remote() const { return remote_; }

 protected:
  absl::Span<char> bytes_;
  RemoteRange remote_;
};

// One reliable connection (queue pair). The post calls return false, and post nothing, while the send queue is full or
// the connection is not connected; Poll() makes room. Nothing posted is promised to start before Ring().
class Connection {
 public:
  // Two-phase teardown: an orderly user calls Disconnect(), polls until kDisconnected, and destroys. Destroying earlier
  // waits for the hardware to let go of every posted buffer; no completion of this connection is delivered any more.
  virtual ~Connection() = default;

  // READs `remote_address`.. into the pieces of `to`, filled in order; their sum is the length, > 0. `to` itself is
  // copied. Alignment: remote_address is a multiple of 8; the sum need not be.
  virtual bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) = 0;

  // PostRead() into one piece, Ring(), and as far as it can be told within so many looks (one at least) that the READ
  // has completed, its completion: for a caller who waits for it and nothing else. It returns at once where anything
  // else is under way on this connection, or is to be polled: so Poll() goes on being due, now and then.
  virtual AtOnce ReadAtOnce(uint64_t /*wr_id*/, const Sge& /*to*/, uint64_t /*remote_address*/, uint32_t /*rkey*/,
                            uint32_t /*looks*/) {
    return AtOnce::kNo;
  }

  // Where Capabilities::local: where this process has that memory of the peer's, whose words change at any time; each
  // loaded word is what a READ posted just then would fetch. Null if the peer did not grant it, the connection is not
  // connected, or this backend has none. Memory that a listener offered is there until kDisconnected is polled, or the
  // connection is destroyed; a buffer of the peer's until the endpoint is polled. As no completion could say that the
  // peer was gone, what was loaded was the peer's only if alive() says so afterwards.
  virtual const char* Mapped(uint64_t /*remote_address*/, uint64_t /*bytes*/, uint32_t /*rkey*/) { return nullptr; }

  // Sends a message of 1 to kMaxMessageBytes, made of `head` followed by `body` (which may be empty). Both are copied
  // before this returns. A success is not reported; a failure breaks the connection.
  virtual bool PostSend(absl::string_view head, absl::string_view body) = 0;
  // The same, and Ring(), unless it returns false: for a message that waits for no others.
  virtual bool PostSendAndRing(absl::string_view head, absl::string_view body) {
    if (!PostSend(head, body)) return false;
    Ring();
    return true;
  }

  // Atomics on the 8-byte word at `remote_address`. `*old_value`, in memory as of an Sge, receives what the word held
  // before. False, always, unless Capabilities::atomics.
  virtual bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                            uint64_t delta) = 0;
  virtual bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                               uint64_t expected, uint64_t desired) = 0;

  // Whether messages of the peer are delivered, as they are at first. While they are not, those that come wait in the
  // transport, which has places for a bounded number of bytes of each connection, and then at the peer, which finds no
  // room. What waits when the connection ends is lost with it. What was delivered stays delivered.
  virtual void SetReceiving(bool receiving) = 0;

  // Starts everything posted so far: one doorbell for a batch.
  virtual void Ring() = 0;

  // Breaks the connection: nothing more is sent or received, what is posted is flushed, then kDisconnected comes.
  // Idempotent. The peer sees kDisconnected too.
  virtual void Disconnect() = 0;

  // Whether the peer's host still serves this connection, as far as is known without asking it. Costs one load.
  virtual bool alive() const = 0;

  // After kDisconnected, on the accepting side: whether nothing of the peer's can change this side's memory any more,
  // nor fetch what was offered for atomics, once this connection is destroyed. A queue pair sees to that itself. On shm
  // a client that was stopped within an atomic may still finish it: keep the connection, and ask again later. May cost
  // a system call.
  virtual bool quiescent() { return true; }

  // On the accepting side, after ConnectionRequest::WithholdReads(): from now on the peer may READ, and, if `atomics`,
  // do atomics where Accept() was given a range for them. UNAVAILABLE: the connection is of no use.
  virtual absl::Status Grant(bool /*atomics*/) { return absl::FailedPreconditionError("nothing was withheld"); }
  // On the connecting side: the server said that it did so. Until then nothing of the server's is READ, by nobody.
  virtual void Granted() {}

  // The server's address as both sides know it, "10.0.0.1:7471"; empty on shm.
  virtual std::string server_address() const { return ""; }

  virtual const Capabilities& capabilities() const = 0;

  // What the server sent with its accept (at least what it sent: it may be padded with zeros). Set by kConnected.
  virtual absl::string_view welcome() const = 0;

  // OK while connected. Afterwards UNAVAILABLE and why; PERMISSION_DENIED with the server's reason after a reject;
  // FAILED_PRECONDITION when what answers is not a server of ours, or one of another version; what was wrong with an
  // address that no server listens at.
  virtual absl::Status status() const = 0;

  // For logs: who is on the other side ("pid 4711 uid 1000", "10.0.0.7:41000").
  virtual std::string peer() const = 0;

  // For the user's own use, so that a completion finds its way.
  void* context = nullptr;
};

// Where the peers of an endpoint run that sent something since it last slept.
enum class Heard : uint8_t {
  kNobody,
  kHere,       // all of them on the processor of the calling thread: they go on when it sleeps
  kElsewhere,  // one at least elsewhere, or who knows where
};

// A completion queue, and the connections whose completions it receives.
class Endpoint {
 public:
  virtual ~Endpoint() = default;  // REQUIRES: its connections and buffers are destroyed

  // Begins to connect to `address`, sending `hello` (at most kMaxHelloBytes). kConnected or kDisconnected follows
  // within `timeout_ms`. Errors at once: INVALID_ARGUMENT for an address this backend does not understand; while the
  // device that the endpoint used is gone, what keeps it from using another. Does not block for longer than resolving a
  // numeric address takes.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                              int64_t timeout_ms) = 0;

  // Registered memory of at least `bytes`, zeroed, page aligned. `readable_by_peers`: connections can READ it.
  // RESOURCE_EXHAUSTED when memory or the memlock limit does not suffice; the message names the limit.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) = 0;

  // Registers memory of this process's, of any alignment, which connections can READ too. It stays the caller's, and
  // mapped until the Buffer is destroyed; it overlaps no other Buffer. Null where there is nothing to gain: READs land
  // anywhere, and peers can only READ what was allocated here. INVALID_ARGUMENT: it is not all there, or cannot be
  // written to; RESOURCE_EXHAUSTED as above.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> /*memory*/) {
    return std::unique_ptr<Buffer>();
  }

  // Moves things forward and returns up to out.size() completions; 0 when there is nothing to do now. The messages of
  // the previous call are gone.
  virtual size_t Poll(absl::Span<Completion> out) = 0;

  // Sleeping. Arm() returns false when there is something to poll already; otherwise true, and from then on fd()
  // becomes readable when there is, or when there is room again after a post call returned false (it may become
  // readable for nothing). Poll() disarms. fd() is an epoll descriptor: one is polled beside others, or waited on by
  // epoll_wait() when it is alone, which costs less; what its events say is the endpoint's affair.
  virtual bool Arm() = 0;
  virtual int fd() const = 0;
  // Ends one sleep, this one or the next. Any thread.
  virtual void Wake() = 0;

  // For who is about to poll for a while in place of sleeping: from the processor on which a peer last sent. A hint.
  virtual Heard heard() const { return Heard::kElsewhere; }

  // Of memory that is registered for messages of all its connections, and given back when it is not used any more; 0
  // where each connection has its own.
  virtual uint64_t message_bytes() const { return 0; }
};

// What came in at a listener and waits for an answer. Destroying it without an answer rejects it.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  virtual absl::string_view hello() const = 0;  // as sent, perhaps padded with zeros; untrusted
  virtual std::string peer() const = 0;

  // Who the client is; null where nobody vouches for it (rdma, tcp).
  virtual const PeerCredentials* credentials() const { return nullptr; }

  // To be called before Accept(): the client is to have no right to READ anything, or to do atomics, before
  // Connection::Grant(). Ignored where there are credentials: there it is known already who the client is. (Soft iWARP
  // does not enforce it: a client that knows a key may use it.)
  virtual void WithholdReads() {}

  // A range, as Listener::Offer() returned it, with the key that it has for this client: another one, where the
  // listener's device was taken away and came back since.
  virtual RemoteRange Current(const RemoteRange& offered) const { return offered; }

  // Does what Accept() would have to do and needs no endpoint for, so that this costs the listener's thread the time.
  // It need not be called.
  virtual void Prepare() {}

  // Accepts, on the thread of `endpoint` (made by the same listener). `welcome` has at most kMaxWelcomeBytes. The
  // client may use the ranges whose keys, as of Offer(), are in `rkeys`
  // and no other: on shm it has no others; on rdma all connections of a listener share a protection domain, and a
  // client could guess the key of another range and READ it, but do atomics only if one of `rkeys` is of
  // kRemoteReadAtomic. The connection may be used at once; kDisconnected tells when the client was gone before.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                             absl::Span<const uint32_t> rkeys) = 0;

  // The reason (at most kMaxRejectBytes) becomes the message of the client's Connection::status().
  virtual void Reject(absl::string_view reason) = 0;
};

// A server's own atomics on memory that its listener offers, carried out by the device, as those of its clients are: a
// queue pair that is connected to itself. Each call waits until its change is visible to all later ones of anybody,
// some microseconds. An error, within some seconds: the device failed, and whether the word was changed is unknown, but
// it will not be changed any more; later calls try anew, and fail at once for a while.
//
// Thread safety: any thread. It may outlive its listener, but not the memory.
class Loopback {
 public:
  virtual ~Loopback() = default;

  // Of an aligned word in the range. `*old_value` receives what it held before.
  virtual absl::Status Read(uint64_t remote_address, uint64_t* value) = 0;
  virtual absl::Status FetchAdd(uint64_t remote_address, uint64_t delta, uint64_t* old_value) = 0;
  virtual absl::Status CompareSwap(uint64_t remote_address, uint64_t expected, uint64_t desired,
                                   uint64_t* old_value) = 0;
};

// A server's address. Errors of Listen name the cure (address in use by a live server, no permission, no device).
class Listener {
 public:
  virtual ~Listener() = default;            // REQUIRES: its endpoints are destroyed
  virtual std::string address() const = 0;  // as a client would write it

  // Offers memory to clients. The range must outlive the listener and its endpoints. Call before the first Accept.
  virtual absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) = 0;

  // OK, or why no client can come at present: UNAVAILABLE while its device is gone. As of the last Next().
  virtual absl::Status status() const { return absl::OkStatus(); }

  // Fixed. Two listeners of kCpu share one domain; two of kDevice need not.
  virtual AtomicDomain atomic_domain() const { return AtomicDomain::kNone; }

  // To `range`, offered here as kRemoteReadAtomic. FAILED_PRECONDITION unless the domain is kDevice; UNAVAILABLE when
  // the device cannot reach itself.
  virtual absl::StatusOr<std::unique_ptr<Loopback>> ConnectToItself(const RemoteRange& /*range*/) {
    return absl::FailedPreconditionError("no device carries out the atomics of this listener's clients");
  }

  // A completion queue for connections accepted here, for one worker thread.
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() = 0;

  // The next request, or null when none waits. fd() is readable while one may wait, or Next() has something else to do.
  virtual std::unique_ptr<ConnectionRequest> Next() = 0;
  virtual int fd() const = 0;

  // Gives back what connections that are over had, where the kernel takes its time over that: fd() is readable while
  // there is such, too.
  virtual void CleanUp() {}

  // Since it listens. Any thread.
  virtual ReadsServed reads_served() const { return {}; }

  // The NUMA node that memory to be offered is best on: the device's. -1: any.
  virtual int numa_node() const { return -1; }
};

// What may be chosen.
struct TransportOptions {
  // rdma, tcp: a peer that is gone, silently and while nothing is under way, is known to be so within this time.
  int64_t liveness_ms = 3000;
  // rdma: READs and atomics with the devices at once, of all endpoints of this process. More queue up in their
  // connections.
  uint32_t max_outstanding = 1024;
  // Of a listener's socket file (shm): who may write to it may connect. -1: as the umask has it; this process' group.
  int socket_mode = -1;
  int64_t socket_gid = -1;
};

// A backend for the scheme of `address` ("shm://…", "rdma://…", "tcp://…"). INVALID_ARGUMENT names the schemes that
// exist.
absl::StatusOr<std::unique_ptr<Listener>> Listen(absl::string_view address, const TransportOptions& options = {});

// A client's endpoint. Connections of one endpoint all use the backend that `address` names, and on rdma the device
// through which it is reached; resolving a host's name may block. Errors name the cure (no device, no permission, no
// route, memlock limit).
absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(absl::string_view address,
                                                         const TransportOptions& options = {});

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_TRANSPORT_H_
