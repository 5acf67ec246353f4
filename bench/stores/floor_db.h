// `-db floor`: what the machine itself takes for a read and a write of this size: no store can take less.
//
// A read is two dependent loads from memory and a copy: a line of an index, found by the key's hash, names the record's
// place; the record is copied out. Nothing is compared but 31 bits of the hash, nothing checked, locked, versioned or
// freed. A batch begins the loads of all its reads before it copies the first. A write is a copy into the record's
// place; one that is longer than the record before gets another place.
//
// It is right for one thread, and for many that read or insert. A read beside a write of the same record may see half
// of each.
//
// Properties (defaults):
//     floor.keys  most records (2 x recordcount; it sizes the index)
#ifndef FARLOOK_BENCH_STORES_FLOOR_DB_H_
#define FARLOOK_BENCH_STORES_FLOOR_DB_H_

#include "bench/stores/db_registry.h"

namespace farlook::bench {

// Adds it as "floor".
void RegisterFloorDb(DbRegistry* registry);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_FLOOR_DB_H_
