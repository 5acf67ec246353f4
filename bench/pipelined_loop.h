// Many operations under way at once on one thread.
#ifndef FARLOOK_BENCH_PIPELINED_LOOP_H_
#define FARLOOK_BENCH_PIPELINED_LOOP_H_

#include <cstddef>

#include "bench/db.h"
#include "bench/worker.h"

namespace farlook::bench {

// Until the worker has no more turns and all it began has ended. An operation is timed from its Submit to the return of
// the Poll that brought it back. A read-modify-write submits its write when its read has ended.
void RunPipelined(Worker* worker, Db* db, size_t inflight);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_PIPELINED_LOOP_H_
