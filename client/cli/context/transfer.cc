#include "client/cli/context/transfer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/input/interrupt.h"
#include "client/cli/terminal/explain.h"

namespace farlook::cli {
namespace {

// Keys and values in flight, or finished and waiting for their turn.
constexpr size_t kMaxHeldBytes = 64 << 20;
constexpr uint64_t kMostReported = 20;

std::string AtLine(uint64_t line) { return line == 0 ? "" : absl::StrCat("line ", line, ": "); }

}  // namespace

Transfer::Transfer(const Context& context, Use use)
    : context_(context),
      use_(std::move(use)),
      incarnation_(context.store->incarnation()),
      window_(context.store, static_cast<size_t>(context.options.transfer.in_flight), kMaxHeldBytes),
      progress_(&context.console, context.command) {
  CatchInterrupts();
}

void Transfer::SetInput(uint64_t input_bytes, uint64_t total_bytes) {
  figures_.input_bytes = input_bytes;
  figures_.total_bytes = total_bytes;
}

// Waits until `can()` returns true: there is room. Returns false if no further line is to be started.
template <typename Can>
bool Transfer::MakeRoom(Can can, uint64_t line) {
  while (!stopped_ && !can()) {
    window_.Wait();
    TakeDone();
  }
  if (!stopped_ && Interrupted()) Stop(ExitCode::kInterrupted, "interrupted", line);
  return !stopped_;
}

void Transfer::Read(const std::string& key, uint64_t line) {
  if (MakeRoom([&] { return window_.CanRead(key); }, line)) window_.Read(key, context_.options.timeout_ms, line);
}

void Transfer::Write(Pair pair, uint64_t line) {
  if (!MakeRoom([&] { return window_.CanWrite(pair); }, line)) return;
  window_.Write(std::move(pair), context_.options.transfer.insert_only, context_.options.timeout_ms, line);
}

void Transfer::Take(const Pair& pair) {
  if (!MakeRoom([] { return true; }, /*line=*/0)) return;
  ++figures_.pairs;
  figures_.pair_bytes += pair.key.size() + pair.value.size();
  if (use_) use_(pair);
  progress_.Update(figures_);
}

void Transfer::Reject(absl::string_view why, uint64_t line) {
  if (MakeRoom([&] { return window_.CanReject(); }, line)) window_.Reject(absl::InvalidArgumentError(why), line);
  TakeDone();
}

void Transfer::TakeDone() {
  while (const OrderedWindow::Entry* entry = window_.DoneFront()) {
    if (!stopped_) Take(*entry);
    window_.PopFront();
  }
  progress_.Update(figures_);
}

void Transfer::Take(const OrderedWindow::Entry& entry) {
  switch (entry.status().code()) {
    case absl::StatusCode::kOk:
      ++figures_.pairs;
      figures_.pair_bytes += entry.pair_bytes;
      if (entry.read != nullptr && use_) use_(entry.read->TakePair());
      return;
    case absl::StatusCode::kAlreadyExists:
      ReportFirst(entry, ++existing_);
      break;
    case absl::StatusCode::kNotFound:
      if (leaves_out_absent_) return;
      ReportFirst(entry, ++missing_);
      break;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
      Report(entry);
      if (++errors_ >= static_cast<uint64_t>(context_.options.transfer.max_errors)) {
        StopAt(ExitCode::kError, absl::StrCat("stopped after ", errors_, " errors (--max_errors)"), entry.line + 1);
      }
      break;
    default:
      // A failure of the server will affect the next line too.
      context_.NoteStatus(entry.status());
      StopAt(ExitCodeOf(entry.status()), Why(entry), entry.line);
      return;
  }
  ++figures_.failures;
  code_ = Worst(code_, ExitCodeOf(entry.status()));
}

std::string Transfer::Why(const OrderedWindow::Entry& entry) const {
  if (entry.read != nullptr) return entry.read->Explanation(context_.options);
  if (entry.write != nullptr) return entry.write->Explanation(context_.options);
  return std::string(entry.why_rejected.message());
}

void Transfer::Report(const OrderedWindow::Entry& entry) {
  context_.Fail(ExitCodeOf(entry.status()), absl::StrCat(AtLine(entry.line), Why(entry)));
}

void Transfer::ReportFirst(const OrderedWindow::Entry& entry, uint64_t count) {
  if (count <= kMostReported) Report(entry);
  if (count == kMostReported) context_.Fail(ExitCodeOf(entry.status()), "... more of these are only counted");
}

void Transfer::Settle() {
  while (!window_.empty()) {
    window_.Wait();
    TakeDone();
  }
}

void Transfer::Stop(ExitCode code, absl::string_view why, uint64_t line) {
  Settle();
  // Unless there was an error before that line.
  if (!stopped_) StopAt(code, why, line);
}

void Transfer::StopAt(ExitCode code, absl::string_view why, uint64_t line) {
  stopped_ = true;
  resume_line_ = line;
  code_ = Worst(code_, context_.Fail(code, absl::StrCat(AtLine(line), why)));
}

void Transfer::Finish() {
  Settle();
  if (context_.store->incarnation() != incarnation_) {
    code_ = Worst(code_, context_.Fail(ExitCode::kError,
                                       "the server was restarted meanwhile, with an empty table: do "
                                       "all of this again"));
    resume_line_ = 0;
  }
  if (resume_line_ == 0) return;
  context_.console.Note(absl::StrCat(context_.command, ": all lines before ", resume_line_,
                                     " are done, or reported above; go on with --start_line=", resume_line_,
                                     " (from the beginning, if the server was restarted)"));
}

uint64_t TransferLines(const Context& context, const Input& input, size_t max_line_bytes, Transfer* transfer,
                       const std::function<void(absl::string_view text, uint64_t line)>& start) {
  LineReader reader(&input, max_line_bytes);
  const uint64_t total_bytes = input.file_bytes();
  const auto start_line = static_cast<uint64_t>(context.options.transfer.start_line);
  std::string text;
  while (transfer->going_on() && context.console.out().status().ok()) {
    if (!reader.ready()) {
      transfer->Settle();
      context.console.out().Flush();  // for a caller that waits for the result before it writes the next line
    }
    const LineReader::Result result = reader.Next(&text);
    if (result == LineReader::Result::kEnd) break;
    if (result == LineReader::Result::kError) {
      transfer->Stop(ExitCodeOf(reader.status()), reader.status().message(), reader.line_number() + 1);
      break;
    }
    transfer->SetInput(reader.consumed_bytes(), total_bytes);
    if (reader.line_number() < start_line) continue;
    if (result == LineReader::Result::kTooLong) {
      transfer->Reject(absl::StrCat("the line is longer than ", max_line_bytes, " bytes"), reader.line_number());
    } else if (!text.empty()) {
      start(text, reader.line_number());
    }
  }
  transfer->Finish();
  return reader.line_number();
}

}  // namespace farlook::cli
