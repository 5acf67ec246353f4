#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/commands.h"
#include "client/cli/input/json_line.h"
#include "rdma/doctor.h"
#include "rdma/finding.h"

namespace farlook::cli {
namespace {

using rdma::Finding;
using rdma::Findings;

void Print(const Findings& findings, Context& context) {
  Output& out = context.console.out();
  for (const Finding& finding : findings) {
    if (context.options.json) {
      out.WriteLine(JsonLine().Bytes("level", LevelName(finding.level)).Bytes("text", finding.text).ToString());
    } else {
      out.WriteLine(ToLine(finding));
    }
  }
  out.Flush();
}

// RDMA, or another transport if there is none.
bool IsAuto(const Options& options) { return absl::StartsWith(options.address, "auto:"); }

// About a server that admitted this client. A server that asks admits no client without a secret, and a client with a
// secret refuses a server that does not ask.
Finding Authentication(const Options& options) {
  if (absl::StartsWith(options.address, "shm:")) {
    return rdma::Good("the kernel identifies clients: the socket file's mode and kv_server --users control access");
  }
  if (!options.user.empty() || std::getenv("FARLOOK_USER") != nullptr) {
    return rdma::Good("the server and this client authenticated each other with the user's secret");
  }
  return rdma::Advice(
      "no authentication: every host that reaches the server's port may read and write all keys; restrict access with "
      "kv_server --users=FILE (docs/security.md)");
}

// Connects, which shows whether a Farlook server of this version is there, and asks its CPU for a reply.
Findings ExamineServerAt(const Options& options, Context& context) {
  Options as_probe = options;
  as_probe.read_only = as_probe.as_operator = context.mode == Mode::kOneShot;
  const absl::StatusOr<Store*> store = context.connect(as_probe);
  if (!store.ok()) return {rdma::Trouble(store.status())};
  Findings findings = {rdma::Good(absl::StrCat("a Farlook server serves reads at ", options.address))};
  if (IsAuto(options)) findings.push_back(rdma::Good(absl::StrCat("of that address it took ", (*store)->address())));
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = (*store)->Ping({.timeout_ms = options.timeout_ms});
  if (!status.ok()) {
    findings.push_back(rdma::Trouble(absl::StrCat("its process does not answer, so writes wait (", status.message(),
                                                  "): is kv_server stopped (kill -CONT), or its host overloaded?")));
    return findings;
  }
  const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - start;
  findings.push_back(rdma::Good(absl::StrFormat("its CPU answers in %.1f us", took.count())));
  findings.push_back(Authentication(options));
  return findings;
}

}  // namespace

ExitCode RunDoctor(Context& context) {
  Options options = context.options;
  if (!context.operands.empty()) {
    if (context.mode != Mode::kOneShot) {
      return context.Fail(ExitCode::kUsage, "an address can only be given when kv_cli starts");
    }
    options.address = context.operands[0].text;
  }
  bool trouble = false;
  const auto tell = [&](const Findings& findings) {
    Print(findings, context);
    trouble = trouble || rdma::AnyTrouble(findings);
  };
  const bool without_adapter = absl::StartsWith(options.address, "shm:") || absl::StartsWith(options.address, "tcp:");
  if (!without_adapter) tell(IsAuto(options) ? rdma::AsAdvice(rdma::ExamineHost()) : rdma::ExamineHost());
  if (!options.address.empty()) {
    const Findings route = trouble ? Findings() : rdma::ExamineRoute(options.address);
    tell(route);
    // After a problem on the way the same would be reported again, less clearly.
    if (!trouble) tell(ExamineServerAt(options, context));
  }
  return trouble ? ExitCode::kError : ExitCode::kOk;
}

}  // namespace farlook::cli
