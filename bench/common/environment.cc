#include "bench/common/environment.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/base/config.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace farlook::bench {
namespace {

std::string ReadAll(const std::filesystem::path& path) {
  std::ifstream file(path);
  return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

std::string Stripped(absl::string_view text) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(text);
  return std::string(stripped.data(), stripped.size());
}

// The commit that the reference `name` of a git directory points to; empty if unknown.
std::string ResolveReference(const std::filesystem::path& git, const std::string& name) {
  std::string commit = Stripped(ReadAll(git / name));
  if (!commit.empty()) return commit;
  for (absl::string_view line : absl::StrSplit(ReadAll(git / "packed-refs"), '\n')) {
    if (absl::ConsumeSuffix(&line, absl::StrCat(" ", name))) return Stripped(line);
  }
  return "";
}

std::string Compiler() {
#if defined(__clang__)
  std::string compiler = "clang " __clang_version__;
#else
  std::string compiler = "gcc " __VERSION__;
#endif
#if defined(__OPTIMIZE__)
  absl::StrAppend(&compiler, ", optimized");
#else
  absl::StrAppend(&compiler, ", NOT optimized (build with --config=opt to measure)");
#endif
#if defined(ABSL_HAVE_ADDRESS_SANITIZER) || defined(ABSL_HAVE_THREAD_SANITIZER) || \
    ABSL_HAVE_FEATURE(undefined_behavior_sanitizer)
  absl::StrAppend(&compiler, ", sanitizer");
#endif
#if !defined(NDEBUG)
  absl::StrAppend(&compiler, ", assertions");
#endif
  return compiler;
}

}  // namespace

std::string CpuModel(absl::string_view cpuinfo) {
  for (absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon != absl::string_view::npos) return Stripped(line.substr(colon + 1));
  }
  return "unknown";
}

std::string FindCommit(const std::string& directory) {
  const char* given = std::getenv("FARLOOK_COMMIT");
  if (given != nullptr && *given != '\0') return given;
  std::error_code error;
  std::filesystem::path at = std::filesystem::absolute(directory, error);
  while (!at.empty()) {
    const std::filesystem::path git = at / ".git";
    const std::string head = Stripped(ReadAll(git / "HEAD"));
    if (!head.empty()) {
      absl::string_view reference = head;
      const std::string commit = absl::ConsumePrefix(&reference, "ref: ")
                                     ? ResolveReference(git, std::string(reference.data(), reference.size()))
                                     : head;
      return commit.empty() ? "unknown" : absl::StrCat(commit, " (checked out)");
    }
    if (at == at.parent_path()) break;
    at = at.parent_path();
  }
  return "unknown";
}

Environment DescribeEnvironment() {
  Environment environment;
  environment.cpu = CpuModel(ReadAll("/proc/cpuinfo"));
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) environment.cpus = CPU_COUNT(&cpus);
  environment.memory_gib =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 30);
  utsname name;
  if (uname(&name) == 0) environment.kernel = absl::StrCat(name.sysname, " ", name.release);
  environment.compiler = Compiler();
  const char* workspace = std::getenv("BUILD_WORKING_DIRECTORY");  // set by `bazel run`
  environment.commit = FindCommit(workspace == nullptr ? "." : workspace);
  return environment;
}

}  // namespace farlook::bench
