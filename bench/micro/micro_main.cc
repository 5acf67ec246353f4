// micro: Farlook's own figures, each beside the machine's floor or its limit. `micro --help` lists the measurements.
#include "bench/micro/measurement.h"

int main(int argc, char** argv) {
  using namespace farlook::bench;
  return RunMeasurement({Speed(), VerbsSpeed(), Space(), MakingRoom(), Cache(), Expiring(), Scan(), Sweep()},
                        {argv + 1, argv + argc});
}
