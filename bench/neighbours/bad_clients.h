// Clients that are no good neighbours, one kind each: what //bench/neighbours runs beside an honest one, each in a
// process of its own.
#ifndef FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_
#define FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farlook::bench {

struct BadClient {
  absl::string_view name;  // as a flag names it
  absl::string_view does;  // for the report
  // Goes on for ever. Calls `ready` once it is at it; returns early only when it cannot be, and why.
  std::string (*run)(const std::string& address, void (*ready)());
  bool stopped = false;  // whoever runs it stops and continues it (SIGSTOP) over and over
};

// "busy" among them, which only takes processor time: what the others cost beyond that is the server's doing.
const std::vector<BadClient>& BadClients();

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_NEIGHBOURS_BAD_CLIENTS_H_
