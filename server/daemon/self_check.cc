#include "server/daemon/self_check.h"

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rdma/doctor.h"
#include "rdma/finding.h"
#include "server/daemon/descriptors.h"
#include "server/daemon/open_group.h"
#include "server/session/users.h"
#include "server/session/users_file.h"

namespace farlook::server {
namespace {

using rdma::Finding;

Finding ExamineUsers(const ServerOptions& options, std::unique_ptr<Users>* users) {
  auto list = ReadUsersFile(options.users);
  if (!list.ok()) return rdma::Trouble(list.status());
  *users = std::make_unique<Users>(*list);
  return rdma::Good(absl::StrCat("--users=", options.users, " names ", (*list)->all().size(), " users"));
}

Finding ExamineGroup(const ServerOptions& options, const Users* users) {
  const absl::StatusOr<bool> has_begun = FindGroup(options, users);
  if (!has_begun.ok()) return rdma::Trouble(has_begun.status());
  if (*has_begun) return rdma::Good(absl::StrCat("there is a group --group=", options.group));
  return rdma::Advice(
      absl::StrCat("there is no group --group=", options.group,
                   " yet: this server begins it, with an empty table. If it should be there, correct it"));
}

// REQUIRES CheckOptions(options).ok().
rdma::Findings Examine(const ServerOptions& options) {
  rdma::ServerPlan plan;
  plan.addresses = options.listen;
  plan.bytes = options.memory_bytes;
  plan.counter_bytes = options.counter_memory_bytes;
  plan.huge_pages = options.huge_pages;
  plan.memory_file = options.memory_file.path;
  plan.numa_node = options.numa_node;
  plan.transport.socket_mode = options.socket_files.mode;
  const absl::StatusOr<int64_t> gid = GroupId(options.socket_files.group);
  if (gid.ok()) plan.transport.socket_gid = *gid;
  rdma::Findings findings = rdma::ExamineServer(plan);
  if (!gid.ok()) findings.push_back(rdma::Trouble(gid.status()));
  const absl::Status descriptors = CheckDescriptorLimit(options);
  findings.push_back(descriptors.ok() ? rdma::Good("there are file descriptors for --max_clients")
                                      : rdma::Trouble(descriptors));
  std::unique_ptr<Users> users;
  if (!options.users.empty()) findings.push_back(ExamineUsers(options, &users));
  // Without its users a member of a group cannot prove its identity: one finding is enough.
  if (!options.group.empty() && (options.users.empty() || users != nullptr)) {
    findings.push_back(ExamineGroup(options, users.get()));
  }
  return findings;
}

}  // namespace

bool SelfCheck(const ServerOptions& options, std::string* text) {
  const absl::Status status = CheckOptions(options);
  const rdma::Findings findings = status.ok() ? Examine(options) : rdma::Findings{rdma::Trouble(status)};
  for (const Finding& finding : findings) absl::StrAppend(text, rdma::ToLine(finding), "\n");
  return !rdma::AnyTrouble(findings);
}

}  // namespace farlook::server
