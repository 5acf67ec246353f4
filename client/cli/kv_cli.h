// The program kv_cli, but for the kind of its store.
#ifndef FARLOOK_CLIENT_CLI_KV_CLI_H_
#define FARLOOK_CLIENT_CLI_KV_CLI_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "client/cli/options.h"
#include "client/cli/store.h"

namespace farlook::cli {

// Connects to options.address within options.timeout_ms. INVALID_ARGUMENT: that is no address.
using Connect = std::function<absl::StatusOr<std::unique_ptr<Store>>(const Options& options)>;

// What main() does: its arguments, standard streams and environment; returns the exit code. Changes the handling of
// SIGPIPE, and that of SIGINT for those commands that have to end in good order.
int KvCli(int argc, char** argv, const Connect& connect);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_KV_CLI_H_
