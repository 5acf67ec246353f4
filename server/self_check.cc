#include "server/self_check.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/doctor.h"
#include "rdma/finding.h"
#include "server/descriptors.h"

namespace farlook::server {

bool SelfCheck(const ServerOptions& options, std::string* text) {
  rdma::ServerPlan plan;
  plan.addresses = options.listen;
  plan.bytes = options.memory_bytes;
  plan.huge_pages = options.huge_pages;
  plan.numa_node = options.numa_node;
  rdma::Findings findings;
  if (absl::Status status = CheckOptions(options); !status.ok()) {
    findings.push_back(rdma::Trouble(status));
  } else {
    findings = rdma::ExamineServer(plan);
    status = CheckDescriptorLimit(options);
    findings.push_back(status.ok() ? rdma::Good("there are file descriptors for --max_clients")
                                   : rdma::Trouble(status));
  }
  for (const rdma::Finding& finding : findings) {
    absl::StrAppend(text, rdma::ToLine(finding), "\n");
  }
  return !rdma::AnyTrouble(findings);
}

}  // namespace farlook::server
