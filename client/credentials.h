// Who a client is, from its options or its environment.
#ifndef FARLOOK_CLIENT_CREDENTIALS_H_
#define FARLOOK_CLIENT_CREDENTIALS_H_

#include "absl/status/status.h"
#include "farlook/options.h"

namespace farlook::client {

// Fills user and secret, or leaves both empty. INVALID_ARGUMENT: one without the other, or a secret that no server
// would take; NOT_FOUND, PERMISSION_DENIED: the file, which others than its owner may read. No message tells a secret.
absl::Status FindCredentials(ClientOptions* options);

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_CREDENTIALS_H_
