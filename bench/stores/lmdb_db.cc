// `-db lmdb`: an LMDB file through liblmdb, in the driver's own process.
//
// The process has one environment, and each thread one read transaction, as LMDB's documentation advises. A thread
// renews it for every read, or once for a whole batch. Each write is a transaction of its own, and an update of some
// fields reads and writes in one.
//
// A record is copied out before the transaction ends, as every other store hands over bytes that stay. No commit waits
// for the disk.
//
// Properties (defaults):
//     lmdb.path     directory of the file; made when it is missing (needed)
//     lmdb.map_mib  bound of the file's size (4096)
#include <lmdb.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/record.h"

#ifdef ABSL_HAVE_THREAD_SANITIZER
// LMDB separates its readers and its writer with a table of readers and by copying pages. The library is not
// instrumented, so thread sanitizer sees the accesses through memcpy and memcmp, but not their synchronization.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:^mdb_\n"; }
#endif

namespace farlook::bench {
namespace {

constexpr unsigned kMaxReaders = 4096;  // threads; as many as the driver starts

MDB_val ToVal(absl::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }

absl::string_view ToView(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

struct CloseEnv {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
using Env = std::unique_ptr<MDB_env, CloseEnv>;

struct AbortTxn {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using Txn = std::unique_ptr<MDB_txn, AbortTxn>;

class LmdbDb : public Db {
 public:
  // `reader` has been reset.
  LmdbDb(MDB_env* env, MDB_dbi dbi, Txn reader) : env_(env), dbi_(dbi), reader_(std::move(reader)) {}

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    if (const int error = mdb_txn_renew(reader_.get())) return result->status = Note(error);
    result->status = Get(key, result);
    mdb_txn_reset(reader_.get());
    return result->status;
  }

  void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) override {
    const int error = mdb_txn_renew(reader_.get());
    for (size_t i = 0; i < keys.size(); ++i) {
      results[i].status = error == 0 ? Get(keys[i], &results[i]) : Note(error);
    }
    if (error == 0) mdb_txn_reset(reader_.get());
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override {
    return Write([&](MDB_txn* txn) { return Put(txn, key, record); });
  }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    return Write([&](MDB_txn* txn) {
      MDB_val name = ToVal(key), old;
      const int error = mdb_get(txn, dbi_, &name, &old);
      return error != 0 ? error : Put(txn, key, record);
    });
  }

  // In one transaction, so the basis is not needed.
  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult*) override {
    bool well_formed = true;
    const DbStatus status = Write([&](MDB_txn* txn) {
      MDB_val name = ToVal(key), old;
      if (const int error = mdb_get(txn, dbi_, &name, &old)) return error;
      well_formed = PatchRecord(ToView(old), writes, &patched_);
      return well_formed ? Put(txn, key, patched_) : 0;
    });
    if (well_formed) return status;
    error_ = absl::StrCat("the record of ", key, " has no such field");
    return DbStatus::kUnexpectedState;
  }

  std::string last_error() const override { return error_; }

 private:
  DbStatus Get(absl::string_view key, ReadResult* result) {
    MDB_val name = ToVal(key), value;
    if (const int error = mdb_get(reader_.get(), dbi_, &name, &value)) return Note(error);
    result->buffer.assign(static_cast<const char*>(value.mv_data), value.mv_size);
    result->record = result->buffer;
    return DbStatus::kOk;
  }

  int Put(MDB_txn* txn, absl::string_view key, absl::string_view record) {
    MDB_val name = ToVal(key), value = ToVal(record);
    return mdb_put(txn, dbi_, &name, &value, 0);
  }

  template <typename Body>
  DbStatus Write(Body body) {
    MDB_txn* raw = nullptr;
    if (const int error = mdb_txn_begin(env_, nullptr, 0, &raw)) return Note(error);
    Txn txn(raw);
    if (const int error = body(raw)) return Note(error);
    const int error = mdb_txn_commit(txn.release());  // freed, however it ends
    return error == 0 ? DbStatus::kOk : Note(error);
  }

  DbStatus Note(int error) {
    error_ = mdb_strerror(error);
    if (error == MDB_NOTFOUND) return DbStatus::kNotFound;
    if (error == MDB_MAP_FULL) {
      error_ += " (lmdb.map_mib bounds the file)";
      return DbStatus::kNoSpace;
    }
    return error == MDB_BAD_VALSIZE ? DbStatus::kBadRequest : DbStatus::kError;
  }

  MDB_env* const env_;
  const MDB_dbi dbi_;
  const Txn reader_;
  std::string patched_;
  std::string error_;
};

class LmdbBackend : public DbBackend {
 public:
  LmdbBackend(Env env, MDB_dbi dbi) : env_(std::move(env)), dbi_(dbi) {}

  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions&) override {
    MDB_txn* reader = nullptr;
    if (const int error = mdb_txn_begin(env_.get(), nullptr, MDB_RDONLY, &reader)) {
      return absl::UnavailableError(absl::StrCat("lmdb gives no read transaction: ", mdb_strerror(error)));
    }
    mdb_txn_reset(reader);
    return std::make_unique<LmdbDb>(env_.get(), dbi_, Txn(reader));
  }

 private:
  const Env env_;
  const MDB_dbi dbi_;
};

absl::StatusOr<std::unique_ptr<DbBackend>> Open(PropertyReader* reader) {
  const std::string path = reader->String("lmdb.path", "");
  const int64_t map_mib = reader->Int("lmdb.map_mib", 4096, 1, int64_t{1} << 24);
  if (path.empty()) reader->Fail("lmdb.path", "is missing: the directory of the file");
  if (!reader->status().ok()) return reader->status();

  std::error_code error_code;
  std::filesystem::create_directories(path, error_code);
  MDB_env* raw = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  int error = mdb_env_create(&raw);
  Env env(error == 0 ? raw : nullptr);
  if (error == 0) error = mdb_env_set_mapsize(raw, static_cast<size_t>(map_mib) << 20);
  if (error == 0) error = mdb_env_set_maxreaders(raw, kMaxReaders);
  // MDB_NOTLS: a read transaction belongs to its Db, not to the thread that began it.
  const unsigned flags = MDB_NOTLS | MDB_WRITEMAP | MDB_NOSYNC | MDB_NOMETASYNC;
  if (error == 0) error = mdb_env_open(raw, path.c_str(), flags, 0600);
  int stale = 0;
  if (error == 0) error = mdb_reader_check(raw, &stale);
  if (error == 0) error = mdb_txn_begin(raw, nullptr, 0, &txn);
  if (error == 0) {
    error = mdb_dbi_open(txn, nullptr, 0, &dbi);
    if (error == 0) {
      error = mdb_txn_commit(txn);
    } else {
      mdb_txn_abort(txn);
    }
  }
  if (error != 0) return absl::UnavailableError(absl::StrCat("cannot open lmdb at ", path, ": ", mdb_strerror(error)));
  return std::make_unique<LmdbBackend>(std::move(env), dbi);
}

}  // namespace

void RegisterLmdbDb(DbRegistry* registry) {
  registry->Add("lmdb",
                DbEntry{.help = "an LMDB file at -p lmdb.path=DIRECTORY; also lmdb.map_mib (4096)", .open = Open});
}

}  // namespace farlook::bench
