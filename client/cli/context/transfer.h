// The common part of import and export: many operations in flight. Their results are taken in order, counted, reported
// with their line, and shown on a progress bar.
#ifndef FARLOOK_CLIENT_CLI_CONTEXT_TRANSFER_H_
#define FARLOOK_CLIENT_CLI_CONTEXT_TRANSFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/context/command.h"
#include "client/cli/context/ordered_window.h"
#include "client/cli/input/input.h"
#include "client/cli/terminal/progress.h"

namespace farlook::cli {

class Transfer {
 public:
  // Called with each pair that was read, in the order of lines.
  using Use = std::function<void(const Pair&)>;

  // `context` outlives it.
  explicit Transfer(const Context& context, Use use = nullptr);

  // Returns whether more lines may be added: no fatal error, no Ctrl-C, and not too many errors.
  bool going_on() const { return !stopped_; }
  // Keys that do not exist are left out, and not reported.
  void LeaveOutAbsent() { leaves_out_absent_ = true; }
  // Sets how much of the input was read; `total_bytes` is 0 if unknown.
  void SetInput(uint64_t input_bytes, uint64_t total_bytes);
  // Each starts the operation of one line as soon as there is room. Lines count from 1; 0: there are no lines.
  void Read(const std::string& key, uint64_t line);
  void Write(Pair pair, uint64_t line);
  // Takes a pair that a scan has READ.
  void Take(const Pair& pair);
  // Reports, in its turn, a line without an operation.
  void Reject(absl::string_view why, uint64_t line);
  // Waits for operations in flight and takes their results. Call it before waiting for input: operations make no
  // progress unless the store is polled.
  void Settle();
  // Settle(), then prints why no further line is read. `line` is the next one.
  void Stop(ExitCode code, absl::string_view why, uint64_t line);
  // Waits for the rest; prints what is left to do. Call it once, at the end.
  void Finish();

  const ProgressFigures& figures() const { return figures_; }  // of settled lines
  uint64_t existing() const { return existing_; }              // ALREADY_EXISTS
  double ElapsedSeconds() const { return progress_.ElapsedSeconds(); }
  ExitCode code() const { return code_; }
  // All lines before this one are finished or were reported; 0: all lines are.
  uint64_t resume_line() const { return resume_line_; }

 private:
  template <typename Can>
  bool MakeRoom(Can can, uint64_t line);
  void TakeDone();
  void Take(const OrderedWindow::Entry& entry);
  void StopAt(ExitCode code, absl::string_view why, uint64_t line);
  std::string Why(const OrderedWindow::Entry& entry) const;
  void Report(const OrderedWindow::Entry& entry);
  // The same, but not for thousands of lines of a kind that is no error.
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
  bool leaves_out_absent_ = false;
  bool stopped_ = false;
  ExitCode code_ = ExitCode::kOk;
};

// Calls `start` with each line of `input` from --start_line on, except empty ones, until the input or the transfer
// ends. Then finishes the transfer. Returns the number of lines that were read.
uint64_t TransferLines(const Context& context, const Input& input, size_t max_line_bytes, Transfer* transfer,
                       const std::function<void(absl::string_view text, uint64_t line)>& start);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_CONTEXT_TRANSFER_H_
