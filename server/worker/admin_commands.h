// Executes the commands of operators (kv::RequestType::kAdmin): lists connections, ends one, asks the group.
#ifndef FARLOOK_SERVER_WORKER_ADMIN_COMMANDS_H_
#define FARLOOK_SERVER_WORKER_ADMIN_COMMANDS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/session/session.h"
#include "server/worker/link.h"
#include "server/worker/worker_context.h"

namespace farlook::server {

// Thread safety: none; belongs to its worker.
class AdminCommands final {
 public:
  explicit AdminCommands(WorkerContext* context) : context_(*context) {}

  // Executes a command for the client of `link`. Where there are users, only those with the role admin may.
  // `*payload` is the reply's, valid until the next call.
  Outcome Execute(const Link& link, absl::string_view command, absl::string_view* payload);

 private:
  Outcome Kick(const Link& link, uint64_t id, absl::string_view* payload);

  WorkerContext& context_;
  std::string page_;  // of the reply
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_WORKER_ADMIN_COMMANDS_H_
