// The program kv_cli, without its store.
#ifndef FARLOOK_CLIENT_CLI_KV_CLI_H_
#define FARLOOK_CLIENT_CLI_KV_CLI_H_

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "client/cli/context/store.h"
#include "client/cli/input/options.h"

namespace farlook::cli {

// Connects to options.address within options.timeout_ms. INVALID_ARGUMENT: that is no address.
using Connect = std::function<absl::StatusOr<std::unique_ptr<Store>>(const Options& options)>;

// The body of main(): uses its arguments, standard streams and environment; returns the exit code. Changes the handling
// of SIGPIPE, and that of SIGINT for commands that catch it.
int KvCli(int argc, char** argv, const Connect& connect);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_KV_CLI_H_
