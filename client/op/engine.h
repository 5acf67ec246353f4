// The interface of what executes operations: Session (requests to the server), Reads and DirectReads (gets), Counters.
//
//     Start() -> waits in the engine's queue -> in flight: posted, Completed(), posted again ... -> Finished::End(),
//                                                                                        or another engine's Start()
//
// Each engine has its own Start() and Completed(), without virtual calls, since they are the hot path. Rare events are
// virtual. They apply to each engine in turn, or to the one that has an operation (Operation::engine).
#ifndef FARLOOK_CLIENT_OP_ENGINE_H_
#define FARLOOK_CLIENT_OP_ENGINE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "client/op/operation.h"
#include "kv/read/lookup.h"
#include "kv/wire/handshake.h"
#include "rdma/transport.h"

namespace farlook::client {

class EpochWatch;

// A connection that is ready. The pointers are valid until Engine::Lost().
struct Ready {
  rdma::Connection* connection;
  kv::ServerRange table;
  kv::ReaderContext context;  // of the table
  uint64_t incarnation;
  const kv::Welcome* welcome;
  int64_t hello_ns;    // when the Welcome was requested, or before
  int64_t welcome_ns;  // when the Welcome arrived
  EpochWatch* watch;   // null: the server is in no group
};

// The kinds of work posted since the core last rang, and whether more is waiting. One byte, since the core checks it
// after each call and completion, and it is mostly empty.
struct Posted {
  bool messages : 1 = false;
  bool fetches : 1 = false;  // READs and atomics: may be complete when Ring() returns
  // Pump() may have work: an engine queued something, or made room for queued operations.
  bool more : 1 = false;
};

// Thread safety: one thread.
class Engine {
 public:
  // Waiting operations may start.
  virtual void Connect(const Ready& ready) = 0;
  // The connection is destroyed, and all posted memory is free. Operations in flight start again over the next
  // connection, or end with UNKNOWN if that might execute them twice.
  virtual void Lost() = 0;
  // Posts waiting operations as far as possible. REQUIRES connected.
  virtual void Pump() = 0;

  // Returns whether an operation waits for a connection.
  virtual bool waiting() const { return false; }
  // Returns whether Pump() may soon have work without a completion: when a full send queue has room again.
  virtual bool held_up() const { return false; }

  // Returns whether the transport may still write to the caller's memory for an operation of this engine. Then the
  // connection must be destroyed to cancel it.
  virtual bool MayStillWrite(const Operation& /*operation*/) const { return false; }
  // Releases an expired operation of this engine. Its posted work requests may complete later.
  virtual void Cancel(Operation* operation) = 0;
  // Hands the operations that wait for a connection, and for which `which` is true, to `take`. REQUIRES not connected.
  virtual void Withdraw(absl::FunctionRef<bool(const Operation&)> /*which*/,
                        absl::FunctionRef<void(Operation*)> /*take*/) {}

  virtual uint64_t memory_bytes() const = 0;

 protected:
  ~Engine() = default;
};

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_ENGINE_H_
