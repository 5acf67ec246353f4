// Memory of this process.
#ifndef FARLOOK_BENCH_RESIDENT_H_
#define FARLOOK_BENCH_RESIDENT_H_

#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace farlook::bench {

// Bytes that are in memory now, shared ones included; 0 where that is unknown.
inline int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all_pages = 0, resident_pages = 0;
  if (!(file >> all_pages >> resident_pages)) return 0;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_RESIDENT_H_
