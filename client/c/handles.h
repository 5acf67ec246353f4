// What the handles of the C library are.
#ifndef FARLOOK_CLIENT_C_HANDLES_H_
#define FARLOOK_CLIENT_C_HANDLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/c/error.h"
#include "client/c/options.h"
#include "client/client_impl.h"
#include "client/linked_list.h"
#include "client/operation.h"
#include "farlook.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook::c {
struct StartedTag;
// How many forks led to this process.
uint32_t Forks();
}  // namespace farlook::c

// The public C++ operations have a class for each kind; this one is of any.
struct farlook_operation final : farlook::AsyncOperation, farlook::client::Linked<farlook::c::StartedTag> {
  enum class State : uint8_t { kBlank, kPrepared, kInFlight, kEnded };

  using AsyncOperation::record;

  State state = State::kBlank;
  std::string value;
  std::string error;  // what farlook_operation_error() returned
};

struct farlook_value {
  farlook::Value value;
};

struct farlook_client {
  std::unique_ptr<farlook::Client> client;
  farlook::ClientImpl* impl = nullptr;  // the client's
  uint32_t forks = farlook::c::Forks();
  // An exception came through the engine, of which nothing is known since, but that it can be closed.
  bool broken = false;
  // Those in flight, for farlook_close().
  farlook::client::LinkedList<farlook_operation, farlook::c::StartedTag> started;
};

namespace farlook::c {

// Whether `client` may be used; else a code.
inline int Check(const farlook_client* client) {
  if (client == nullptr) [[unlikely]]
    return Invalid("the client is NULL");
  if (client->forks != Forks()) [[unlikely]]
    return Fail(absl::StatusCode::kFailedPrecondition,
                "the client is of this process' parent: connect again after fork()");
  if (client->broken) [[unlikely]]
    return Fail(absl::StatusCode::kFailedPrecondition,
                "memory ran out within a call of this client: close it, and connect again");
  return FARLOOK_OK;
}

// Guarded(), of a call with a client: an exception breaks it. `client` may be null.
template <typename F>
int GuardedWith(farlook_client* client, F f) noexcept {
  bool whole = false;
  const int code = Guarded([&] {
    const int ended = f();
    whole = true;
    return ended;
  });
  if (!whole && client != nullptr) client->broken = true;
  return code;
}

// A length that no memory has becomes one that is too long for a key or a value all the same, but that a string_view
// takes.
inline absl::string_view Bytes(const void* bytes, size_t count) {
  return absl::string_view(static_cast<const char*>(bytes), std::min<size_t>(count, PTRDIFF_MAX));
}

// Gives an operation its kind, key and options: OK, or a code.
inline int Fill(client::Operation* operation, client::Kind kind, const void* key, size_t key_bytes,
                const farlook_options* options) {
  if (key == nullptr && kind != client::Kind::kPing && kind != client::Kind::kWarm) [[unlikely]]
    return Invalid("the key is NULL");
  operation->kind = kind;
  operation->key = Bytes(key, key_bytes);
  return TakeOptions(options, operation);
}

// Carries out an operation that was filled, and waits for its end.
inline int Run(farlook_client* client, client::Operation* operation) {
  if (operation->kind == client::Kind::kGet || operation->kind == client::Kind::kExists) {
    return Ended(client->impl->Run(operation, operation->kind));
  }
  const std::string_view key(operation->key.data(), operation->key.size());
  return Ended(client->impl->RunTimed(operation, operation->kind, key, operation->timeout_ms));
}

// Whether a counter's value came with `code`.
inline bool TellsValue(int code) {
  return code == FARLOOK_OK || code == FARLOOK_OUT_OF_RANGE || code == FARLOOK_ALREADY_EXISTS;
}

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_HANDLES_H_
