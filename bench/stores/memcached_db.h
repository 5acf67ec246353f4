// `-db memcached`: a memcached through libmemcached.
//
// Reads and batches are one multi-get with the versions ("gets"); an insert is a set, an update of all fields a
// replace. An update of some fields reads, patches and compares-and-sets, from the read again when another writer was
// faster.
//
// libmemcached has no asynchronous calls: what is in flight goes through memcached_pipeline.h, over a connection of its
// own.
//
// Properties (defaults):
//     memcached.address         unix:///path or tcp://host:port (tcp://127.0.0.1:11211)
//     memcached.timeout_ms      of each operation (10000)
#ifndef FARLOOK_BENCH_STORES_MEMCACHED_DB_H_
#define FARLOOK_BENCH_STORES_MEMCACHED_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "memcached".
void RegisterMemcachedDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_MEMCACHED_DB_H_
