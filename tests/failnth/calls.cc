#include "tests/failnth/calls.h"

#include <cerrno>
#include <cstring>

namespace farlook::failnth {
namespace {

struct Expectation {
  Choice choice;
  Report* report;
};

Expectation expectation;
std::atomic<bool> expecting{false};

}  // namespace

void Expect(const Choice& choice, Report* report) {
  expectation = {choice, report};
  expecting.store(true, std::memory_order_release);
}

void Forget() { expecting.store(false, std::memory_order_release); }

bool Fails(Kind kind, const char* name, const void* site, absl::Span<const int> errors, uint64_t bytes) {
  if (!expecting.load(std::memory_order_acquire) || kind != expectation.choice.kind) return false;
  const auto place = reinterpret_cast<uintptr_t>(site);
  if (expectation.choice.place != 0 && expectation.choice.place != place) return false;
  Report& report = *expectation.report;
  const uint64_t call = report.calls.fetch_add(1, std::memory_order_relaxed);
  if (call < Report::kPlaces) {
    report.places[call].store(place, std::memory_order_relaxed);
  }
  if (call + 1 != expectation.choice.nth) return false;
  strncpy(report.name, name, sizeof(report.name) - 1);
  report.error = errors[expectation.choice.error % errors.size()];
  report.errors = static_cast<uint32_t>(errors.size());
  report.site = place;
  report.bytes = bytes;
  report.failed.store(true, std::memory_order_release);
  errno = report.error;
  return true;
}

}  // namespace farlook::failnth
