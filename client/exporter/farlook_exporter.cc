// Serves a server's figures to Prometheus. See "Metrics" in docs/operations.md, and in docs/design-notes.md why this is
// a process of its own.

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/commandlineflag.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/reflection.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "base/nearest.h"
#include "client/exporter/http_server.h"
#include "client/exporter/scraper.h"
#include "farlook/version.h"

ABSL_FLAG(std::string, address, "", "of the server; default: the environment variable FARLOOK_ADDRESS");
ABSL_FLAG(std::string, listen, "127.0.0.1:9560", "HOST:PORT where Prometheus comes, HOST in numbers; port 0: any");
ABSL_FLAG(absl::Duration, timeout, absl::Seconds(1), "how long the server may take to answer");

namespace farlook::exporter {
namespace {

constexpr char kUsage[] = R"(farlook_exporter serves the figures of a kv_server to Prometheus.

  farlook_exporter --address=shm:///run/farlook/kv --listen=127.0.0.1:9560

  /metrics  the figures; farlook_up 0 where the server does not answer
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
    page.text = "/metrics and /healthz are here\n";
    page.status = 404;
  }
  return page;
}

// What is wrong with the command line, before absl looks at the values; empty if nothing.
std::string WrongFlag(int argc, char** argv) {
  static constexpr absl::string_view kNames[] = {"address", "listen", "timeout", "help", "version", "flagfile"};
  for (int i = 1; i < argc; ++i) {
    absl::string_view name = argv[i];
    if (!absl::ConsumePrefix(&name, "-")) continue;
    absl::ConsumePrefix(&name, "-");
    const bool has_value = name.find('=') != absl::string_view::npos;
    name = name.substr(0, name.find('='));
    if (name == "help" || name == "version") continue;  // absl's own, which it finds only while it parses
    const absl::CommandLineFlag* const flag = absl::FindCommandLineFlag(name);
    if (flag == nullptr) {
      const absl::string_view nearest = Nearest(name, kNames);
      return absl::StrCat("unknown flag --", name, nearest.empty() ? "" : ": did you mean --", nearest,
                          nearest.empty() ? "" : "?", "; see farlook_exporter --help");
    }
    if (!has_value && !flag->IsOfType<bool>()) ++i;  // the next word is its value
  }
  return "";
}

int Main(int argc, char** argv) {
  absl::SetProgramUsageMessage(kUsage);
  absl::FlagsUsageConfig usage;
  usage.version_string = [] { return std::string("farlook_exporter " FARLOOK_VERSION "\n"); };
  absl::SetFlagsUsageConfig(usage);
  if (const std::string wrong = WrongFlag(argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "farlook_exporter: %s\n", wrong.c_str());
    return 1;
  }
  if (const std::vector<char*> words = absl::ParseCommandLine(argc, argv); words.size() > 1) {
    std::fprintf(stderr, "farlook_exporter: takes flags only, which begin with --, not %s\n", words[1]);
    return 1;
  }
  std::string address = absl::GetFlag(FLAGS_address);
  if (const char* from_environment = getenv("FARLOOK_ADDRESS"); address.empty() && from_environment != nullptr) {
    address = from_environment;
  }
  if (address.empty()) {
    std::fprintf(stderr, "farlook_exporter: no server: say --address=shm:///run/farlook/kv, or set FARLOOK_ADDRESS\n");
    return 1;
  }
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, nullptr);  // before there are threads, which inherit it

  Scraper scraper(address, absl::ToInt64Milliseconds(absl::GetFlag(FLAGS_timeout)));
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
