// space: measures the maximum memory that Farlook promises to need.
//
//     micro space [--keys=20000000] [--memory_mib=3072] [--fill_mib=1024] [--room_mib=32,128,1024] [--room_workers=1,8,64]
//           [--json=FILE]
//
// --keys=0, --fill_mib=0 and --room_mib= omit a part.
//
// Exit codes: 0 all limits hold, 1 it cannot be measured, 3 a limit does not hold.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "bench/common/figures.h"
#include "bench/micro/measurement.h"
#include "bench/micro/table_space.h"
#include "kv/table/room_probe.h"

ABSL_FLAG(uint32_t, fill_mib, 1024, "MiB of the region that is filled");
ABSL_FLAG(std::vector<std::string>, room_mib, (std::vector<std::string>{"32", "128", "1024"}),
          "MiB of the regions that are filled with each mix of sizes");
ABSL_FLAG(std::vector<std::string>, room_workers, (std::vector<std::string>{"1", "8", "64"}),
          "workers that these regions are cut for");

namespace farlook::bench {
namespace {

absl::Status AddIndex(int64_t keys, Figures* figures) {
  const absl::StatusOr<IndexCost> index =
      MeasureIndex(static_cast<size_t>(absl::GetFlag(FLAGS_memory_mib)) << 20, keys);
  if (!index.ok()) return index.status();
  figures->AddAtMost("index per key, average over 200 sizes", index->average_bytes_per_key, "bytes", 16, "16 bytes");
  figures->AddAtMost("index per key, worst size from 1 M keys on", index->worst_bytes_per_key, "bytes", 24, "24 bytes");
  figures->Add("index per key, worst size below", index->worst_bytes_per_key_small, "bytes");
  figures->AddAtMost("bucket READs of a hit, worst size", index->worst_bucket_reads, "", 1.07, "1.07");
  figures->Add("keys per slot there", 100 * index->worst_reads_load, "%");
  figures->Add("keys per slot, highest", 100 * index->highest_load, "%");
  return absl::OkStatus();
}

absl::Status AddFill(size_t bytes, Figures* figures) {
  const absl::StatusOr<FillCost> fill = MeasureFill(bytes);
  if (!fill.ok()) return fill.status();
  figures->AddAtLeast("keys and values of 1,000 bytes, region full", 100 * fill->fresh, "%", 85, "85 %");
  figures->AddAtLeast("the same after 100-byte values came and went", 100 * fill->reused, "%", 80, "80 %");
  return absl::OkStatus();
}

// The table of capacities, a line for each region, number of workers and mix; the worst of each column are figures.
absl::Status AddRooms(Figures* figures) {
  const std::vector<std::string> regions = absl::GetFlag(FLAGS_room_mib);
  if (regions.empty()) return absl::OkStatus();
  std::printf("%7s %7s  %-18s %9s %6s %10s %23s %7s %6s %8s %10s\n", "MiB", "workers", "values", "items", "full %",
              "overwrites", "refilled % u/log/same", "empty %", "again", "damaged", "most steps");
  double least_over = 1e9, least_overwritten = 1, least_refilled = 1e9, least_empty = 1;
  for (const std::string& region : regions) {
    for (const std::string& workers : absl::GetFlag(FLAGS_room_workers)) {
      for (int i = 0; i < kv::kMixes; ++i) {
        const kv::Mix mix = static_cast<kv::Mix>(i);
        uint64_t mib;
        int threads;
        if (!absl::SimpleAtoi(region, &mib) || !absl::SimpleAtoi(workers, &threads)) {
          return absl::InvalidArgumentError("--room_mib and --room_workers take numbers");
        }
        const absl::StatusOr<kv::RoomFigures> room = MeasureRoomOf(mib << 20, threads, mix);
        const std::string name(kv::MixName(mix));
        if (!room.ok()) {
          std::printf("%7llu %7d  %-18s %s\n", static_cast<unsigned long long>(mib), threads, name.c_str(),
                      std::string(room.status().message()).c_str());
          least_over = 0;
          continue;
        }
        const double overwritten = static_cast<double>(room->overwritten) / static_cast<double>(room->overwrites);
        std::printf("%7llu %7d  %-18s %9llu %6.1f %9.2f%% %7.0f %7.0f %7.0f %7.1f %6.1f %8llu %10llu\n",
                    static_cast<unsigned long long>(mib), threads, name.c_str(),
                    static_cast<unsigned long long>(room->items), 100 * room->full, 100 * overwritten,
                    100 * room->refilled[0], 100 * room->refilled[1], 100 * room->refilled[2], 100 * room->nearly_empty,
                    100 * room->full_again, static_cast<unsigned long long>(room->damaged),
                    static_cast<unsigned long long>(room->most_steps));
        std::fflush(stdout);
        least_over = std::min(least_over, room->full / kv::PromisedShare(mix, mib << 20));
        least_overwritten = std::min(least_overwritten, overwritten);
        least_refilled = std::min({least_refilled, room->refilled[0], room->refilled[1], room->refilled[2]});
        least_empty = std::min(least_empty, room->nearly_empty);
      }
    }
  }
  figures->AddAtLeast("full at the first refusal, of what is promised, least", 100 * least_over, "%", 100, "100 %");
  figures->AddAtLeast("overwrites when full, least", 100 * least_overwritten, "%", 100, "100 %");
  figures->AddAtLeast("refilled of what was deleted, least", 100 * least_refilled, "%", 80, "80 %");
  figures->AddAtLeast("free when nearly empty, least", 100 * least_empty, "%", 90, "90 %");
  return absl::OkStatus();
}

absl::Status Measure(Figures* figures) {
  if (const int64_t keys = absl::GetFlag(FLAGS_keys); keys > 0) {
    if (absl::Status status = AddIndex(keys, figures); !status.ok()) return status;
  }
  if (const size_t mib = absl::GetFlag(FLAGS_fill_mib); mib > 0) {
    if (absl::Status status = AddFill(mib << 20, figures); !status.ok()) return status;
  }
  return AddRooms(figures);
}

}  // namespace

Measurement Space() {
  return {"space",
          "the memory that Farlook needs for its index, and what it wastes",
          {{"keys", "20000000"}, {"memory_mib", "3072"}, {"fill_mib"}, {"room_mib"}, {"room_workers"}},
          Measure};
}

}  // namespace farlook::bench
