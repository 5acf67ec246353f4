#include "server/daemon/table_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/limits.h"
#include "kv/layout/region.h"
#include "kv/layout/words.h"
#include "server/base/log.h"

namespace farlook::server {
namespace {

std::string CellsOf(const std::string& path) { return absl::StrCat(path, ".counters"); }

// The status for what is in a file's place and cannot be continued, with the remedy; other errors keep their codes.
absl::Status Refusal(const absl::Status& status, absl::string_view remedy = "") {
  const std::string message = absl::StrCat("--memory_file: ", status.message());
  const bool refused = absl::IsFailedPrecondition(status) || absl::IsDataLoss(status);
  return refused ? absl::DataLossError(absl::StrCat(message, remedy)) : absl::Status(status.code(), message);
}

absl::Status RefuseFile(const absl::Status& status) {
  return Refusal(status, "; nothing was changed. (--begin_empty discards a table and begins an empty one)");
}

}  // namespace

TableMemory::TableMemory(const ServerOptions& options, const rdma::Clock* clock)
    : path_(options.memory_file.path),
      begin_empty_(options.memory_file.begin_empty),
      has_cells_(options.counter_memory_bytes != 0 && options.group.empty()),  // in a group there are none
      hash_seed_(options.hash_seed),
      clock_(clock),
      began_ns_(clock->NowNs()) {}

absl::StatusOr<std::unique_ptr<TableMemory>> TableMemory::Make(const ServerOptions& options, int numa_node,
                                                               const rdma::Clock* clock,
                                                               std::function<void(uint64_t)> on_progress) {
  rdma::SharedMemoryOptions table;
  table.bytes = (options.memory_bytes + kv::kPageBytes - 1) / kv::kPageBytes * kv::kPageBytes;
  table.huge_pages = options.huge_pages;
  table.in_core_dumps = options.dump_table;
  table.numa_node = numa_node;
  rdma::SharedMemoryOptions cells = table;
  table.on_progress = std::move(on_progress);
  cells.bytes = options.counter_memory_bytes;

  std::unique_ptr<TableMemory> memory(new TableMemory(options, clock));
  const absl::Status status = memory->lasts() ? memory->OpenFiles(table, cells) : memory->MakeAnonymous(table, cells);
  if (!status.ok()) return status;
  return memory;
}

absl::Status TableMemory::MakeAnonymous(const rdma::SharedMemoryOptions& table,
                                        const rdma::SharedMemoryOptions& cells) {
  auto made = rdma::SharedMemory::Create(table);
  if (!made.ok()) return made.status();
  table_ = &anonymous_table_.emplace(*std::move(made));
  if (!has_cells_) return absl::OkStatus();
  rdma::SharedMemoryOptions options = cells;
  options.huge_pages = rdma::HugePages::kNone;  // a client could punch holes into larger ones
  options.access = rdma::Access::kRemoteReadAtomic;
  made = rdma::SharedMemory::Create(options);
  if (!made.ok()) return made.status();
  cells_ = &anonymous_cells_.emplace(*std::move(made));
  return absl::OkStatus();
}

absl::Status TableMemory::OpenFiles(const rdma::SharedMemoryOptions& table, const rdma::SharedMemoryOptions& cells) {
  if (absl::Status status = rdma::CheckMemoryPath(path_); !status.ok()) return Refusal(status);
  auto lock = rdma::PathLock::Take(path_);
  if (!lock.ok()) return Refusal(lock.status());
  lock_ = *std::move(lock);
  if (begin_empty_) {
    if (absl::Status status = Discard(); !status.ok()) return Refusal(status);
  }
  const std::string cell_path = CellsOf(path_);
  auto opened = rdma::MemoryFile::Open(path_, table);
  if (!opened.ok()) return RefuseFile(opened.status());
  table_ = &table_file_.emplace(*std::move(opened)).memory();
  if (table_file_->is_new()) {
    if (absl::Status status = rdma::MemoryFile::Remove(cell_path); !status.ok()) return Refusal(status);
  } else if (rdma::MemoryFile::Exists(cell_path) != has_cells_) {
    return RefuseFile(absl::FailedPreconditionError(
        has_cells_ ? absl::StrCat(cell_path,
                                  " is missing, which a server with --counter_memory=0 did not make: start "
                                  "with that flag, if it is so")
                   : absl::StrCat(cell_path, " has counters, and --counter_memory is 0: give the server the same")));
  }
  if (has_cells_) {
    opened = rdma::MemoryFile::Open(cell_path, cells);
    if (!opened.ok()) return RefuseFile(opened.status());
    cells_ = &cell_file_.emplace(*std::move(opened)).memory();
  }
  // No process has the files open to write, so from here on no reader of a former server can begin anything.
  locked_ns_ = clock_->NowNs();
  return absl::OkStatus();
}

// The table's file first: counters without a table are known to be of none.
absl::Status TableMemory::Discard() {
  for (const std::string& path : {path_, CellsOf(path_)}) {
    if (!rdma::MemoryFile::Exists(path)) continue;
    if (absl::Status status = rdma::MemoryFile::Remove(path); !status.ok()) return status;
    Log(LogLevel::kWarning, "discarded, as --begin_empty asks", {{"file", path}});
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<kv::Table>> TableMemory::Begin(kv::TableOptions table) {
  if (lasts() && !table_file_->is_new()) {
    auto continued = Continue(table);
    if (!continued.ok()) return RefuseFile(continued.status());
    return continued;
  }
  incarnation_ = table.incarnation;
  auto made = kv::Table::Create(absl::MakeSpan(table_->data(), table_->bytes()), table);
  if (made.ok() && cells_ != nullptr) kv::FormatCellRegion(CellSpan(), incarnation_);
  return made;
}

absl::StatusOr<std::unique_ptr<kv::Table>> TableMemory::Continue(const kv::TableOptions& options) {
  const auto region = absl::MakeSpan(table_->data(), table_->bytes());
  const auto header = kv::DecodeRegionHeader({region.data(), kv::kRegionHeaderBytes}, region.size());
  // If there is no valid header, recovery names the reason.
  if (header.ok()) {
    if (absl::Status status = CheckFiles(*header); !status.ok()) return status;
  }
  WaitForReaders();
  std::vector<bool> is_used(cells_ == nullptr ? 0 : cells_->bytes() / kv::kCellStrideBytes);
  kv::RecoveryOptions recovery;
  recovery.is_live = [&](uint64_t cell) {
    if (cells_ == nullptr || !kv::ValidCell(cell, cells_->bytes())) return false;
    const uint64_t place = cell / kv::kCellStrideBytes;
    const auto value = static_cast<int64_t>(kv::LoadWord(cells_->data() + cell));
    if (is_used[place] || kv::StateOf(value) == kv::CellState::kDead) return false;
    is_used[place] = true;
    return true;
  };
  kv::RecoveryReport report;
  auto table = kv::Recovery::Run(region, options, recovery, clock_->NowNs(), &report);
  if (!table.ok()) return absl::Status(table.status().code(), absl::StrCat(path_, ": ", table.status().message()));
  FreeOtherCells(is_used);
  incarnation_ = header->incarnation;
  restart_ = {"warm", (clock_->NowNs() - began_ns_) / 1'000'000, report.keys};
  Log(report.dropped == 0 ? LogLevel::kInfo : LogLevel::kWarning, "the table continues",
      {{"file", path_},
       {"ms", restart_.ms},
       {"keys", report.keys},
       {"counters", used_cells_.size()},
       {"revived", report.revived},
       {"redone", report.redone},
       {"dropped", report.dropped},
       {"copies", report.copies},
       {"ended_counters", report.ended_counters},
       {"ended_moves", report.ended_moves},
       {"mended_entries", report.mended_entries},
       {"retired_segments", report.retired_segments}});
  return table;
}

// Compares what recovery does not know.
absl::Status TableMemory::CheckFiles(const kv::RegionHeader& header) const {
  if (hash_seed_ != 0 && header.hash_seed != hash_seed_) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " has keys that were hashed with another --hash_seed: omit the flag"));
  }
  if (cells_ == nullptr) return absl::OkStatus();
  const auto word = [&](uint64_t offset) { return kv::LoadWord(cells_->data() + offset); };
  if (word(0) == kv::kCellRegionMagic && word(8) == header.incarnation) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(CellsOf(path_), " has not the counters of the table in ", path_));
}

void TableMemory::WaitForReaders() const {
  while (true) {
    const int64_t left_ns = locked_ns_ + kv::kIndexTrustNs + 1 - clock_->NowNs();
    if (left_ns <= 0) return;
    absl::SleepFor(absl::Nanoseconds(left_ns));
  }
}

// A counter that was being created, or deleted, left its cell without a name.
void TableMemory::FreeOtherCells(const std::vector<bool>& is_used) {
  for (uint64_t place = 1; place < is_used.size(); ++place) {
    const uint64_t cell = place * kv::kCellStrideBytes;
    if (is_used[place]) {
      used_cells_.push_back(cell);
    } else if (kv::LoadWord(cells_->data() + cell) != kv::kPoison) {
      kv::StoreWord(cells_->data() + cell, kv::kPoison);
    }
  }
}

absl::Span<char> TableMemory::CellSpan() const { return absl::MakeSpan(cells_->data(), cells_->bytes()); }

absl::Status TableMemory::Keep() {
  for (std::optional<rdma::MemoryFile>* file : {&cell_file_, &table_file_}) {
    if (!file->has_value()) continue;
    if (absl::Status status = (*file)->Publish(); !status.ok()) return Refusal(status);
  }
  return absl::OkStatus();
}

}  // namespace farlook::server
