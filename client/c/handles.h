// The handles of the C library.
#ifndef FARLOOK_CLIENT_C_HANDLES_H_
#define FARLOOK_CLIENT_C_HANDLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/linked_list.h"
#include "client/api/client_impl.h"
#include "client/c/error.h"
#include "client/c/options.h"
#include "client/op/forks.h"
#include "client/op/operation.h"
#include "farlook.h"
#include "farlook/async.h"
#include "farlook/client.h"

namespace farlook::c {
struct StartedTag;
}  // namespace farlook::c

// The public C++ operations have a class for each kind; this one is for any kind.
struct farlook_operation final : farlook::AsyncOperation, farlook::Linked<farlook::c::StartedTag> {
  enum class State : uint8_t { kBlank, kPrepared, kInFlight, kEnded };

  using AsyncOperation::record;

  State state = State::kBlank;
  std::string value;
  std::string error;  // returned by farlook_operation_error()
};

struct farlook_value {
  farlook::Value value;
};

struct farlook_client {
  std::unique_ptr<farlook::Client> client;
  farlook::ClientImpl* impl = nullptr;  // the client's
  // An exception passed through the engine. Its state is unknown since then; it can only be closed.
  bool broken = false;
  // Operations in flight, for farlook_close().
  farlook::LinkedList<farlook_operation, farlook::c::StartedTag> started;
};

namespace farlook::c {

// Returns FARLOOK_OK if `client` may be used, else a code.
inline int Check(const farlook_client* client) {
  if (client == nullptr) [[unlikely]]
    return Invalid("the client is NULL");
  if (client->impl->in_child()) [[unlikely]]
    return Fail(absl::StatusCode::kFailedPrecondition, client::kOfParent);
  if (client->broken) [[unlikely]]
    return Fail(absl::StatusCode::kFailedPrecondition,
                "memory ran out within a call of this client: close it, and connect again");
  return FARLOOK_OK;
}

// Guarded() for a call with a client: an exception marks it as broken. `client` may be null.
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

// Clamps a length to what a string_view accepts. Such a key or value is too long anyway.
inline absl::string_view Bytes(const void* bytes, size_t count) {
  return absl::string_view(static_cast<const char*>(bytes), std::min<size_t>(count, PTRDIFF_MAX));
}

// Sets kind, key and options of an operation; returns FARLOOK_OK or a code.
inline int Fill(client::Operation* operation, client::Kind kind, const void* key, size_t key_bytes,
                const farlook_options* options) {
  if (key == nullptr && kind != client::Kind::kPing && kind != client::Kind::kWarm) [[unlikely]]
    return Invalid("the key is NULL");
  operation->kind = kind;
  operation->key = Bytes(key, key_bytes);
  return TakeOptions(options, operation);
}

// Executes an operation that was filled, and waits for its end.
inline int Run(farlook_client* client, client::Operation* operation) {
  if (operation->kind == client::Kind::kGet || operation->kind == client::Kind::kExists) {
    return Ended(client->impl->Run(operation, operation->kind));
  }
  const std::string_view key(operation->key.data(), operation->key.size());
  return Ended(client->impl->RunTimed(operation, operation->kind, key, operation->timeout_ms));
}

// Returns whether a counter's value is known with `code`.
inline bool HasCounterValue(int code) {
  return code == FARLOOK_OK || code == FARLOOK_OUT_OF_RANGE || code == FARLOOK_ALREADY_EXISTS;
}

}  // namespace farlook::c

#endif  // FARLOOK_CLIENT_C_HANDLES_H_
