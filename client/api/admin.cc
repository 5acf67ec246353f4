#include "farlook/admin.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/api/client_impl.h"
#include "client/api/cluster.h"
#include "client/api/waiter.h"
#include "client/op/operation.h"
#include "client/op/view.h"
#include "kv/layout/limits.h"
#include "kv/wire/cluster_map.h"
#include "rdma/durations.h"

namespace farlook {
namespace {

// Waits for this operation alone: other operations in flight stay the user's. `*left`: number of lines that did not
// fit.
absl::StatusOr<std::string> Ask(Client* client, std::string_view what, const ServerOptions& options,
                                uint64_t* left = nullptr) {
  std::string text;
  client::Operation operation;
  operation.to.string = &text;
  absl::Status status =
      ClientImpl::Of(*client).RunAt(options.group, &operation, client::Kind::kAdmin, what, options.timeout_ms);
  if (absl::IsUnimplemented(status) && absl::StartsWith(client::View(what), "cluster ")) {
    return absl::FailedPreconditionError("the server is not in a group; kv_server --group begins one");
  }
  if (!status.ok()) return status;
  if (left != nullptr) *left = operation.version;
  return text;
}

// Sends a request that is either begun or refused.
absl::Status Begin(Client* client, std::string_view what, const ServerOptions& options) {
  const absl::StatusOr<std::string> answer = Ask(client, what, options);
  if (!answer.ok()) return answer.status();
  absl::string_view text = absl::StripAsciiWhitespace(*answer);
  if (absl::ConsumePrefix(&text, "refused: ")) return absl::FailedPreconditionError(text);
  if (text == "begun") return absl::OkStatus();
  return absl::InternalError("the server's answer is neither an acceptance nor a refusal");
}

// Pause between two looks at the state of a group. Longer than the time until ClientOptions::while_waiting is called.
constexpr int64_t kLookMs = 20;

// Waits until the next look. Returns false if ClientOptions::while_waiting ends the call.
bool Pause(Client* client, client::ClientCore* core) {
  client::Waiter& waiter = ClientImpl::Of(*client).waiter;
  return waiter.Wait([] { return false; }, core->NowNs() + rdma::NsOfMs(kLookMs));
}

constexpr absl::string_view kTake = "cluster take ";
static_assert(kTake.size() + kv::kMaxClusterNameBytes + 1 + kMaxSlotRangesBytes <= kv::kMaxKeyBytes,
              "what operators ask for is the key of a request");

// A group's state as reported by its primary.
struct Led {
  uint64_t epoch = 0;
  std::string primary;          // its address and incarnation
  bool is_handed_over = false;  // a handover is under way
};

absl::StatusOr<Led> AskLed(Client* client, const ServerOptions& options) {
  const absl::StatusOr<std::string> status = GroupStatus(client, options);
  if (!status.ok()) return status.status();
  Led led;
  for (absl::string_view line : absl::StrSplit(*status, '\n')) {
    if (absl::ConsumePrefix(&line, "epoch ")) {
      if (!absl::SimpleAtoi(line, &led.epoch)) break;
    } else if (absl::ConsumePrefix(&line, "primary ")) {
      const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(' ', 2));
      led.primary = absl::StrCat(fields[0], " ", fields.size() < 2 ? "" : fields[1]);
    } else if (line == "handover begun") {
      led.is_handed_over = true;
    }
  }
  if (led.epoch != 0 && !led.primary.empty()) return led;
  return absl::InternalError("the server's answer lacks the group's epoch or primary");
}

// Returns false if it is no line of a list.
bool Parse(absl::string_view line, ConnectedClient* client) {
  const std::vector<absl::string_view> fields = absl::StrSplit(line, '\t');
  if (fields.size() < 11) return false;
  client->peer = std::string(fields[1]);
  client->user = std::string(fields[2]);
  client->role = std::string(fields[3]);
  client->state = std::string(fields[5]);
  return absl::SimpleAtoi(fields[0], &client->id) && absl::SimpleAtoi(fields[4], &client->worker) &&
         absl::SimpleAtoi(fields[6], &client->connected_s) && absl::SimpleAtoi(fields[7], &client->requests) &&
         absl::SimpleAtoi(fields[8], &client->kept_bytes) && absl::SimpleAtoi(fields[9], &client->gets_per_s) &&
         absl::SimpleAtoi(fields[10], &client->get_p99_ns);
}

}  // namespace

AdminOperation::AdminOperation(std::string_view what, const ServerOptions& options) {
  set_key(what);
  record().kind = client::Kind::kAdmin;
  record().timeout_ms = options.timeout_ms;
  record().to.string = &text_;
}

absl::StatusOr<std::vector<ConnectedClient>> ListClients(Client* client, const ServerOptions& options) {
  std::vector<ConnectedClient> clients;
  for (;;) {
    const uint64_t after = clients.empty() ? 0 : clients.back().id;
    uint64_t left = 0;
    const absl::StatusOr<std::string> text = Ask(client, absl::StrCat("clients@", after), options, &left);
    if (!text.ok()) return text.status();
    for (const absl::string_view line : absl::StrSplit(*text, '\n', absl::SkipEmpty())) {
      const uint64_t last = clients.empty() ? 0 : clients.back().id;
      clients.emplace_back();
      if (!Parse(line, &clients.back()) || clients.back().id <= last) {
        return absl::InternalError("the server's list of clients is malformed");
      }
    }
    if (left == 0 || text->empty()) return clients;
  }
}

absl::Status KickClient(Client* client, uint64_t id, const ServerOptions& options) {
  const absl::StatusOr<std::string> answer = Ask(client, absl::StrCat("kick ", id), options);
  if (absl::IsNotFound(answer.status())) return absl::NotFoundError(absl::StrCat("no client has the id ", id));
  if (!answer.ok()) return answer.status();
  absl::string_view refused = *answer;
  return absl::ConsumePrefix(&refused, "refused: ") ? absl::FailedPreconditionError(refused) : absl::OkStatus();
}

absl::StatusOr<std::vector<ClusterGroup>> ListGroups(Client* client, const ServerOptions& options) {
  ClientImpl& impl = ClientImpl::Of(*client);
  if (impl.cores.one()) return absl::FailedPreconditionError("the server is not in a cluster");
  const absl::StatusOr<client::ClientCore*> core = impl.cores.OfGroup(client::View(options.group));
  if (!core.ok()) return core.status();
  const absl::StatusOr<kv::ClusterMap> map = client::AskMap(&impl, *core, options.timeout_ms);
  if (!map.ok()) return map.status();
  std::vector<ClusterGroup> groups;
  for (const kv::ClusterMap::Group& group : map->groups) {
    groups.push_back({group.name, group.epoch, group.members, group.slots.count(), kv::FormatSlots(group.slots)});
  }
  std::sort(groups.begin(), groups.end(), [](const ClusterGroup& a, const ClusterGroup& b) { return a.name < b.name; });
  return groups;
}

absl::StatusOr<std::string> GroupStatus(Client* client, const ServerOptions& options) {
  return Ask(client, "cluster status", options);
}

absl::Status HandOver(Client* client, const ServerOptions& options) {
  const absl::StatusOr<client::ClientCore*> core = ClientImpl::Of(*client).cores.OfGroup(client::View(options.group));
  if (!core.ok()) return core.status();
  const absl::StatusOr<Led> before = AskLed(client, options);
  if (!before.ok()) return before.status();
  // Names the epoch, so that the next primary ignores the request if it is sent again.
  absl::Status begun = Begin(client, absl::StrCat("cluster handover ", before->epoch), options);
  if (!begun.ok()) return begun;
  for (;;) {
    const absl::StatusOr<Led> now = AskLed(client, options);
    if (!now.ok()) return now.status();
    if (now->primary != before->primary) return absl::OkStatus();
    if (!now->is_handed_over) {
      return absl::FailedPreconditionError(
          "not handed over: no backup took over, or the group's record cannot be read: see the primary's log");
    }
    if (!Pause(client, *core)) return absl::DeadlineExceededError("not handed over yet; the primary continues to try");
  }
}

absl::Status ResizeGroup(Client* client, uint32_t replicas, uint32_t min_insync, const ServerOptions& options) {
  ClientImpl& impl = ClientImpl::Of(*client);
  const absl::StatusOr<client::ClientCore*> core = impl.cores.OfGroup(client::View(options.group));
  if (!core.ok()) return core.status();
  const int64_t deadline_ns = (*core)->DeadlineFromNow(options.timeout_ms);
  absl::Status begun = Begin(
      client, absl::StrCat("cluster resize ", replicas, min_insync == 0 ? "" : absl::StrCat(" ", min_insync)), options);
  if (!begun.ok()) return begun;
  const std::string wanted =
      absl::StrCat(" of ", replicas, ", at least ", min_insync == 0 ? "" : absl::StrCat(min_insync, "\n"));
  for (;;) {
    const absl::StatusOr<std::string> now = GroupStatus(client, options);
    if (!now.ok()) return now.status();
    if (absl::StrContains(*now, wanted)) return absl::OkStatus();
    if ((*core)->NowNs() > deadline_ns || !Pause(client, *core)) {
      return absl::DeadlineExceededError("the group's record is not changed yet; its primary continues to try");
    }
  }
}

absl::Status TakeSlots(Client* client, std::string_view giver, std::string_view slot_ranges,
                       const ServerOptions& options) {
  if (slot_ranges.size() > kMaxSlotRangesBytes || giver.size() > kv::kMaxClusterNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("ranges of slots that take ", slot_ranges.size(), " bytes to name; ",
                                                   kMaxSlotRangesBytes, " are allowed: move some of them first"));
  }
  return Begin(client, absl::StrCat(kTake, client::View(giver), " ", client::View(slot_ranges)), options);
}

absl::Status CancelMove(Client* client, const ServerOptions& options) {
  return Begin(client, "cluster cancel", options);
}

absl::Status LeaveCluster(Client* client, const ServerOptions& options) {
  return Begin(client, "cluster leave", options);
}

}  // namespace farlook
