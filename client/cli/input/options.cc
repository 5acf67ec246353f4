#include "client/cli/input/options.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "farlook/options.h"

namespace farlook::cli {
namespace {

constexpr int64_t kMaxMs = 24 * 60 * 60 * 1000;
constexpr int64_t kMaxNumber = int64_t{1} << 53;
constexpr int64_t kMostMibPerSecond = int64_t{1} << 20;
constexpr int64_t kMostReplicas = 16;  // a server's own limit may be lower

absl::Status SetBool(absl::string_view value, bool* to) {
  if (absl::SimpleAtob(value, to)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Quoted(value), " is neither true nor false"));
}

absl::Status SetNumber(absl::string_view value, int64_t least, int64_t most, int64_t* to) {
  int64_t number;
  if (!absl::SimpleAtoi(value, &number) || number < least || number > most) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(value), " is not a whole number from ", least, " to ", most));
  }
  *to = number;
  return absl::OkStatus();
}

template <typename T>
absl::Status SetParsed(absl::StatusOr<T> parsed, T* to) {
  if (parsed.ok()) *to = *parsed;
  return parsed.status();
}

using Scope = Flag::Scope;
using Text = absl::string_view;

constexpr Flag kFlags[] = {
    {"address", "ADDRESS", Scope::kStart,
     "of the server, as shm:///run/farlook, rdma://host:port,\n"
     "tcp://host:port, auto://host:port (rdma, else tcp); or\n"
     "of a cluster, farlook://host:port,host:port/NAME;\n"
     "default: $FARLOOK_ADDRESS",
     [](Text value, Options* o) {
       o->address = std::string(value);
       return absl::OkStatus();
     }},
    {"user", "NAME", Scope::kStart,
     "user to authenticate as (rdma://, tcp://);\n"
     "default: the environment variable FARLOOK_USER",
     [](Text value, Options* o) {
       o->user = std::string(value);
       return absl::OkStatus();
     }},
    {"secret_file", "FILE", Scope::kStart,
     "the user's secret, which only you may read; default:\n"
     "FARLOOK_SECRET_FILE, or the secret in FARLOOK_SECRET",
     [](Text value, Options* o) {
       o->secret_file = std::string(value);
       return absl::OkStatus();
     }},
    {"timeout_ms", "N", Scope::kEverywhere, "milliseconds that an operation may take; default 1000",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxMs, &o->timeout_ms); }},
    {"read_only", "", Scope::kStart, "connect without the right to write",
     [](Text value, Options* o) { return SetBool(value, &o->read_only); }},
    {"wait", "", Scope::kStart,
     "while no server answers, or it is full or shutting\n"
     "down, retry until --timeout_ms has passed",
     [](Text value, Options* o) { return SetBool(value, &o->wait); }},
    {"key_encoding", "ENCODING", Scope::kEverywhere,
     "how keys are written in operands and lists: raw\n"
     "(default), hex, or escaped (\\\\ \\n \\r \\t \\0 \\xHH)",
     [](Text value, Options* o) { return SetParsed(ParseKeyEncoding(value), &o->key_encoding); }},
    {"json", "", Scope::kEverywhere, "print JSON, one object a line; not UTF-8: as *_base64",
     [](Text value, Options* o) { return SetBool(value, &o->json); }},
    {"history", "", Scope::kStart, "keep the history of a session on a terminal (default;\n--nohistory does not)",
     [](Text value, Options* o) { return SetBool(value, &o->history); }},
    {"version", "", Scope::kStart, "print the version of kv_cli",
     [](Text value, Options* o) { return SetBool(value, &o->version); }},
    {"help", "", Scope::kEverywhere, "explain kv_cli, or the command",
     [](Text value, Options* o) { return SetBool(value, &o->help); }},

    {"file", "FILE", Scope::kCommand, "read the value from FILE; - is standard input",
     [](Text value, Options* o) {
       o->file = std::string(value);
       return absl::OkStatus();
     }},
    {"print_version", "", Scope::kCommand, "print the key's version, as cas wants it; no value",
     [](Text value, Options* o) { return SetBool(value, &o->print_version); }},
    {"raw", "", Scope::kCommand, "print the value's exact bytes on a terminal too",
     [](Text value, Options* o) { return SetBool(value, &o->raw); }},
    {"values", "", Scope::kCommand, "print the values too",
     [](Text value, Options* o) { return SetBool(value, &o->scan.values); }},
    {"versions", "", Scope::kCommand, "print the keys' versions, as cas wants them",
     [](Text value, Options* o) { return SetBool(value, &o->scan.versions); }},
    {"ttls", "", Scope::kCommand, "print after how many ms each key expires, or never",
     [](Text value, Options* o) { return SetBool(value, &o->scan.ttls); }},
    {"prefix", "PREFIX", Scope::kCommand, "all keys that begin with PREFIX; if empty, all keys",
     [](Text value, Options* o) {
       o->scan.prefix = std::string(value);
       return absl::OkStatus();
     }},
    {"limit", "N", Scope::kCommand, "print at most N keys (scan: and the cursor that continues)",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxNumber, &o->scan.limit); }},
    {"cursor", "CURSOR", Scope::kCommand, "continue where an earlier scan ended",
     [](Text value, Options* o) {
       o->scan.cursor = std::string(value);
       return absl::OkStatus();
     }},
    {"mib_per_s", "N", Scope::kCommand, "read at most N MiB of the table a second",
     [](Text value, Options* o) { return SetNumber(value, 1, kMostMibPerSecond, &o->scan.mib_per_s); }},
    {"ttl", "TIME", Scope::kCommand, "how long the item lives, as 500ms, 30s, 5m, 2h, 7d; else\nfor ever",
     [](Text value, Options* o) { return SetParsed(ParseTtl(value), &o->ttl_ms); }},
    {"keep_ttl", "", Scope::kCommand, "the item expires when the one there would have",
     [](Text value, Options* o) { return SetBool(value, &o->keep_ttl); }},
    {"keep", "", Scope::kCommand, "the item is never evicted (kv_server --evict)",
     [](Text value, Options* o) { return SetBool(value, &o->keep); }},
    {"create", "", Scope::kCommand, "create the counter if it does not exist",
     [](Text value, Options* o) { return SetBool(value, &o->create); }},
    {"initial", "N", Scope::kCommand, "what --create creates it with; default 0",
     [](Text value, Options* o) {
       return absl::SimpleAtoi(value, &o->initial)
                  ? absl::OkStatus()
                  : absl::InvalidArgumentError(absl::StrCat(Quoted(value), " is no number"));
     }},
    {"client", "", Scope::kCommand, "the figures of this connection, not those of the server",
     [](Text value, Options* o) { return SetBool(value, &o->client); }},
    {"group", "NAME", Scope::kCommand, "only this group of a cluster",
     [](Text value, Options* o) {
       o->group = std::string(value);
       return absl::OkStatus();
     }},
    {"yes", "", Scope::kCommand, "carry the plan out without asking",
     [](Text value, Options* o) { return SetBool(value, &o->yes); }},
    {"dry_run", "", Scope::kCommand, "print the plan, and do nothing",
     [](Text value, Options* o) { return SetBool(value, &o->dry_run); }},
    {"min_insync", "N", Scope::kCommand, "with fewer members no write is acknowledged; default:\nas before",
     [](Text value, Options* o) { return SetNumber(value, 1, kMostReplicas, &o->min_insync); }},
    {"count", "N", Scope::kCommand, "how often",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxNumber, &o->count); }},
    {"interval_ms", "N", Scope::kCommand, "milliseconds from one to the next; default 1000",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxMs, &o->interval_ms); }},
    {"format", "FORMAT", Scope::kCommand,
     "json (default): {\"key\":...,\"value\":...} a line;\n"
     "tsv: key, tab, value, with \\\\ \\t \\n \\r \\xHH; then, with\n"
     "a tab before each, ttl_ms=N, keep, counter=N",
     [](Text value, Options* o) { return SetParsed(ParsePairFormat(value), &o->transfer.format); }},
    {"keys", "FILE", Scope::kCommand, "read keys from FILE, one a line; - is standard input",
     [](Text value, Options* o) {
       o->transfer.keys = std::string(value);
       return absl::OkStatus();
     }},
    {"insert_only", "", Scope::kCommand, "leave keys that exist as they are, and count them",
     [](Text value, Options* o) { return SetBool(value, &o->transfer.insert_only); }},
    {"start_line", "N", Scope::kCommand, "skip the lines before line N: goes on where one stopped",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxNumber, &o->transfer.start_line); }},
    {"max_errors", "N", Scope::kCommand, "stop once N lines failed; default 100",
     [](Text value, Options* o) { return SetNumber(value, 1, kMaxNumber, &o->transfer.max_errors); }},
    {"in_flight", "N", Scope::kCommand, "operations under way at once; default 256",
     [](Text value, Options* o) { return SetNumber(value, 1, 65536, &o->transfer.in_flight); }},
};

}  // namespace

absl::StatusOr<int64_t> ParseTtl(absl::string_view text) {
  struct Unit {
    absl::string_view name;
    int64_t ms;
  };
  // "ms" first: it ends like seconds.
  static constexpr Unit kUnits[] = {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
  for (const Unit& unit : kUnits) {
    absl::string_view number = text;
    if (!absl::ConsumeSuffix(&number, unit.name)) continue;
    int64_t count;
    if (!absl::SimpleAtoi(number, &count) || count < 1 || count > kMaxTtlMs / unit.ms) break;
    return count * unit.ms;
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is no time that an item can live: 1ms to 3660d, as 500ms, 30s, 5m, 2h, 7d"));
}

absl::Span<const Flag> AllFlags() { return kFlags; }

const Flag* FindFlag(absl::string_view name) {
  const std::string wanted = absl::StrReplaceAll(name, {{"-", "_"}});
  const auto* flag =
      std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& f) { return f.name == wanted; });
  return flag == std::end(kFlags) ? nullptr : flag;
}

}  // namespace farlook::cli
