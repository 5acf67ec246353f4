#include "client/cli/context/walk.h"

#include <cstdint>
#include <string>

#include "client/cli/input/interrupt.h"
#include "client/cli/terminal/progress.h"

namespace farlook::cli {
namespace {

constexpr double kWhole = 1 << 20;
constexpr uint64_t kItemsPerUpdate = 256;  // a power of two

}  // namespace

absl::Status Walk(const Context& context, const ScanOptions& options,
                  const std::function<bool(const ScannedItem&)>& take) {
  CatchInterrupts();
  Progress progress(&context.console, context.command);
  ProgressFigures figures = {.unit = "keys", .total_bytes = static_cast<uint64_t>(kWhole)};
  std::string cursor;
  absl::Status status = context.store->Scan(
      options,
      [&](const ScannedItem& item, double done) {
        if ((++figures.pairs & (kItemsPerUpdate - 1)) == 0) {
          figures.input_bytes = static_cast<uint64_t>(done * kWhole);
          progress.Update(figures);
        }
        return take(item) && !Interrupted();
      },
      &cursor);
  context.console.HideStatusLine();
  return status;
}

}  // namespace farlook::cli
