// `-db driver`: no store at all, so what is left is what the driver itself takes: keys, choices, histograms.
//
// Every read finds the record that was inserted first, by reference; every write is done at once, and forgotten. A
// figure of this line, taken from a store's, leaves that store's own share.
#ifndef FARLOOK_BENCH_STORES_DRIVER_DB_H_
#define FARLOOK_BENCH_STORES_DRIVER_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "driver".
void RegisterDriverDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_DRIVER_DB_H_
