// Scans: one batch after the other. In a cluster a batch has the items of all groups in one part of the table.
//
// A slot that moves while a part is READ may be missed: the taker is READ before it has the slot, and the giver after.
// So a part is done when each slot was served by some group whose READs of the whole part are believed. Otherwise the
// groups are READ again, for the slots that are missing.
#include "farlook/scan.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/api/client_impl.h"
#include "client/op/forks.h"
#include "client/op/scan_operation.h"
#include "client/op/view.h"
#include "kv/layout/hash.h"
#include "kv/layout/item.h"
#include "kv/layout/segment.h"
#include "kv/read/scan.h"
#include "kv/wire/cluster_map.h"

namespace farlook {
namespace {

constexpr absl::string_view kEnd = "end";
constexpr int64_t kPauseNs = 1'000'000;  // after a step that was overtaken

// Items of a part are returned in this order: by bucket, then by the rest of the hash.
uint64_t PlaceOf(uint64_t hash) { return std::rotl(hash, 32); }
uint32_t BucketAt(uint64_t place) { return kv::BucketOf(std::rotl(place, 32)); }
uint64_t FirstPlaceOf(uint32_t bucket) {
  return ((uint64_t{bucket} << 16) + kv::kMainBuckets - 1) / kv::kMainBuckets << 48;
}

}  // namespace

class Scanner::State {
 public:
  State(Client* client, const ScanOptions& options) : impl_(ClientImpl::Of(*client)), options_(options) {
    ended_ = options_.cursor == kEnd;
    valid_ = options_.cursor.empty() || ended_ || ParseCursor(client::View(options_.cursor));
  }

  absl::StatusOr<bool> Next(ScannedItem* item) {
    if (!valid_) return absl::InvalidArgumentError("the cursor is not one that Scanner::cursor() returned");
    if (options_.batch_bytes < kMinScanBatchBytes || options_.batch_bytes > kMaxScanBatchBytes) {
      return absl::InvalidArgumentError("batch_bytes is not within 4 KiB and 64 MiB");
    }
    if (options_.limit > 0 && returned_ == options_.limit) return false;
    for (;;) {
      if (next_ < order_.size()) {
        Show(item);
        ++returned_;
        return true;
      }
      if (has_batch_) {
        has_batch_ = false;
        ended_ = last_batch_;
        part_ = rest_;
        from_ = FirstPlaceOf(part_.bucket);
      }
      if (ended_) return false;
      if (absl::Status status = ReadBatch(); !status.ok()) return status;
    }
  }

  std::string cursor() const {
    const bool is_over = has_batch_ && next_ == order_.size();
    if (ended_ || (is_over && last_batch_)) return std::string(kEnd);
    if (!seed_.has_value()) return options_.cursor;
    if (is_over) return CursorAt(rest_, FirstPlaceOf(rest_.bucket));
    return CursorAt(part_, from_);
  }

  double progress() const {
    if (ended_) return 1;
    return static_cast<double>(part_.first) / 18446744073709551616.0;
  }

 private:
  // An item of the batch.
  struct Entry {
    uint64_t place;
    uint32_t index;
  };

  std::string CursorAt(const kv::ScanPart& part, uint64_t from) const {
    return absl::StrCat(absl::Hex(*seed_), "-", absl::Hex(part.first), "-", absl::Hex(part.last), "-", absl::Hex(from));
  }

  bool ParseCursor(absl::string_view text) {
    const std::vector<absl::string_view> fields = absl::StrSplit(text, '-');
    uint64_t numbers[4];
    if (fields.size() != std::size(numbers)) return false;
    for (size_t i = 0; i < std::size(numbers); ++i) {
      if (!absl::SimpleHexAtoi(fields[i], &numbers[i])) return false;
    }
    if (numbers[1] > numbers[2]) return false;
    seed_ = numbers[0];
    from_ = numbers[3];
    part_ = {.first = numbers[1], .last = numbers[2], .bucket = BucketAt(from_)};
    return true;
  }

  // Sets `*item` to the next item of the batch.
  void Show(ScannedItem* item) {
    const Entry entry = order_[next_++];
    // A scan that continues from here repeats a key rather than that it skips another one with its hash.
    const bool is_last_of_hash = next_ == order_.size() || order_[next_].place != entry.place;
    from_ = is_last_of_hash && entry.place != ~uint64_t{0} ? entry.place + 1 : entry.place;
    const kv::ScanItem& found = items_[entry.index];
    const char* const key = bytes_.data() + found.at;
    item->key = {key, found.key_bytes};
    item->counter = found.kind == kv::ItemKind::kCounter;
    item->value = {};
    if (options_.values && !item->counter) item->value = {key + found.key_bytes, found.value_bytes};
    item->value_bytes = ValueBytesOf(found);
    item->version = found.version;
    item->left_ms = client::LeftMs(found.expiry_ms, now_us_);
    item->keep = (found.flags & kv::kKeepItem) != 0;
  }

  static uint64_t ValueBytesOf(const kv::ScanItem& item) {
    return item.kind == kv::ItemKind::kCounter ? 0 : item.value_bytes;
  }
  bool Wants(const kv::ScanItem& item) const {
    if (options_.only_expiring && item.expiry_ms == 0) return false;
    const uint64_t bytes = ValueBytesOf(item);
    return bytes >= options_.min_value_bytes && bytes <= options_.max_value_bytes;
  }
  absl::string_view KeyOf(const Entry& entry) const {
    return absl::string_view(bytes_).substr(items_[entry.index].at, items_[entry.index].key_bytes);
  }

  absl::Status ReadBatch() {
    if (impl_.in_child()) return client::OfParent();
    if (absl::Status status = Pause(); !status.ok()) return status;
    Drop();
    const int64_t deadline_ns = impl_.cores.home().DeadlineFromNow(options_.timeout_ms);
    absl::Status status = ReadPart(deadline_ns);
    if (!status.ok()) {
      Drop();
      return status;
    }
    Sort();
    has_batch_ = true;
    return absl::OkStatus();
  }

  void Drop() {
    items_.clear();
    bytes_.clear();
    order_.clear();
    next_ = 0;
  }

  // Keeps to bytes_per_s.
  absl::Status Pause() {
    if (options_.bytes_per_s == 0) return absl::OkStatus();
    const int64_t now_ns = impl_.cores.home().NowNs();
    const double cost_ns =
        static_cast<double>(std::exchange(unpaid_bytes_, 0)) * 1e9 / static_cast<double>(options_.bytes_per_s);
    due_ns_ = std::max(now_ns, due_ns_) + static_cast<int64_t>(std::min(cost_ns, 1e15));
    if (due_ns_ <= now_ns || impl_.waiter.Wait([] { return false; }, due_ns_)) return absl::OkStatus();
    return absl::DeadlineExceededError("while_waiting() ended the pause");
  }

  // Runs one step. A step that was overtaken is repeated until the deadline.
  absl::Status RunStep(client::ClientCore* core, const kv::ScanPart& part, int64_t deadline_ns) {
    for (;;) {
      kv::ScanFound memory;
      if (operation_.has_value()) std::swap(memory, operation_->found);
      operation_.emplace();
      std::swap(memory, operation_->found);
      operation_->part = part;
      operation_->filter = {options_.prefix, options_.values};
      operation_->most_bytes = options_.batch_bytes;
      absl::Status status = impl_.RunUntil(core, &*operation_, deadline_ns);
      unpaid_bytes_ += operation_->read_bytes;
      if (!absl::IsAborted(status) || core->NowNs() > deadline_ns) return status;
      if (!impl_.waiter.Wait([] { return false; }, core->NowNs() + kPauseNs)) return status;
    }
  }

  // Returns whether the operation's table hashes keys as before. If it does not, the keys before are gone, and the scan
  // begins again.
  bool SameTable() {
    const uint64_t seed = operation_->hash_seed;
    if (std::exchange(seed_, seed).value_or(seed) == seed) return true;
    part_ = {};
    from_ = 0;
    return false;
  }

  // READs the beginning of `part_`, as much as each group's first step covers.
  absl::Status ReadPart(int64_t deadline_ns) {
    kv::ScanPart covered = part_;
    kv::SlotSet done;
    for (size_t i = 0; !done.all(); ++i) {
      if (i == impl_.cores.all().size()) {
        if (absl::Status status = Follow(done, deadline_ns); !status.ok()) return status;
        i = 0;
      }
      client::ClientCore* const core = impl_.cores.all()[i];
      // A group without slots may have been stopped.
      if (!impl_.cores.one() && !core->ready() && !impl_.cores.HasSlots(i)) continue;
      if (absl::Status status = RunStep(core, covered, deadline_ns); !status.ok()) return status;
      if (SameTable()) {
        covered = operation_->covered;
        Take(&done);
      } else {
        Drop();
        done.reset();
        covered = part_;
        --i;  // the same group, from the beginning
      }
    }
    items_.erase(
        std::remove_if(items_.begin(), items_.end(), [&](const kv::ScanItem& item) { return !covered.Has(item.hash); }),
        items_.end());
    last_batch_ = !part_.After(covered, &rest_) && !part_.Following(&rest_);
    part_.last = covered.last;  // the items beyond are not in the batch
    return absl::OkStatus();
  }

  // Adds what the operation found in slots that are missing.
  void Take(kv::SlotSet* done) {
    kv::ScanFound& found = operation_->found;
    now_us_ = operation_->now_us;
    if (impl_.cores.one()) {
      std::swap(items_, found.items);
      std::swap(bytes_, found.bytes);
      done->set();
      return;
    }
    const size_t from = bytes_.size();
    bytes_ += found.bytes;
    for (kv::ScanItem item : found.items) {
      const size_t slot = kv::ClusterSlotOf(item.hash);
      if ((*done)[slot] || !kv::HasSlot(operation_->slots, slot)) continue;
      item.at += from;
      items_.push_back(item);
    }
    for (size_t slot = 0; slot < kv::kClusterSlots; ++slot) {
      if (kv::HasSlot(operation_->slots, slot)) done->set(slot);
    }
  }

  // Waits until some group serves a slot that is missing: a lookup in that slot does.
  absl::Status Follow(const kv::SlotSet& done, int64_t deadline_ns) {
    const kv::Hasher hasher(*seed_);
    for (uint64_t i = 0;; ++i) {
      const std::string key = absl::StrCat("scan ", i);
      if (done[kv::ClusterSlotOf(hasher(key))]) continue;
      const int64_t left_ms = (deadline_ns - impl_.cores.home().NowNs()) / 1'000'000;
      if (left_ms <= 0) return absl::DeadlineExceededError("slots move, and no group serves them");
      const absl::Status status =
          impl_.RunGet(client::Kind::kExists, {key.data(), key.size()}, {}, {.timeout_ms = left_ms});
      return absl::IsNotFound(status) ? absl::OkStatus() : status;
    }
  }

  // Orders the batch. Of a key that was stored again meanwhile, its last version stays.
  void Sort() {
    for (size_t i = 0; i < items_.size(); ++i) {
      const uint64_t place = PlaceOf(items_[i].hash);
      if (place >= from_ && Wants(items_[i])) order_.push_back({place, static_cast<uint32_t>(i)});
    }
    std::sort(order_.begin(), order_.end(), [this](const Entry& a, const Entry& b) {
      if (a.place != b.place) [[likely]]
        return a.place < b.place;
      const int keys = KeyOf(a).compare(KeyOf(b));
      return keys != 0 ? keys < 0 : items_[a.index].version > items_[b.index].version;
    });
    order_.erase(
        std::unique(order_.begin(), order_.end(),
                    [this](const Entry& a, const Entry& b) { return a.place == b.place && KeyOf(a) == KeyOf(b); }),
        order_.end());
  }

  ClientImpl& impl_;
  const ScanOptions options_;
  bool valid_ = false;
  bool ended_ = false;
  uint64_t returned_ = 0;
  std::optional<uint64_t> seed_;  // of the keys' hashes

  kv::ScanPart part_;        // of the batch
  uint64_t from_ = 0;        // items of the part before this place were returned
  kv::ScanPart rest_;        // the part of the next batch
  bool has_batch_ = false;   // the items are of `part_`
  bool last_batch_ = false;  // nothing follows
  std::optional<client::ScanOperation> operation_;
  std::vector<kv::ScanItem> items_;
  std::string bytes_;
  std::vector<Entry> order_;
  size_t next_ = 0;  // in `order_`
  uint64_t now_us_ = 0;

  // The rate.
  uint64_t unpaid_bytes_ = 0;
  int64_t due_ns_ = 0;
};

Scanner::Scanner(Client* client, const ScanOptions& options) : state_(std::make_unique<State>(client, options)) {}
Scanner::~Scanner() = default;
Scanner::Scanner(Scanner&&) noexcept = default;
Scanner& Scanner::operator=(Scanner&&) noexcept = default;

absl::StatusOr<bool> Scanner::Next(ScannedItem* item) { return state_->Next(item); }
std::string Scanner::cursor() const { return state_->cursor(); }
double Scanner::progress() const { return state_->progress(); }

}  // namespace farlook
