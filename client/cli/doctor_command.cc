#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/json_line.h"
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

// RDMA, or another way where there is none.
bool IsAuto(const Options& options) { return absl::StartsWith(options.address, "auto:"); }

// Of a server that let this client in: one that asks lets nobody in without a secret, and a client with one lets no
// server be that does not ask.
Finding Authentication(const Options& options) {
  if (absl::StartsWith(options.address, "shm:")) {
    return rdma::Good("the kernel tells the server who comes: its socket file's mode, and --users, say who may");
  }
  if (!options.user.empty() || std::getenv("FARLOOK_USER") != nullptr) {
    return rdma::Good("the server and this user have proved to each other that they know the user's secret");
  }
  return rdma::Advice(
      "the server asks nobody who it is: whoever reaches its port may read and write all; kv_server --users=FILE names "
      "who may (docs/security.md)");
}

// Connects, which shows whether a Farlook server of this version is there, and asks its CPU for an answer.
Findings ExamineServerAt(const Options& options, Context& context) {
  const absl::StatusOr<Store*> store = context.connect(options);
  if (!store.ok()) return {rdma::Trouble(store.status())};
  Findings findings = {rdma::Good(absl::StrCat("a Farlook server serves reads at ", options.address))};
  if (IsAuto(options)) findings.push_back(rdma::Good(absl::StrCat("of that address it took ", (*store)->address())));
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = (*store)->Ping({.timeout_ms = options.timeout_ms});
  if (!status.ok()) {
    findings.push_back(rdma::Trouble(absl::StrCat("its CPU does not answer, so writes wait (", status.message(),
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
      return context.Fail(ExitCode::kUsage, "an address is for the start of kv_cli, not for its session");
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
    // With trouble on the way the same would be said again, less clearly.
    if (!trouble) tell(ExamineServerAt(options, context));
  }
  return trouble ? ExitCode::kError : ExitCode::kOk;
}

}  // namespace farlook::cli
