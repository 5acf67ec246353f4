// `-db map`: a hash map behind one lock, in the driver's own process.
//
// What a naive author would write, without any transport: the bound that a figure of Farlook is held against, and a
// store that the driver's own tests run on.
#ifndef FARLOOK_BENCH_STORES_MAP_DB_H_
#define FARLOOK_BENCH_STORES_MAP_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "map".
void RegisterMapDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_MAP_DB_H_
