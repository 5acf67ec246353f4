// Serves a server's statistics to Prometheus. See "Metrics" in docs/operations.md. docs/design-notes.md explains why
// this is a separate process.

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/command_line.h"
#include "client/exporter/http_server.h"
#include "client/exporter/scraper.h"
#include "farlook/version.h"

ABSL_FLAG(std::string, address, "", "of the server; default: the environment variable FARLOOK_ADDRESS");
ABSL_FLAG(std::string, listen, "127.0.0.1:9560", "HOST:PORT for Prometheus, HOST as a numeric address; port 0: any");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(1), "how long the server may take to answer");

namespace farlook::exporter {
namespace {

constexpr char kUsage[] = R"(farlook_exporter serves the figures of a kv_server to Prometheus.

  farlook_exporter --address=shm:///run/farlook/kv --listen=127.0.0.1:9560

  /metrics  the figures; farlook_up is 0 if the server does not answer
  /healthz  ready (status 200); starting, draining or down, and why (status 503)
)";

HttpPage PageAt(absl::string_view path, Scraper& scraper) {
  HttpPage page;
  if (path == "/metrics") {
    page.text = scraper.Metrics();
    page.type = "text/plain; version=0.0.4; charset=utf-8";
  } else if (path == "/healthz") {
    State state;
    page.text = scraper.Health(&state);
    page.status = state == State::kReady ? 200 : 503;
  } else {
    page.text = "use /metrics or /healthz\n";
    page.status = 404;
  }
  return page;
}

// Returns true for --help and --version, which are flags of Abseil.
bool AsksForHelp(const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [](absl::string_view word) {
    return absl::ConsumePrefix(&word, "-") && (absl::ConsumePrefix(&word, "-"), word == "help" || word == "version");
  });
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  absl::FlagsUsageConfig usage;
  usage.version_string = [] { return std::string("farlook_exporter " FARLOOK_VERSION "\n"); };
  absl::SetFlagsUsageConfig(usage);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (AsksForHelp(words)) absl::ParseCommandLine(argc, argv);  // does not return
  if (absl::Status status = ParseCommandLine("farlook_exporter", words, {"address", "listen", "timeout"});
      !status.ok()) {
    std::fprintf(stderr, "farlook_exporter: %s\n", std::string(status.message()).c_str());
    return 1;
  }
  std::string address = absl::GetFlag(FLAGS_address);
  if (const char* from_environment = getenv("FARLOOK_ADDRESS"); address.empty() && from_environment != nullptr) {
    address = from_environment;
  }
  if (address.empty()) {
    std::fprintf(stderr, "farlook_exporter: no server: set --address=shm:///run/farlook/kv, or set FARLOOK_ADDRESS\n");
    return 1;
  }
  const absl::Duration timeout = absl::GetFlag(FLAGS_timeout);
  if (timeout < absl::Milliseconds(1) || timeout > absl::Hours(1)) {
    std::fprintf(stderr, "farlook_exporter: --timeout must be from 1ms to 1h\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before there are threads, which inherit it

  Scraper scraper(address, absl::ToInt64Milliseconds(timeout));
  auto server =
      HttpServer::Start(absl::GetFlag(FLAGS_listen), [&](absl::string_view path) { return PageAt(path, scraper); });
  if (!server.ok()) {
    std::fprintf(stderr, "farlook_exporter: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  std::fprintf(stderr, "farlook_exporter: serves %s at port %d\n", address.c_str(), (*server)->port());
  int received = 0;
  sigwait(&signals, &received);
  return 0;
}

}  // namespace
}  // namespace farlook::exporter

int main(int argc, char** argv) { return farlook::exporter::Main(argc, argv); }
