// The program micro: measurements by name, their flags, and the server that they start.
#ifndef FARLOOK_BENCH_MICRO_MEASUREMENT_H_
#define FARLOOK_BENCH_MICRO_MEASUREMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/flags/declare.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/common/figures.h"
#include "bench/micro/server_process.h"
#include "farlook/client.h"

// The flags that several measurements take, each with its own default.
ABSL_DECLARE_FLAG(std::string, server);
ABSL_DECLARE_FLAG(int64_t, memory_mib);
ABSL_DECLARE_FLAG(int, workers);
ABSL_DECLARE_FLAG(int64_t, keys);
ABSL_DECLARE_FLAG(int64_t, operations);
ABSL_DECLARE_FLAG(int64_t, seconds);

namespace farlook::bench {

struct Measurement {
  struct Flag {
    std::string name;
    std::optional<std::string> value = std::nullopt;  // its default here; without one, that of its definition
  };

  std::string name;
  std::string purpose;
  std::vector<Flag> flags;
  absl::Status (*measure)(Figures* figures);
};

// Runs the measurement that the first of `words` names, with the rest as its flags. --help instead prints what there
// is. Returns the exit code: that of TakeFigures(), or 1 with a message about wrong words.
int RunMeasurement(const std::vector<Measurement>& all, const std::vector<std::string>& words);

// Starts the kv_server of --server with this memory, --workers and `more` flags: see ServerProcess::Start().
absl::StatusOr<std::unique_ptr<ServerProcess>> StartServer(int64_t memory_mib,
                                                           const std::vector<std::string>& more = {},
                                                           const std::string& address = "");

// Connects a client, whose timeout is what a busy machine demands.
absl::StatusOr<std::unique_ptr<Client>> ConnectTo(const ServerProcess& server, ClientOptions options = {});

// The measurements, each defined in the file of its name.
Measurement Cache();
Measurement Expiring();
Measurement MakingRoom();
Measurement Scan();
Measurement Space();
Measurement Speed();
Measurement Sweep();
Measurement VerbsSpeed();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_MICRO_MEASUREMENT_H_
