// `-db driver`: no store at all. Its figures are what the driver itself takes: keys, choices, histograms.
//
// Every read finds the record that was inserted first, by reference. Every write is done at once, and forgotten. A
// store's figure less this one is the store's own share.
#include <memory>
#include <mutex>
#include <string>

#include "bench/stores/db_registry.h"

namespace farlook::bench {
namespace {

// The one record; a thread that saw it set may read it.
class OneRecord {
 public:
  void Set(absl::string_view record) {
    std::call_once(set_, [&] { record_ = std::string(record); });
  }
  absl::string_view record() const { return record_; }

 private:
  std::once_flag set_;
  std::string record_;
};

class DriverDb : public Db {
 public:
  explicit DriverDb(OneRecord* one) : one_(one) {}

  DbStatus Read(absl::string_view, ReadResult* result) override {
    result->record = one_->record();
    return result->status = DbStatus::kOk;
  }
  DbStatus Insert(absl::string_view, absl::string_view record) override {
    one_->Set(record);
    return DbStatus::kOk;
  }
  DbStatus Replace(absl::string_view, absl::string_view) override { return DbStatus::kOk; }
  DbStatus Patch(absl::string_view, absl::Span<const FieldWrite>, const ReadResult*) override { return DbStatus::kOk; }

 private:
  OneRecord* const one_;
};

class DriverBackend : public DbBackend {
 public:
  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions&) override {
    return std::make_unique<DriverDb>(&one_);
  }

 private:
  OneRecord one_;
};

}  // namespace

void RegisterDriverDb(DbRegistry* registry) {
  registry->Add("driver", DbEntry{.help = "no store: what the driver itself takes (give -load and -t together)",
                                  .in_process = true,
                                  .open = [](PropertyReader*) -> absl::StatusOr<std::unique_ptr<DbBackend>> {
                                    return std::make_unique<DriverBackend>();
                                  }});
}

}  // namespace farlook::bench
