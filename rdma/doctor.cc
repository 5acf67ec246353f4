#include "rdma/doctor.h"

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rdma/address.h"
#include "rdma/choices.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host_memory.h"
#include "rdma/memory_file.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/doctor.h"

namespace farlook::rdma {
namespace {

constexpr uint64_t k2MiB = uint64_t{2} << 20;
constexpr uint64_t k1GiB = uint64_t{1} << 30;

void Append(Findings more, Findings* findings) { std::move(more.begin(), more.end(), std::back_inserter(*findings)); }

Finding ExamineHugePages(const ServerPlan& plan) {
  const bool fixed = plan.huge_pages != HugePages::kAuto;
  const bool whole_1g = plan.bytes % k1GiB == 0;
  if (plan.huge_pages == HugePages::kNone) return Advice("--huge_pages=none: reads take up to twice as long");
  if (plan.huge_pages == HugePages::kTransparent) {
    if (TransparentAllowed()) return Good("the kernel gives transparent huge pages to shared memory");
    return Trouble("echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled allows --huge_pages=transparent");
  }
  if (plan.huge_pages != HugePages::k2MiB && whole_1g && EnoughHugePages(plan.bytes, k1GiB)) {
    return Good("enough huge pages of 1 GiB are free");
  }
  if (plan.huge_pages == HugePages::k1GiB) return Trouble(HugePageAdvice(plan.bytes, k1GiB));
  if (EnoughHugePages(plan.bytes, k2MiB)) return Good("enough huge pages of 2 MiB are free");
  const std::string advice = HugePageAdvice(plan.bytes, k2MiB);
  return fixed ? Trouble(advice) : Advice(absl::StrCat("without huge pages reads take up to twice as long: ", advice));
}

Finding ExamineMemoryFile(const ServerPlan& plan) {
  if (absl::Status status = CheckMemoryPath(plan.memory_file); !status.ok()) return Trouble(status);
  if (MemoryFile::Exists(plan.memory_file)) {
    return Good(absl::StrCat(plan.memory_file, " is there: the server continues with its table"));
  }
  const absl::Status status = CheckMemoryRoom(plan.memory_file, plan.bytes + plan.counter_bytes, plan.numa_node);
  return status.ok()
             ? Advice(absl::StrCat("there is no ", plan.memory_file, " yet: the server begins with an empty table"))
             : Trouble(status);
}

Findings ExamineMemory(const ServerPlan& plan) {
  Findings findings;
  for (const absl::Status& status :
       {CheckKernel(), CheckFileSize(plan.bytes), CheckAddressSpace(plan.bytes + plan.counter_bytes)}) {
    if (!status.ok()) findings.push_back(Trouble(status));
  }
  if (absl::Status node = CheckNumaNode(plan.numa_node); !node.ok()) findings.push_back(Trouble(node));
  if (!plan.memory_file.empty()) {
    findings.push_back(ExamineMemoryFile(plan));
    return findings;
  }
  findings.push_back(ExamineHugePages(plan));
  // Pages of the pools are not included in the available memory.
  if (findings.back().level != Finding::Level::kGood || plan.huge_pages == HugePages::kTransparent) {
    const absl::Status status = CheckAvailable(plan.bytes, plan.numa_node);
    findings.push_back(status.ok() ? Good("there is enough memory") : Trouble(status));
  }
  return findings;
}

// One of several choices suffices.
Findings ExamineListening(const std::string& address, const TransportOptions& options) {
  const absl::StatusOr<std::vector<std::string>> choices = Choices(address);
  if (!choices.ok()) return {Trouble(choices.status())};
  Findings findings;
  bool any = false;
  std::vector<std::unique_ptr<Listener>> listeners;  // all at the same time, as in a server
  for (const std::string& choice : *choices) {
    absl::StatusOr<std::unique_ptr<Listener>> listener = Listen(choice, options);
    if (listener.ok()) {
      any = true;
      findings.push_back(Good(absl::StrCat("a server can listen at ", choice)));
      listeners.push_back(*std::move(listener));
    } else {
      findings.push_back(Trouble(listener.status()));
    }
  }
  return any ? AsAdvice(std::move(findings)) : findings;
}

}  // namespace

Findings ExamineHost() { return verbs::ExamineHost(); }

Findings ExamineRoute(absl::string_view address) {
  const absl::StatusOr<std::vector<std::string>> choices = Choices(address);
  if (!choices.ok()) return {Trouble(choices.status())};
  if (IsAuto(address)) return AsAdvice(ExamineRoute((*choices)[0]));
  const absl::StatusOr<Address> parsed = ParseAddress(address);
  if (parsed->scheme == Scheme::kShm) return {};  // connecting shows whether it is here
  if (parsed->scheme == Scheme::kTcp) return {};  // the same
  return verbs::ExamineRoute(*parsed);
}

Findings ExamineServer(const ServerPlan& plan) {
  Findings findings = ExamineMemory(plan);
  bool verbs = false, perhaps = false;
  for (const std::string& address : plan.addresses) {
    const absl::StatusOr<Address> parsed = ParseAddress(address);
    verbs = verbs || (parsed.ok() && parsed->scheme == Scheme::kRdma);
    perhaps = perhaps || IsAuto(address);
  }
  if (verbs || perhaps) {
    Findings of_host = verbs::ExamineHost();
    of_host.push_back(verbs::ExamineLockedMemory(plan.bytes + plan.counter_bytes));
    Append(verbs ? std::move(of_host) : AsAdvice(std::move(of_host)), &findings);
  }
  for (const std::string& address : plan.addresses) Append(ExamineListening(address, plan.transport), &findings);
  return findings;
}

}  // namespace farlook::rdma
