// `-db lmdb`: an LMDB file through liblmdb, in the driver's own process.
//
// As LMDB's documentation advises: one environment for the process; each thread keeps one read transaction and renews
// it for every read, or once for a whole batch. Each write is a transaction of its own, and an update of some fields
// reads and writes in one.
//
// A record is copied out before the transaction ends, as every other store hands over bytes that stay. No commit waits
// for the disk.
//
// Properties (defaults):
//     lmdb.path     directory of the file; made when it is missing (needed)
//     lmdb.map_mib  bound of the file's size (4096)
#ifndef FARLOOK_BENCH_STORES_LMDB_DB_H_
#define FARLOOK_BENCH_STORES_LMDB_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "lmdb".
void RegisterLmdbDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_LMDB_DB_H_
