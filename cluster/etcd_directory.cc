#include "cluster/etcd_directory.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/steady_time.h"
#include "nlohmann/json.hpp"

namespace farlook::cluster {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 1 << 20;
constexpr absl::Duration kBeforeNextRound = absl::Milliseconds(50);

// Never throws: a value that is no object has no members.
const json& Member(const json& object, const char* name) {
  static const json nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

// 64-bit numbers are strings, and absent when 0.
uint64_t Number(const json& object, const char* name) {
  const json& value = Member(object, name);
  uint64_t number = 0;
  if (value.is_string()) return absl::SimpleAtoi(value.get_ref<const std::string&>(), &number) ? number : 0;
  return value.is_number_unsigned() ? value.get<uint64_t>() : 0;
}

bool True(const json& object, const char* name) {
  const json& value = Member(object, name);
  return value.is_boolean() && value.get<bool>();
}

std::string Text(const json& object, const char* name) {
  const json& value = Member(object, name);
  return value.is_string() ? value.get<std::string>() : "";
}

json Parse(absl::string_view text) { return json::parse(text.begin(), text.end(), nullptr, false); }

std::string Base64(absl::string_view bytes) { return absl::Base64Escape(bytes); }

json Compare(absl::string_view key, uint64_t revision) {
  return {{"key", Base64(key)}, {"target", "MOD"}, {"result", "EQUAL"}, {"mod_revision", std::to_string(revision)}};
}

// The text of an error; of an unknown answer its beginning.
std::string Reason(absl::string_view body) {
  const json reply = Parse(body);
  std::string text = Text(reply, "message");
  if (text.empty()) text = Text(reply, "error");
  return text.empty() ? absl::CHexEscape(body.substr(0, 100)) : text;
}

// The reasons why no endpoint answered properly. The first error that a retry cannot resolve gives the code.
class Reasons {
 public:
  void Add(const absl::Status& status) {
    if (!absl::IsUnavailable(status) && code_ == absl::StatusCode::kUnavailable) code_ = status.code();
    texts_.emplace_back(status.message());
  }
  absl::Status All() const { return absl::Status(code_, absl::StrCat("etcd: ", absl::StrJoin(texts_, "; "))); }

 private:
  absl::StatusCode code_ = absl::StatusCode::kUnavailable;
  std::vector<std::string> texts_;
};

}  // namespace

struct EtcdDirectory::Reply {
  absl::Status status;  // OK: `body` is an answer of the cluster
  bool maybe_sent = false;
  bool is_slow = false;  // it may answer if it is given more time
  std::string body = {};
};

absl::StatusOr<std::unique_ptr<EtcdDirectory>> EtcdDirectory::Create(EtcdOptions options) {
  if (options.endpoints.empty())
    return absl::InvalidArgumentError("etcd: no endpoint; give http://host:port of each member");
  for (std::string& endpoint : options.endpoints) {
    if (!absl::StartsWith(endpoint, "http://") && !absl::StartsWith(endpoint, "https://")) {
      return absl::InvalidArgumentError(absl::StrCat("etcd: \"", endpoint, "\" is no endpoint like http://host:2379"));
    }
    while (absl::EndsWith(endpoint, "/")) endpoint.pop_back();
  }
  return std::unique_ptr<EtcdDirectory>(new EtcdDirectory(std::move(options)));
}

absl::Status EtcdDirectory::CheckHeader(absl::string_view body, bool is_latest) {
  const json reply = Parse(body);
  const json& header = Member(reply, "header");
  const uint64_t cluster = Number(header, "cluster_id"), revision = Number(header, "revision");
  if (cluster == 0) {
    return absl::InvalidArgumentError(absl::StrCat(options_.endpoints[endpoint_], " does not answer as etcd does: \"",
                                                   absl::CHexEscape(body.substr(0, 100)), "\""));
  }
  if (cluster_id_ == 0) cluster_id_ = cluster;
  if (cluster != cluster_id_) {
    return absl::FailedPreconditionError(absl::StrCat(options_.endpoints[endpoint_], " is of etcd's cluster ",
                                                      absl::Hex(cluster), ", and should be of ", absl::Hex(cluster_id_),
                                                      "; correct the list of endpoints"));
  }
  if (!is_latest) return absl::OkStatus();
  if (revision < revision_) {
    lost_ = absl::DataLossError(absl::StrCat("etcd's cluster ", absl::Hex(cluster), " is at revision ", revision,
                                             " and was at ", revision_,
                                             ": it was wiped, or went back to a backup (docs/cluster.md)"));
    return lost_;
  }
  revision_ = revision;
  return absl::OkStatus();
}

EtcdDirectory::Reply EtcdDirectory::Post(absl::string_view path, absl::string_view json_text, bool is_latest,
                                         Patience* patience) {
  const std::string& endpoint = options_.endpoints[endpoint_];
  const absl::Duration limit = options_.endpoints.size() == 1 ? options_.timeout : patience->now;
  const absl::Time begin = SteadyNow();
  HttpReply answer = http_.Post(absl::StrCat(endpoint, path), json_text, limit, kMostBytes);
  const absl::Duration took = SteadyNow() - begin;
  // Even after an error the outcome is unknown: etcd may answer "etcdserver: request timed out" after 7 s and execute
  // the request later.
  Reply reply{.status = absl::OkStatus(), .maybe_sent = answer.sent != HttpReply::Sent::kNo};
  const bool is_answered = answer.sent == HttpReply::Sent::kAnswered;
  if (is_answered || took >= limit) {
    const absl::Duration next = is_answered ? kTimesTheLast * took : 2 * limit;
    patience->now = std::min(std::max(next, patience->least), options_.timeout);
    reply.is_slow = !is_answered && limit < options_.timeout;
  }
  if (!is_answered) {
    reply.status = absl::UnavailableError(answer.error);
  } else if (answer.code != 200) {
    reply.status =
        absl::UnavailableError(absl::StrCat(endpoint, ": ", Reason(answer.body), " (HTTP ", answer.code, ")"));
  } else {
    reply.status = CheckHeader(answer.body, is_latest);
    reply.body = std::move(answer.body);
  }
  return reply;
}

absl::StatusOr<Entry> EtcdDirectory::Get(absl::string_view name, Freshness freshness) {
  if (absl::Status status = CheckRecord(name, 0); !status.ok()) return status;
  if (!lost_.ok()) return lost_;
  const bool is_latest = freshness == Freshness::kLatest;
  const std::string key = options_.prefix + std::string(name);
  json request = {{"key", Base64(key)}};
  if (!is_latest) request["serializable"] = true;
  Reply reply;
  Reasons reasons;
  // A slow endpoint is asked again, with more time, if no other one answers.
  std::vector<bool> failed(options_.endpoints.size());
  for (size_t left = failed.size(); left > 0; NextEndpoint()) {
    if (failed[endpoint_]) continue;
    reply = Post("/v3/kv/range", request.dump(), is_latest, &for_answer_);
    // A cluster that returned to a former state is not a problem of the endpoint.
    if (reply.status.ok() || absl::IsDataLoss(reply.status)) break;
    if (reply.is_slow) continue;
    reasons.Add(reply.status);
    failed[endpoint_] = true;
    --left;
  }
  if (absl::IsDataLoss(reply.status)) return reply.status;
  if (!reply.status.ok()) return reasons.All();
  const json parsed = Parse(reply.body);
  const json& kvs = Member(parsed, "kvs");
  if (!kvs.is_array() || kvs.empty()) return Entry();
  Entry entry{.revision = Number(kvs[0], "mod_revision")};
  if (entry.revision == 0 || !absl::Base64Unescape(Text(kvs[0], "value"), &entry.value)) {
    return absl::InvalidArgumentError(absl::StrCat("etcd: the answer for ", key, " makes no sense"));
  }
  return entry;
}

absl::Status EtcdDirectory::CheckThatItCompares() {
  if (compares_[endpoint_]) return absl::OkStatus();
  const json request = {{"compare", {Compare(options_.prefix, uint64_t{1} << 62)}}};
  Reply reply = Post("/v3/kv/txn", request.dump(), true, &for_answer_);
  if (!reply.status.ok()) return std::move(reply.status);
  if (True(Parse(reply.body), "succeeded")) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.endpoints[endpoint_],
                     ": a comparison that must fail succeeded; it understands requests otherwise than etcd 3.4 does"));
  }
  compares_[endpoint_] = true;
  return absl::OkStatus();
}

CasResult EtcdDirectory::Cas(absl::string_view name, uint64_t expected, absl::string_view value) {
  if (absl::Status status = CheckRecord(name, value.size()); !status.ok()) {
    return {.outcome = CasOutcome::kNotDone, .why = std::move(status)};
  }
  if (!lost_.ok()) return {.outcome = CasOutcome::kNotDone, .why = lost_};
  const std::string key = options_.prefix + std::string(name);
  const json request = {{"compare", {Compare(key, expected)}},
                        {"success", {{{"request_put", {{"key", Base64(key)}, {"value", Base64(value)}}}}}}};
  Reasons reasons;
  for (size_t i = 0; i < options_.endpoints.size(); ++i, NextEndpoint()) {
    if (absl::Status checked = CheckThatItCompares(); !checked.ok()) {
      if (absl::IsDataLoss(checked)) return {.outcome = CasOutcome::kNotDone, .why = std::move(checked)};
      reasons.Add(checked);
      continue;
    }
    Reply reply = Post("/v3/kv/txn", request.dump(), true, &for_swap_);
    if (reply.status.ok()) {
      const json parsed = Parse(reply.body);
      if (!True(parsed, "succeeded")) return {.outcome = CasOutcome::kConflict};
      return {.outcome = CasOutcome::kDone, .revision = Number(Member(parsed, "header"), "revision")};
    }
    reasons.Add(reply.status);
    if (!reply.maybe_sent) continue;
    NextEndpoint();
    return {.outcome = CasOutcome::kUnknown, .why = reasons.All()};
  }
  return {.outcome = CasOutcome::kNotDone, .why = reasons.All()};
}

void EtcdDirectory::Listen(absl::string_view name, absl::Duration turn) {
  // From the last answer on: older revisions may be compacted.
  const json request = {
      {"create_request",
       {{"key", Base64(options_.prefix + std::string(name))}, {"start_revision", std::to_string(revision_ + 1)}}}};
  // Any message except that the watch began is a reason to read the record: a change, or the end of the watch because
  // its start was compacted or the member has no leader.
  const HttpReply reply = http_.PostAndListen(absl::StrCat(options_.endpoints[endpoint_], "/v3/watch"), request.dump(),
                                              turn, kMostBytes, [](absl::string_view line) {
                                                const json parsed = Parse(line);
                                                const json& result = Member(parsed, "result");
                                                return True(result, "created") && !True(result, "canceled") &&
                                                       Member(result, "events").is_null();
                                              });
  if (reply.sent != HttpReply::Sent::kAnswered) NextEndpoint();
}

absl::StatusOr<Entry> EtcdDirectory::Wait(absl::string_view name, uint64_t after, absl::Duration timeout) {
  const absl::Time end = SteadyNow() + timeout;
  for (bool listened = false;; listened = true) {
    const absl::Time begin = SteadyNow();
    absl::StatusOr<Entry> entry = Get(name, Freshness::kLatest);
    const absl::Duration left = end - SteadyNow();
    if (entry.ok() && entry->revision > after) return entry;
    if (entry.ok() && entry->revision < after) {
      return absl::DataLossError(absl::StrCat("etcd has revision ", entry->revision, " of ", name, " and had ", after,
                                              ": the record was removed; restore it (docs/cluster.md)"));
    }
    if (!entry.ok() && !absl::IsUnavailable(entry.status())) return entry;
    if (left <= absl::ZeroDuration()) {
      if (!entry.ok()) return entry;
      return absl::DeadlineExceededError(absl::StrCat(name, " did not change in ", absl::FormatDuration(timeout)));
    }
    if (entry.ok()) Listen(name, std::min(left, options_.watch_turn));
    if (http_.TakeInterrupt()) return absl::CancelledError("interrupted");
    // A watch that repeatedly ends at once must not cause a flood of requests.
    if (const absl::Duration took = SteadyNow() - begin; took < kBeforeNextRound && (listened || !entry.ok())) {
      absl::SleepFor(kBeforeNextRound - took);
    }
  }
}

}  // namespace farlook::cluster
