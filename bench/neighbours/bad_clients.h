// Clients that disturb others, one kind each. //bench/neighbours runs each in a separate process beside an honest
// client.
#ifndef FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_
#define FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::bench {

struct BadClient {
  absl::string_view name;  // as a flag names it
  absl::string_view does;  // for the report
  // Runs for ever. Calls `ready` once it disturbs; returns early only if it cannot, with the reason.
  std::string (*run)(const std::string& address, void (*ready)());
  bool stopped = false;  // the caller must stop it (SIGSTOP) and continue it, repeatedly
};

// Includes "busy", which only uses processor time: the cost of the others beyond that is caused by the server.
const std::vector<BadClient>& BadClients();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_
