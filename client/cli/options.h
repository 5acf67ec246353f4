// The flags of kv_cli: what they are called, what they mean and where they may stand.
//
// Not absl::flags: that has one set of flags for a process, here each command has its own, and a session parses many
// command lines.
#ifndef FARLOOK_CLIENT_CLI_OPTIONS_H_
#define FARLOOK_CLIENT_CLI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/encoding.h"
#include "client/cli/pair_format.h"

namespace farlook::cli {

struct Options {
  // Given once, when kv_cli starts.
  std::string address;      // empty: FARLOOK_ADDRESS
  std::string user;         // empty: FARLOOK_USER
  std::string secret_file;  // empty: FARLOOK_SECRET_FILE, or FARLOOK_SECRET
  bool read_only = false;
  bool wait = false;
  bool history = true;
  bool as_operator = false;  // not a flag: the command is for operators
  bool version = false;

  // Of every command.
  int64_t timeout_ms = 1000;
  bool json = false;
  KeyEncoding key_encoding = KeyEncoding::kRaw;
  bool help = false;

  // Of some commands.
  std::optional<std::string> file;
  bool print_version = false;
  int64_t ttl_ms = 0;  // 0: never expires
  bool keep_ttl = false;
  bool keep = false;
  bool client = false;
  int64_t count = 0;  // 0: the command's default
  int64_t interval_ms = 1000;
  std::string group;  // of a cluster; empty: all
  bool yes = false;
  bool dry_run = false;
  int64_t min_insync = 0;  // 0: as before
  PairFormat format = PairFormat::kJson;
  std::optional<std::string> keys;
  bool insert_only = false;
  int64_t start_line = 1;
  int64_t max_errors = 100;
  int64_t in_flight = 256;
};

struct Flag {
  enum class Scope {
    kStart,       // only when kv_cli starts, not in the lines of a session
    kEverywhere,  // with every command, and when a session starts
    kCommand,     // with the commands that list it
  };

  absl::string_view name;
  absl::string_view metavar;  // what stands for the value in help; empty: a boolean
  Scope scope;
  absl::string_view help;  // one line, or several
  // INVALID_ARGUMENT says what would be right. A boolean gets "true" or "false".
  absl::Status (*set)(absl::string_view value, Options* options);

  bool is_boolean() const { return metavar.empty(); }
};

// A length of time, as 500ms, 30s, 5m, 2h or 7d, in milliseconds. INVALID_ARGUMENT unless an item can live so long.
absl::StatusOr<int64_t> ParseTtl(absl::string_view text);

absl::Span<const Flag> AllFlags();
// Null if there is none. '-' in a name is as good as '_'.
const Flag* FindFlag(absl::string_view name);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_OPTIONS_H_
