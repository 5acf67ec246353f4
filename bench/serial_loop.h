// Operations one after the other, each waited for; reads by the batch where asked for.
#ifndef FARLOOK_BENCH_SERIAL_LOOP_H_
#define FARLOOK_BENCH_SERIAL_LOOP_H_

#include <cstddef>

#include "bench/db.h"
#include "bench/worker.h"

namespace farlook::bench {

// Until the worker has no more turns. With batch > 1, reads are held back until there are that many and then made as
// one ReadBatch; each is measured with the time of the whole batch, the batch also as READ-BATCH. Other operations,
// drawn meanwhile, go first. Inserts of the load are tried again as the workload's configuration says.
void RunSerially(Worker* worker, Db* db, size_t batch);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_SERIAL_LOOP_H_
