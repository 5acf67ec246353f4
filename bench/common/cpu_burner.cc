// For clocks_test: a thread that uses the given number of nanoseconds of CPU time and ends; 0: it never ends. Then this
// program closes its output as a signal, and sleeps.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace {

int64_t SpentNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t ns = argc > 1 ? std::atoll(argv[1]) : 0;
  std::thread thread([ns] {
    while (ns == 0 || SpentNs() < ns) {
    }
  });
  if (ns == 0) {
    thread.detach();
  } else {
    thread.join();
  }
  close(STDOUT_FILENO);
  while (true) pause();
}
