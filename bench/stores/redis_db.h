// `-db redis`: a redis-server through hiredis.
//
// A record is one string value. A read is GET, a batch is one MGET, operations in flight are commands written before
// the replies of earlier ones are read (pipelining). An insert is SET, an update of all fields SET with XX. An update
// of some fields is a script that patches the value in the server, atomically, in one round trip: a read, and a
// compare-and-set would be two.
//
// Properties (defaults):
//     redis.address     unix:///path or tcp://host:port (tcp://127.0.0.1:6379)
//     redis.timeout_ms  of each operation (10000)
#ifndef FARLOOK_BENCH_STORES_REDIS_DB_H_
#define FARLOOK_BENCH_STORES_REDIS_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "redis".
void RegisterRedisDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_REDIS_DB_H_
