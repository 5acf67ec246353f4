#include "server/worker/admin_commands.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kv/wire/message.h"
#include "server/base/log.h"

namespace farlook::server {

Outcome AdminCommands::Execute(const Link& link, absl::string_view command, absl::string_view* payload) {
  const Shared& shared = context_.shared;
  if (shared.connections == nullptr) return Outcome(kv::Code::kUnsupported);
  if (shared.users != nullptr && !link.who.user.admin) return Outcome(kv::Code::kNotAllowed);
  if (shared.cluster && absl::ConsumePrefix(&command, "cluster ")) {
    page_ = shared.cluster(command);
    *payload = page_;
    return Outcome(page_.empty() ? kv::Code::kUnsupported : kv::Code::kOk);
  }
  uint64_t id = 0;
  if (absl::ConsumePrefix(&command, "clients@") && absl::SimpleAtoi(command, &id)) {
    uint64_t left = 0;
    page_ = shared.connections->List(id, kv::kMaxReplyPayloadBytes, context_.now_ns, &left);
    *payload = page_;
    return Outcome(kv::Code::kOk, left);
  }
  if (!absl::ConsumePrefix(&command, "kick ") || !absl::SimpleAtoi(command, &id)) {
    return Outcome(kv::Code::kUnsupported);
  }
  return Kick(link, id, payload);
}

Outcome AdminCommands::Kick(const Link& link, uint64_t id, absl::string_view* payload) {
  const Shared& shared = context_.shared;
  const ConnectionList::Kick kick = shared.connections->KickOut(id);
  if (kick == ConnectionList::Kick::kAbsent) return Outcome(kv::Code::kNotFound);
  if (kick == ConnectionList::Kick::kGone) return Outcome(kv::Code::kOk);
  if (kick == ConnectionList::Kick::kRefused) {
    page_ = absl::StrCat("refused: ", shared.quota->max(), " clients that were stopped within atomics are kicked, as ",
                         "many as --max_clients, and not gone: end the processes of these first");
    *payload = page_;
    return Outcome(kv::Code::kOk);
  }
  // Each is logged: only operators do that, and must be able to account for it.
  Log(LogLevel::kInfo,
      kick == ConnectionList::Kick::kVacated ? "an operator freed the place of a client within an atomic"
                                             : "operator kicks a client",
      {{"peer", link.connection->peer()}, {"user", link.who.user.name}, {"id", id}});
  if (shared.wake_workers) shared.wake_workers();
  return Outcome(kv::Code::kOk);
}

}  // namespace farlook::server
