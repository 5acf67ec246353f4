// `-db farlook`: a kv_server through Farlook's client.
//
// A record is one value. Reads and batches are gets; an insert is a put, an update of all fields a replace. An update
// of some fields is a get, a patch and a compare-and-set on the version, again from the get if another writer was
// faster. A read-modify-write compares-and-sets on the version that its own read returned, and so saves the get.
//
// Properties (defaults):
//     farlook.address               of the server ($FARLOOK_ADDRESS)
//     farlook.timeout_ms            of each operation (1000)
//     farlook.mirror_bytes          of the index mirror; -1: the client decides (-1)
//     farlook.lookups               reads; messages: the server looks up, as a comparison with one-sided reads;
//                                   auto: messages over tcp://, else reads (auto)
//     farlook.spin_us               a waiting thread polls this long before it sleeps (50)
//     farlook.wait                  for a server that is not there yet, or still starting: until timeout_ms expires (false)
//     farlook.server_pid            process whose CPU time is the server's (the one that listens, on this host)
#ifndef FARLOOK_BENCH_STORES_FARLOOK_DB_H_
#define FARLOOK_BENCH_STORES_FARLOOK_DB_H_

#include <sys/types.h>

#include "absl/strings/string_view.h"
#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "farlook".
void RegisterFarlookDb(DbRegistry* registry);

// The process that listens at `address`, or 0 if that cannot be known: it is on another host, or there is none. Asks
// the kernel for the owner of the Unix socket (SO_PEERCRED of a connection that sends nothing; the server just drops
// it).
pid_t FarlookServerPid(absl::string_view address);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_FARLOOK_DB_H_
