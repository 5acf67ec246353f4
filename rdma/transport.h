// The interface between Farlook and the transports that move its bytes.
//
// It follows verbs: a reliable connection (queue pair), memory regions with remote keys, work requests posted to a
// queue, completions polled from another. Every backend passes rdma/conformance_test.cc, so code above this interface
// need not know which one it uses:
//
//     rdma://host:port     libibverbs and librdmacm, reliable connected queue pairs
//     shm:///path          memory of the server mapped by clients of the same host
//     tcp://host:port      sockets; a thread of the server answers READs
//     (simulated)          tests
//
// Nothing here depends on keys, buckets or items.
//
// Thread safety: an Endpoint, its Connections and its Buffers belong to one thread. A Listener belongs to one thread,
// which may be another. A ConnectionRequest may be passed from the listener's thread to the endpoint's.
//
// Invariants:
//   * A buffer named in a posted READ or atomic belongs to the transport until that work request completes.
//   * A READ fetches aligned 8-byte words, each atomically, in no promised order, not even within one READ.
//   * A completion is an acquire: what is posted after it sees at least what its READ saw.
//   * Every posted READ and atomic completes exactly once. When a connection breaks, requests that have not completed
//     complete with kFlushed (or the error that broke it). Then kDisconnected is delivered once, as the connection's
//     last completion.
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
// reject. The verbs backend needs 16, 16 and 4 of them for itself (rdma/verbs/handshake/envelope.h).
inline constexpr size_t kMaxHelloBytes = 40;
inline constexpr size_t kMaxWelcomeBytes = 180;
inline constexpr size_t kMaxRejectBytes = 144;

// The longest message of a SEND. Receive buffers have this size.
inline constexpr size_t kMaxMessageBytes = 4096;

// Scatter elements of one READ, unless Capabilities::max_read_sges allows fewer.
inline constexpr size_t kMaxReadSges = 4;

enum class Opcode : uint8_t {
  kRead,          // a posted READ ended
  kFetchAdd,      // a posted FETCH_ADD ended
  kCompareSwap,   // a posted COMPARE_SWAP ended
  kReceive,       // a message of the peer arrived
  kConnected,     // Connect() succeeded: posts may begin, Connection::welcome() is set
  kDisconnected,  // the connection is closed, or was never established; Connection::status() is the reason
};

// Result of a work request. See ibv_wc_status; for a failed one only wr_id, status and connection are valid.
enum class WcStatus : uint8_t {
  kSuccess,
  kFlushed,        // the connection broke before this was executed; whether an atomic was executed is unknown
  kRemoteAccess,   // the peer's memory region does not allow it, or is too short (iWARP: kFlushed)
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
// listener offers, unless Capabilities::any_local_memory is set. Otherwise the request fails with kLocalError.
struct Sge {
  char* data;
  uint32_t bytes;
};

// Capabilities of a connection, negotiated between both sides and the device. Fixed once connected.
struct Capabilities {
  bool atomics = false;                // PostFetchAdd and PostCompareSwap work
  bool any_local_memory = false;       // READs may fetch into memory that is not registered
  bool local = false;                  // the peer is on this host: a READ costs a cache miss, not a round trip
  bool reads_at_once = false;          // ReadAtOnce() may be able to read
  uint32_t max_outstanding_reads = 0;  // READs and atomics that the peer executes at once; more are queued
  uint32_t send_queue_depth = 0;       // most work requests that are posted and not completed
  uint32_t max_read_sges = 1;
  uint64_t max_read_bytes = 0;  // of one READ
};

// The peer's rights to memory that this side offers. Local writing is always allowed.
enum class Access : uint8_t {
  kRemoteRead,        // READ
  kRemoteReadAtomic,  // READ, FETCH_ADD, COMPARE_SWAP
};

// Result of ReadAtOnce().
enum class AtOnce : uint8_t {
  kNo,      // nothing was done: use PostRead()
  kPosted,  // like PostRead() and Ring(): Poll() delivers its completion
  kDone,    // it completed with kSuccess, and Poll() delivers no completion
};

// The agent that executes the atomics of a listener's clients.
enum class AtomicDomain : uint8_t {
  kNone,    // none: their connections are without Capabilities::atomics
  kCpu,     // CPUs of this host: their own atomics are atomic with the clients'
  kDevice,  // a device, whose atomics need not be atomic with a CPU's: this process uses a Loopback
};

// Memory that a server offers: a mapping, and the descriptor that clients of the same host can map.
struct SharedRange {
  char* base = nullptr;
  uint64_t bytes = 0;
  int fd = -1;
};

// A process of this host, as identified by the kernel.
struct PeerCredentials {
  int64_t pid = 0;
  uint32_t uid = 0;
  std::vector<uint32_t> gids;  // its group, then its supplementary groups
  bool operator==(const PeerCredentials&) const = default;
};

// Cost of answering READs in this process, where no adapter executes them (tcp).
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

// Registered local memory, from Endpoint::Allocate or Endpoint::Register. Must be destroyed before its endpoint, and
// not while posted work names it. If remote() names it, the peer of any connection of the endpoint can READ it.
class Buffer {
 public:
  virtual ~Buffer() = default;
  absl::Span<char> bytes() const { return bytes_; }
  // The rkey is 0 unless allocated as readable by peers. It may change from one connection to the next.
  const RemoteRange& remote() const { return remote_; }

 protected:
  absl::Span<char> bytes_;
  RemoteRange remote_;
};

// One reliable connection (queue pair). The post calls return false, and post nothing, while the send queue is full or
// the connection is not connected; Poll() makes room. Posted work may start only after Ring().
class Connection {
 public:
  // Two-phase teardown: an orderly user calls Disconnect(), polls until kDisconnected, and destroys. Destroying earlier
  // waits until the hardware releases every posted buffer; no further completion of this connection is delivered.
  virtual ~Connection() = default;

  // READs from `remote_address` into the pieces of `to`, filled in order; their sum is the length, > 0. `to` itself is
  // copied. Alignment: remote_address is a multiple of 8; the sum need not be.
  virtual bool PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) = 0;

  // PostRead() into one piece and Ring(), for a caller that waits for this READ only. Returns kDone if the READ is seen
  // to complete within `looks` checks (at least one), otherwise kPosted. Does not wait while anything else is under way
  // on this connection, or waits to be polled, so Poll() must still be called now and then.
  virtual AtOnce ReadAtOnce(uint64_t /*wr_id*/, const Sge& /*to*/, uint64_t /*remote_address*/, uint32_t /*rkey*/,
                            uint32_t /*looks*/) {
    return AtOnce::kNo;
  }

  // REQUIRES Capabilities::local. Returns this process's mapping of that memory of the peer, whose words change at any
  // time; each loaded word is what a READ posted at that moment would fetch. Returns null if the peer did not grant it,
  // the connection is not connected, or the backend has no mapping.
  //
  // Memory that a listener offered stays mapped until kDisconnected is polled, or the connection is destroyed; a buffer
  // of the peer stays until the endpoint is polled. No completion reports that the peer died, so loaded words are valid
  // only if alive() returns true afterwards.
  virtual const char* Mapped(uint64_t /*remote_address*/, uint64_t /*bytes*/, uint32_t /*rkey*/) { return nullptr; }

  // Sends a message of 1 to kMaxMessageBytes, made of `head` followed by `body` (which may be empty). Both are copied
  // before this returns. A success is not reported; a failure breaks the connection.
  virtual bool PostSend(absl::string_view head, absl::string_view body) = 0;
  // The same, and Ring(), unless it returns false: for a message that is not part of a batch.
  virtual bool PostSendAndRing(absl::string_view head, absl::string_view body) {
    if (!PostSend(head, body)) return false;
    Ring();
    return true;
  }

  // Atomics on the 8-byte word at `remote_address`. `*old_value`, in memory as required for an Sge, receives the word's
  // former value. Always false unless Capabilities::atomics.
  virtual bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                            uint64_t delta) = 0;
  virtual bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                               uint64_t expected, uint64_t desired) = 0;

  // Turns the delivery of the peer's messages on (initially) or off. While it is off, messages wait in the transport,
  // which stores a bounded number of bytes for each connection, and then at the peer, which finds no room. Waiting
  // messages are lost when the connection ends. Delivered messages stay delivered.
  virtual void SetReceiving(bool receiving) = 0;

  // Starts everything posted so far: one doorbell for a batch.
  virtual void Ring() = 0;

  // Breaks the connection: nothing more is sent or received, posted work is flushed, then kDisconnected is delivered.
  // Idempotent. The peer gets kDisconnected too.
  virtual void Disconnect() = 0;

  // Returns whether the peer's host still serves this connection, as far as known without asking it. Costs one load.
  virtual bool alive() const = 0;

  // For the accepting side, after kDisconnected. Returns whether the peer can no longer change this side's memory, nor
  // fetch memory offered for atomics, once this connection is destroyed. A queue pair ensures that itself. On shm a
  // client that was stopped within an atomic may still finish it: keep the connection, and ask again later. May cost a
  // system call.
  virtual bool quiescent() { return true; }

  // For the accepting side, after ConnectionRequest::WithholdReads(): from now on the peer may READ, and, if `atomics`,
  // execute atomics if Accept() was given a range for them. UNAVAILABLE: the connection is unusable.
  virtual absl::Status Grant(bool /*atomics*/) { return absl::FailedPreconditionError("nothing was withheld"); }
  // For the connecting side: the server reported that it did so. Until then no READ of the server's memory is posted.
  virtual void Granted() {}

  // The server's address as both sides know it, "10.0.0.1:7471"; empty on shm.
  virtual std::string server_address() const { return ""; }

  virtual const Capabilities& capabilities() const = 0;

  // The bytes that the server sent with its accept, possibly padded with zeros. Set by kConnected.
  virtual absl::string_view welcome() const = 0;

  // OK while connected. Before: the event that is awaited, if there is more to report than a missing answer, or OK.
  // Afterwards: UNAVAILABLE and the reason; PERMISSION_DENIED with the server's reason after a reject;
  // FAILED_PRECONDITION if the peer is no Farlook server, or one of another version; or the fault of an address at
  // which no server listens.
  virtual absl::Status status() const = 0;

  // The other side, for logs ("pid 4711 uid 1000", "10.0.0.7:41000").
  virtual std::string peer() const = 0;

  // For the user, to find its object from a completion.
  void* context = nullptr;
};

// Location of the peers of an endpoint that sent something since it last slept.
enum class PeerActivity : uint8_t {
  kNone,
  kHere,       // all on the processor of the calling thread: they run when it sleeps
  kElsewhere,  // at least one on another or an unknown processor
};

// A completion queue, and the connections whose completions it receives.
class Endpoint {
 public:
  virtual ~Endpoint() = default;  // REQUIRES: its connections and buffers are destroyed

  // Begins to connect to `address`, sending `hello` (at most kMaxHelloBytes). kConnected or kDisconnected follows
  // within `timeout_ms`. A name is looked up meanwhile, and each of its addresses is tried. If the name no longer
  // resolves, or not soon, its last addresses are used. Does not block. Immediate errors: INVALID_ARGUMENT for an
  // address that this backend does not support; UNAVAILABLE while the endpoint's device is gone, and no other can be
  // used.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Connect(absl::string_view address, absl::string_view hello,
                                                              int64_t timeout_ms) = 0;

  // Returns registered memory of at least `bytes`, zeroed, page aligned. `readable_by_peers`: connections can READ it.
  // RESOURCE_EXHAUSTED if memory or the memlock limit does not suffice; the message names the limit.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, bool readable_by_peers) = 0;

  // Registers memory of this process, of any alignment, which connections can READ too. It remains the caller's, must
  // stay mapped until the Buffer is destroyed, and overlaps no other Buffer. Returns null if registering gains nothing:
  // READs can fetch into any memory, and peers can only READ memory allocated here. INVALID_ARGUMENT: it is not fully
  // mapped or not writable; RESOURCE_EXHAUSTED as above.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Register(absl::Span<char> /*memory*/) {
    return std::unique_ptr<Buffer>();
  }

  // Makes progress and returns up to out.size() completions; 0 if there is nothing to do now. Messages of the previous
  // call become invalid.
  virtual size_t Poll(absl::Span<Completion> out) = 0;

  // Sleeping. Arm() returns false if there is something to poll already. Otherwise it returns true, and fd() becomes
  // readable when there is, or when there is room again after a post call returned false (spurious events are
  // possible). Poll() disarms. fd() is an epoll descriptor: it is polled together with others, or alone by
  // epoll_wait(), which costs less. Its events are internal to the endpoint.
  virtual bool Arm() = 0;
  virtual int fd() const = 0;
  // Ends one sleep, this one or the next. Any thread.
  virtual void Wake() = 0;

  // For a child of fork(): closes the child's copies of the endpoint's descriptors. The parent is not affected.
  // Afterwards connections, buffers and endpoint may only be destroyed; if it returned false, not even that, because
  // freeing them would also free the parent's objects in the kernel.
  virtual bool LeaveToParent() { return true; }

  // Location of the last senders, for a caller that considers polling for a while instead of sleeping. A hint.
  virtual PeerActivity peer_activity() const { return PeerActivity::kElsewhere; }

  // Bytes of memory that are registered for messages of all its connections, and freed when unused; 0 if each
  // connection has its own.
  virtual uint64_t message_bytes() const { return 0; }
};

// A client's request at a listener that waits for an answer. Destroying it without an answer rejects it.
class ConnectionRequest {
 public:
  virtual ~ConnectionRequest() = default;
  virtual absl::string_view hello() const = 0;  // as sent, possibly padded with zeros; untrusted
  virtual std::string peer() const = 0;

  // The client's identity; null if unknown to the kernel (rdma, tcp).
  virtual const PeerCredentials* credentials() const { return nullptr; }

  // To be called before Accept(): the client gets no right to READ anything, or to execute atomics, before
  // Connection::Grant(). Ignored where there are credentials, since the client is identified already. (Soft iWARP does
  // not enforce it: a client that knows a key may use it.)
  virtual void WithholdReads() {}

  // Returns a range from Listener::Offer() with its key for this client. The key changes if the listener's device was
  // removed and returned.
  virtual RemoteRange Current(const RemoteRange& offered) const { return offered; }

  // Does the part of Accept() that needs no endpoint, so that the listener's thread bears its cost. Optional.
  virtual void Prepare() {}

  // Accepts, on the thread of `endpoint` (made by the same listener). `welcome` has at most kMaxWelcomeBytes. The
  // client may use the ranges whose keys, from Offer(), are in `rkeys`, and no others. On shm it has no others. On rdma
  // all connections of a listener share a protection domain, and a client could guess the key of another range. It
  // could READ that range, but execute atomics only if one of `rkeys` is of kRemoteReadAtomic. The connection may be
  // used at once; kDisconnected is delivered if the client has already disconnected.
  virtual absl::StatusOr<std::unique_ptr<Connection>> Accept(Endpoint* endpoint, absl::string_view welcome,
                                                             absl::Span<const uint32_t> rkeys) = 0;

  // The reason (at most kMaxRejectBytes) becomes the message of the client's Connection::status().
  virtual void Reject(absl::string_view reason) = 0;
};

// A server's own atomics on memory that its listener offers, executed by the device like those of its clients, over a
// queue pair that is connected to itself. Each call waits, some microseconds, until its change is visible to all later
// atomics.
//
// An error, within some seconds: the device failed. Whether the word was changed is unknown, but it will not be changed
// later. Later calls try again, and fail at once for a while.
//
// Thread safety: any thread. It may outlive its listener, but not the memory.
class Loopback {
 public:
  virtual ~Loopback() = default;

  // On an aligned word in the range. `*old_value` receives its former value.
  virtual absl::Status Read(uint64_t remote_address, uint64_t* value) = 0;
  virtual absl::Status FetchAdd(uint64_t remote_address, uint64_t delta, uint64_t* old_value) = 0;
  virtual absl::Status CompareSwap(uint64_t remote_address, uint64_t expected, uint64_t desired,
                                   uint64_t* old_value) = 0;
};

// A server's address. Errors of Listen name the remedy (address in use by a live server, no permission, no device).
class Listener {
 public:
  virtual ~Listener() = default;            // REQUIRES: its endpoints are destroyed
  virtual std::string address() const = 0;  // as a client would write it
  // The network addresses that it stands for, "10.0.0.1:7471"; none on shm.
  virtual std::vector<std::string> bound() const { return {}; }

  // Offers memory to clients. The range must outlive the listener and its endpoints. To be called before the first
  // Accept.
  virtual absl::StatusOr<RemoteRange> Offer(const SharedRange& range, Access access) = 0;

  // OK, or the reason why no client can connect at present: UNAVAILABLE while its device is gone. State of the last
  // Next().
  virtual absl::Status status() const { return absl::OkStatus(); }

  // Fixed. Two listeners of kCpu share one domain; two of kDevice need not.
  virtual AtomicDomain atomic_domain() const { return AtomicDomain::kNone; }

  // Connects to `range`, offered here as kRemoteReadAtomic. FAILED_PRECONDITION unless the domain is kDevice;
  // UNAVAILABLE if the device cannot reach itself.
  virtual absl::StatusOr<std::unique_ptr<Loopback>> ConnectToItself(const RemoteRange& /*range*/) {
    return absl::FailedPreconditionError("no device carries out the atomics of this listener's clients");
  }

  // Creates a completion queue for connections accepted here, for one worker thread.
  virtual absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint() = 0;

  // Returns the next request, or null if none waits. fd() is readable while one may wait, or Next() has other work.
  virtual std::unique_ptr<ConnectionRequest> Next() = 0;
  virtual int fd() const = 0;

  // Frees resources of closed connections that the kernel frees slowly. fd() is readable while there are any, too.
  virtual void CleanUp() {}

  // Total since it listens. Any thread.
  virtual ReadsServed reads_served() const { return {}; }

  // The best NUMA node for memory to be offered: the device's. -1: any.
  virtual int numa_node() const { return -1; }
};

// Options.
struct TransportOptions {
  // rdma, tcp: time within which a silently lost peer is detected, even if nothing is under way.
  int64_t liveness_ms = 3000;
  // rdma: READs and atomics that the devices execute at once, for all endpoints of this process. More are queued in
  // their connections.
  uint32_t max_outstanding = 1024;
  // rdma: time for which CreateEndpoint() waits for a name to resolve. 0: it does not wait, and the endpoint uses a
  // device once the name has resolved.
  int64_t resolve_ms = 10'000;
  // Permissions of a listener's socket file (shm): processes that may write to it may connect. -1: by the umask; this
  // process' group.
  int socket_mode = -1;
  int64_t socket_gid = -1;
};

// Returns a backend for the scheme of `address` ("shm://…", "rdma://…", "tcp://…"). INVALID_ARGUMENT names the schemes
// that exist.
absl::StatusOr<std::unique_ptr<Listener>> Listen(absl::string_view address, const TransportOptions& options = {});

// Returns a client's endpoint. All its connections use the backend that `address` names, and on rdma the device through
// which it is reached: TransportOptions::resolve_ms limits the wait for a name. Errors name the remedy (no device, no
// permission, no route, memlock limit).
absl::StatusOr<std::unique_ptr<Endpoint>> CreateEndpoint(absl::string_view address,
                                                         const TransportOptions& options = {});

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_TRANSPORT_H_
