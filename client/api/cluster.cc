#include "client/api/cluster.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farlook::client {

absl::StatusOr<ClusterAddress> ClusterAddress::Parse(absl::string_view text) {
  ClusterAddress address;
  absl::string_view rest = text;
  if (!absl::ConsumePrefix(&rest, "farlook://")) return address;
  const auto bad = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(
        text, ": ", why, "; a cluster is farlook://host:port,host:port/NAME, or /path of a socket for host:port"));
  };
  const size_t slash = rest.rfind('/');
  if (slash == absl::string_view::npos) return bad("the name is missing");
  address.name = std::string(rest.substr(slash + 1));
  if (!kv::IsClusterName(address.name)) return bad("the name is none");
  for (const absl::string_view seed : absl::StrSplit(rest.substr(0, slash), ',')) {
    if (seed.empty()) return bad("a server is missing");
    address.seeds.push_back(absl::StrCat(absl::StartsWith(seed, "/") ? "shm://" : "auto://", seed));
  }
  return address;
}

absl::StatusOr<kv::ClusterMap> AskMap(ClientImpl* impl, ClientCore* core, int64_t timeout_ms) {
  const absl::StatusOr<std::string> text = impl->AskText(core, "map", timeout_ms);
  if (absl::IsUnimplemented(text.status())) return absl::FailedPreconditionError("the server is not in a cluster");
  if (!text.ok()) return text.status();
  if (text->empty()) return absl::UnavailableError("the server has no map of the cluster yet");
  absl::StatusOr<kv::ClusterMap> map = kv::ClusterMap::Decode(*text);
  // Its pages may belong to two maps.
  if (!map.ok()) return absl::UnavailableError(map.status().message());
  return map;
}

absl::Status CheckComplete(const kv::ClusterMap& map) {
  const kv::SlotSet served = map.Served();
  if (served.all()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("slots ", kv::FormatSlots(~served),
                                             " of the cluster have no group that serves: "
                                             "start one with --slots"));
}

}  // namespace farlook::client
