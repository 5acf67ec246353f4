// The driver of a fuzz target where libFuzzer is not linked: feeds it the empty
// input, each file named on the command line, and seeded random bytes.
//
//   <target> [-seed=N] [-runs=N] [file ...]

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMaxRandomBytes = 512;

// Feeds a copy of exactly the input's size, so that asan sees each overrun.
void RunOne(const std::vector<uint8_t>& input) {
  const std::vector<uint8_t> exact(input.begin(), input.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

void RunFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot open %s\n", path);
    std::exit(1);
  }
  std::printf("replaying %s\n", path);
  RunOne({std::istreambuf_iterator<char>(file), {}});
}

void RunRandom(uint64_t seed, uint64_t runs) {
  std::printf("replaying %" PRIu64 " random inputs, -seed=%" PRIu64 "\n", runs, seed);
  std::fflush(stdout);
  std::mt19937_64 random(seed);
  for (uint64_t run = 0; run < runs; ++run) {
    std::vector<uint8_t> input(random() % (kMaxRandomBytes + 1));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random());
    RunOne(input);
  }
}

// Reads `flag`'s number from `arg`, if `arg` is that flag.
bool ReadNumber(const char* arg, const char* flag, uint64_t* number) {
  const size_t flag_bytes = std::strlen(flag);
  if (std::strncmp(arg, flag, flag_bytes) != 0) return false;
  *number = std::strtoull(arg + flag_bytes, nullptr, 10);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seed = 1;
  uint64_t runs = 2000;
  RunOne({});
  for (int i = 1; i < argc; ++i) {
    if (ReadNumber(argv[i], "-seed=", &seed)) continue;
    if (ReadNumber(argv[i], "-runs=", &runs)) continue;
    if (argv[i][0] == '-') continue;  // another flag of libFuzzer
    RunFile(argv[i]);
  }
  RunRandom(seed, runs);
  return 0;
}
