// What import and export have in common: many operations in flight whose ends are taken in order, counted, reported
// with their line, and shown on a progress bar.
#ifndef FARLOOK_CLIENT_CLI_TRANSFER_H_
#define FARLOOK_CLIENT_CLI_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/command.h"
#include "client/cli/input.h"
#include "client/cli/ordered_window.h"
#include "client/cli/progress.h"

namespace farlook::cli {

class Transfer {
 public:
  // What to do with a get that succeeded. Called in the order of lines.
  using Use = std::function<void(const GetOperation&)>;

  // `context` outlives it.
  explicit Transfer(const Context& context, Use use = nullptr);

  // Whether more lines may be given: nothing fatal happened, nor Ctrl-C, nor too many errors.
  bool going_on() const { return !stopped_; }
  // How much of the input was read; `total_bytes` is 0 where that is not known.
  void SetInput(uint64_t input_bytes, uint64_t total_bytes);
  // Each starts the operation of one line as soon as there is room for it. Lines count from 1; 0: there are no lines.
  void Get(const std::string& key, uint64_t line);
  void Put(const std::string& key, std::string value, const Condition& condition, uint64_t line);
  // Reports, in its turn, that a line makes no operation.
  void Reject(absl::string_view why, uint64_t line);
  // Waits for what is in flight and uses it. To be called before waiting for input: while nobody polls the store, its
  // operations make no progress.
  void Settle();
  // Settle(), then says why no further line is read. `line` is the next one.
  void Stop(ExitCode code, absl::string_view why, uint64_t line);
  // Waits for the rest; says what is left to do. Once, at the end.
  void Finish();

  const ProgressFigures& figures() const { return figures_; }  // of settled lines
  uint64_t existing() const { return existing_; }              // ALREADY_EXISTS
  double ElapsedSeconds() const { return progress_.ElapsedSeconds(); }
  ExitCode code() const { return code_; }
  // All lines before this one are done or were reported; 0 if all lines are.
  uint64_t resume_line() const { return resume_line_; }

 private:
  template <typename Can>
  bool MakeRoom(Can can, uint64_t line);
  void TakeDone();
  void Take(const OrderedWindow::Entry& entry);
  void StopAt(ExitCode code, absl::string_view why, uint64_t line);
  std::string Why(const OrderedWindow::Entry& entry) const;
  void Report(const OrderedWindow::Entry& entry);
  // The same, but not thousands of a kind that is no error.
  void ReportFirst(const OrderedWindow::Entry& entry, uint64_t count);

  const Context& context_;
  const Use use_;
  const uint64_t incarnation_;
  OrderedWindow window_;
  Progress progress_;
  ProgressFigures figures_;
  uint64_t existing_ = 0;
  uint64_t missing_ = 0;
  uint64_t errors_ = 0;
  uint64_t resume_line_ = 0;
  bool stopped_ = false;
  ExitCode code_ = ExitCode::kOk;
};

// Calls `start` with each line of `input` from --start_line on, but for empty ones, until the input or the transfer
// ends; then finishes the transfer. Returns how many lines there were, or were read.
uint64_t TransferLines(const Context& context, const Input& input, size_t max_line_bytes, Transfer* transfer,
                       const std::function<void(absl::string_view text, uint64_t line)>& start);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_TRANSFER_H_
