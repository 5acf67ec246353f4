#include "rdma/resolver_testing.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "rdma/host/resolver.h"

namespace farlook::rdma {
namespace {

// Outlives the lookups, whose threads are not joined.
struct State {
  absl::Mutex mutex;
  std::map<std::string, std::vector<std::string>> names ABSL_GUARDED_BY(mutex);
  bool goes_on ABSL_GUARDED_BY(mutex) = true;
  int lookups ABSL_GUARDED_BY(mutex) = 0;
};

State& TheState() {
  static auto* const state = new State;
  return *state;
}

absl::StatusOr<SocketAddresses> LookUp(const std::string& host) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  ++state.lookups;
  state.mutex.Await(absl::Condition(&state.goes_on));
  SocketAddresses addresses;
  for (const std::string& numeric : state.names[host]) {
    const auto found = ResolveWithin({.scheme = Scheme::kTcp, .path = "", .host = numeric, .port = 1}, 0);
    if (!found.ok()) return found.status();
    addresses.push_back(found->front());
    addresses.back().set_port(0);
  }
  if (!addresses.empty()) return addresses;
  return absl::UnavailableError(absl::StrCat("the name ", host, " does not resolve: the test does not know it"));
}

}  // namespace

TestResolver::TestResolver() {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.names.clear();
  state.lookups = 0;
  SetLookUpForTest(LookUp);
}

TestResolver::~TestResolver() {
  SetLookUpForTest(nullptr);
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.names.clear();
  state.goes_on = true;
}

void TestResolver::Set(absl::string_view name, std::vector<std::string> hosts) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.names[std::string(name)] = std::move(hosts);
}

void TestResolver::Hang() {
  absl::MutexLock lock(&TheState().mutex);
  TheState().goes_on = false;
}

void TestResolver::GoOn() {
  absl::MutexLock lock(&TheState().mutex);
  TheState().goes_on = true;
}

int TestResolver::lookups() const {
  absl::MutexLock lock(&TheState().mutex);
  return TheState().lookups;
}

}  // namespace farlook::rdma
