#include "tests/linearizable/orders.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/linearizable/board.h"

namespace farlook {
namespace {

// Writes in one step: a reader that sees the file sees all of it.
void WriteWhole(const std::string& path, const std::string& text) {
  std::ofstream(path + ".partial") << text;
  std::rename((path + ".partial").c_str(), path.c_str());
}

std::optional<std::string> AwaitFile(const std::string& path, int64_t seconds) {
  for (const int64_t end_ns = HostNowNs() + seconds * 1'000'000'000; access(path.c_str(), F_OK) != 0;) {
    if (HostNowNs() > end_ns) return std::nullopt;
    usleep(50'000);
  }
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

std::string Orders::Path(char host) const {
  const auto found = numbers_.find(host);
  return absl::StrCat(folder_, "/order-", std::string(1, host), "-", found == numbers_.end() ? 0 : found->second);
}

std::optional<std::string> Orders::Do(char host, const std::string& order) {
  ++numbers_[host];
  WriteWhole(Path(host), order);
  return AwaitFile(Path(host) + ".done", 180);
}

std::optional<std::string> Orders::Next(char host) {
  ++numbers_[host];
  return AwaitFile(Path(host), 600);
}

void Orders::Done(char host, const std::string& answer) { WriteWhole(Path(host) + ".done", answer); }

}  // namespace farlook
