// The client's identity, from its options or its environment.
#ifndef FARLOOK_CLIENT_CONNECTION_CREDENTIALS_H_
#define FARLOOK_CLIENT_CONNECTION_CREDENTIALS_H_

#include "absl/status/status.h"
#include "farlook/options.h"

namespace farlook::client {

// Fills user and secret, or leaves both empty. White space around a secret is removed, whatever its source.
// INVALID_ARGUMENT: only one of the two, or a secret that no server would accept; or the file cannot be read, or others
// than its owner may read it. Messages never contain a secret.
absl::Status FindCredentials(ClientOptions* options);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CONNECTION_CREDENTIALS_H_
