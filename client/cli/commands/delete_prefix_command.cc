// `kv_cli delete --prefix`: a scan finds the keys, and each is deleted unless it was written since.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/context/consent.h"
#include "client/cli/context/walk.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/input/json_line.h"
#include "farlook/async.h"
#include "farlook/scan.h"

namespace farlook::cli {
namespace {

std::string CountKeys(uint64_t count) { return absl::StrCat(count, count == 1 ? " key" : " keys"); }

// Deletes, many at a time.
class Deletes {
 public:
  explicit Deletes(const Context& context)
      : context_(context), room_(static_cast<size_t>(context.options.transfer.in_flight)) {}

  // Returns false if no further key is to be deleted.
  bool Delete(const ScannedItem& item) {
    while (!failed() && started_.size() == room_) TakeOne();
    if (failed() || Interrupted()) return false;
    auto remove = std::make_unique<Removal>();
    remove->key = std::string(item.key);
    // A counter has no version: what was added to it meanwhile is deleted with it.
    if (item.counter) {
      remove->counter.emplace(remove->key, CounterOptions{.timeout_ms = context_.options.timeout_ms});
    } else {
      remove->item.emplace(remove->key, DeleteOptions{.condition = Condition::IfVersion(item.version),
                                                      .timeout_ms = context_.options.timeout_ms});
    }
    started_.push_back(std::move(remove));
    context_.store->Start(started_.back()->operation());
    return true;
  }

  // Waits for the rest.
  void Finish() {
    while (!started_.empty()) TakeOne();
  }

  bool failed() const { return code_ != ExitCode::kOk; }
  ExitCode code() const { return code_; }
  uint64_t deleted() const { return deleted_; }
  uint64_t changed() const { return changed_; }

 private:
  struct Removal {
    AsyncOperation* operation() {
      return item.has_value() ? static_cast<AsyncOperation*>(&*item) : static_cast<AsyncOperation*>(&*counter);
    }

    std::string key;
    std::optional<DeleteOperation> item;
    std::optional<DeleteCounterOperation> counter;
  };

  void TakeOne() {
    AsyncOperation* const ended = context_.store->Poll();
    if (ended == nullptr) return context_.store->Wait();
    const auto found =
        std::find_if(started_.begin(), started_.end(), [ended](const auto& one) { return one->operation() == ended; });
    if (ended->status().ok()) {
      ++deleted_;
    } else if (absl::IsAborted(ended->status())) {
      ++changed_;
    } else if (!absl::IsNotFound(ended->status()) && !failed()) {
      code_ = context_.Fail(*ended, Action::kWrite);
    }
    started_.erase(found);
  }

  const Context& context_;
  const size_t room_;
  std::vector<std::unique_ptr<Removal>> started_;
  uint64_t deleted_ = 0;
  uint64_t changed_ = 0;  // stored again since the scan saw them
  ExitCode code_ = ExitCode::kOk;
};

// Sets `*count` to the number of keys; returns OK or the code after an error was printed.
ExitCode Count(const Context& context, const ScanOptions& scan, uint64_t* count) {
  const absl::Status status = Walk(context, scan, [count](const ScannedItem&) {
    ++*count;
    return true;
  });
  if (!status.ok()) return context.Fail(status);
  return Interrupted() ? context.Fail(ExitCode::kInterrupted, "interrupted: nothing was done") : ExitCode::kOk;
}

void PrintCount(const Context& context, uint64_t count) {
  Output& out = context.console.out();
  out.WriteLine(context.options.json
                    ? JsonLine().Number("would_delete", count).ToString()
                    : absl::StrCat(CountKeys(count), context.options.scan.prefix->empty() ? " in all" : "",
                                   context.options.scan.prefix->empty()
                                       ? ""
                                       : absl::StrCat(" with the prefix ", Quoted(*context.options.scan.prefix))));
  out.Flush();
}

}  // namespace

ExitCode RunDeletePrefix(Context& context) {
  if (!context.operands.empty()) return context.Fail(ExitCode::kUsage, "give keys or --prefix, not both");
  ScanOptions scan;
  if (!TakeScanOptions(context, *context.options.scan.prefix, &scan)) return ExitCode::kUsage;
  CatchInterrupts();
  if (context.options.dry_run || (!context.options.yes && CanAsk(context))) {
    uint64_t count = 0;
    if (const ExitCode code = Count(context, scan, &count); code != ExitCode::kOk) return code;
    PrintCount(context, count);
    if (context.options.dry_run || count == 0) return ExitCode::kOk;
  }
  if (const ExitCode code = Agree(context, "it"); code != ExitCode::kOk) return code;

  Deletes deletes(context);
  const absl::Status status = Walk(context, scan, [&deletes](const ScannedItem& item) { return deletes.Delete(item); });
  deletes.Finish();
  if (context.options.json) {
    context.console.out().WriteLine(
        JsonLine().Number("deleted", deletes.deleted()).Number("changed", deletes.changed()).ToString());
  } else {
    context.console.out().WriteLine(absl::StrCat(
        "deleted ", CountKeys(deletes.deleted()),
        deletes.changed() == 0 ? "" : absl::StrCat("; ", deletes.changed(), " were stored again meanwhile, and stay")));
  }
  if (!status.ok()) return context.Fail(status);
  if (deletes.failed()) return deletes.code();
  return Interrupted() ? context.Fail(ExitCode::kInterrupted, "interrupted: the others stay") : ExitCode::kOk;
}

}  // namespace farlook::cli
