// The shape of what carries out operations: Session (requests to the server), Reads and DirectReads (gets), Counters.
//
//     Start() -> waits in the engine's queue -> in flight: posted, Completed(), posted again ... -> Finished::End(),
//                                                                                        or another engine's Start()
//
// Start() and Completed() each engine has for itself, under these names: they are the hot path, and free of virtual
// calls. What happens rarely is the same for all, and is done to each engine in turn, or to the one that has an
// operation (Operation::engine), without knowing which it is.
#ifndef FARLOOK_CLIENT_ENGINE_H_
#define FARLOOK_CLIENT_ENGINE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "client/operation.h"
#include "kv/handshake.h"
#include "kv/lookup.h"
#include "rdma/transport.h"

namespace farlook::client {

class EpochWatch;

// A connection that is ready. The pointers hold until Engine::Lost().
struct Ready {
  rdma::Connection* connection;
  kv::ServerRange table;
  kv::ReaderContext context;  // of the table
  uint64_t incarnation;
  const kv::Welcome* welcome;
  int64_t hello_ns;    // when it was asked for, or before
  int64_t welcome_ns;  // when it came
  EpochWatch* watch;   // null: the server is in no group
};

// What was posted since the core last rang, and whether more waits to be. In one byte, as the core asks after each call
// and each completion, and mostly there is nothing.
struct Posted {
  bool messages : 1 = false;
  bool fetches : 1 = false;  // READs and atomics: they may be done as soon as Ring() returns
  // Pump() may have something to do: an engine queued something, or made room for what was queued.
  bool more : 1 = false;
};

// Thread safety: one thread.
class Engine {
 public:
  // What waits may begin.
  virtual void Connect(const Ready& ready) = 0;
  // The connection is destroyed, and all memory that was posted is free. What was in flight begins anew over the next
  // one, or ends with UNKNOWN where that might do it twice.
  virtual void Lost() = 0;
  // Posts what waits and may be posted now. REQUIRES connected.
  virtual void Pump() = 0;

  // Whether an operation waits for a connection.
  virtual bool waiting() const { return false; }
  // Whether Pump() may soon have something to do although no completion says so: a send queue that was full has room.
  virtual bool held_up() const { return false; }

  // Whether the transport may still write to the caller's memory for an operation that this engine has: to cancel it,
  // the connection must be destroyed first.
  virtual bool Clings(const Operation& /*operation*/) const { return false; }
  // Lets go of an operation that this engine has: its time is over. What was posted for it may complete later.
  virtual void Cancel(Operation* operation) = 0;
  // Hands those operations that wait for a connection, and for which `which` is true, to `take`. REQUIRES not
  // connected.
  virtual void Withdraw(absl::FunctionRef<bool(const Operation&)> /*which*/,
                        absl::FunctionRef<void(Operation*)> /*take*/) {}

  virtual uint64_t memory_bytes() const = 0;

 protected:
  ~Engine() = default;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_ENGINE_H_
