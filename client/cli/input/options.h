// The flags of kv_cli: their names, their meanings and where they are allowed.
//
// Not absl::flags, which has one set of flags per process: here each command has its own, and a session parses many
// command lines.
#ifndef FARLOOK_CLIENT_CLI_INPUT_OPTIONS_H_
#define FARLOOK_CLIENT_CLI_INPUT_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/pair_format.h"

namespace farlook::cli {

// Flags of import and export.
struct TransferFlags {
  PairFormat format = PairFormat::kJson;
  std::optional<std::string> keys;
  bool insert_only = false;
  int64_t start_line = 1;
  int64_t max_errors = 100;
  int64_t in_flight = 256;
};

// Flags of commands that walk through the whole table.
struct ScanFlags {
  std::optional<std::string> prefix;  // as it was written
  bool values = false;
  bool versions = false;
  bool ttls = false;
  std::string cursor;
  int64_t limit = 0;      // 0: none
  int64_t mib_per_s = 0;  // 0: no limit
};

struct Options {
  // Given once, when kv_cli starts.
  std::string address;      // empty: FARLOOK_ADDRESS
  std::string user;         // empty: FARLOOK_USER
  std::string secret_file;  // empty: FARLOOK_SECRET_FILE, or FARLOOK_SECRET
  bool read_only = false;
  bool wait = false;
  bool history = true;
  bool as_operator = false;  // not a flag: Access::kOperate
  bool version = false;

  // For every command.
  int64_t timeout_ms = 1000;
  bool json = false;
  KeyEncoding key_encoding = KeyEncoding::kRaw;
  bool help = false;

  // For some commands.
  std::optional<std::string> file;
  bool print_version = false;
  bool raw = false;
  int64_t ttl_ms = 0;  // 0: never expires
  bool keep_ttl = false;
  bool keep = false;
  bool create = false;
  int64_t initial = 0;
  bool client = false;
  int64_t count = 0;  // 0: the command's default
  int64_t interval_ms = 1000;
  std::string group;  // of a cluster; empty: all
  bool yes = false;
  bool dry_run = false;
  int64_t min_insync = 0;  // 0: unchanged
  TransferFlags transfer;
  ScanFlags scan;
};

struct Flag {
  enum class Scope {
    kStart,       // only when kv_cli starts, not in the lines of a session
    kEverywhere,  // with every command, and when a session starts
    kCommand,     // with the commands that list it
  };

  absl::string_view name;
  absl::string_view metavar;  // placeholder of the value in help; empty: a boolean
  Scope scope;
  absl::string_view help;  // one line, or several
  // INVALID_ARGUMENT says what would be right. A boolean gets "true" or "false".
  absl::Status (*set)(absl::string_view value, Options* options);

  bool is_boolean() const { return metavar.empty(); }
};

// Parses a duration such as 500ms, 30s, 5m, 2h or 7d into milliseconds. INVALID_ARGUMENT unless it is valid for an
// item.
absl::StatusOr<int64_t> ParseTtl(absl::string_view text);

absl::Span<const Flag> AllFlags();
// Returns null if there is none. '-' in a name is equivalent to '_'.
const Flag* FindFlag(absl::string_view name);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_OPTIONS_H_
