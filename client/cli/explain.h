// Turns a status into a sentence that says what happened, what became of the table, and what the user can do.
#ifndef FARLOOK_CLIENT_CLI_EXPLAIN_H_
#define FARLOOK_CLIENT_CLI_EXPLAIN_H_

#include <string>

#include "absl/status/status.h"
#include "client/cli/options.h"
#include "client/cli/store.h"

namespace farlook::cli {

// Of an operation on a key that failed. REQUIRES: request.status is not OK; request.version is the version now there,
// or 0 where that is not known.
std::string Explain(const Request& request, const Options& options);

// Of an operation that concerns the server, or of connecting to it.
std::string Explain(const absl::Status& status, const Options& options);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_EXPLAIN_H_
