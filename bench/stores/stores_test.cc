// The driver's requirements, tested for every store: those in the process, and real servers started here.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "bench/common/properties.h"
#include "bench/stores/db.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/record.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

constexpr std::chrono::seconds kPatience{60};  // this machine may be busy

struct Store {
  const char* test_name;
  const char* db;
  std::vector<std::string> server;  // program and arguments; $D is the directory of the test. Empty: none needed
  Properties properties;
};

void PrintTo(const Store& store, std::ostream* out) { *out << store.test_name; }

std::string InDirectory(std::string text, const std::string& directory) {
  const size_t at = text.find("$D");
  return at == std::string::npos ? text : text.replace(at, 2, directory);
}

class StoresTest : public testing::TestWithParam<Store> {
 protected:
  void SetUp() override {
    char directory[] = "/tmp/farlook_stores_XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    directory_ = directory;
    RegisterFloorDb(&registry_);
    RegisterLmdbDb(&registry_);
    RegisterMapDb(&registry_);
    RegisterMemcachedDb(&registry_);
    RegisterRedisDb(&registry_);
    for (const auto& [name, value] : GetParam().properties) properties_[name] = InDirectory(value, directory_);
    if (!GetParam().server.empty()) StartServer();
    absl::StatusOr<std::unique_ptr<DbBackend>> backend = Open();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!backend.ok() && std::chrono::steady_clock::now() < deadline && ServerRuns()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      backend = Open();
    }
    // A server that is not installed is a failure: tools/setup installs it.
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    db_ = Connect(1);
  }

  ~StoresTest() override {
    db_.reset();
    backend_.reset();
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::unique_ptr<Db> Connect(size_t inflight) {
    absl::StatusOr<std::unique_ptr<Db>> db = backend_->Connect({.inflight = inflight, .batch = 16});
    EXPECT_TRUE(db.ok()) << db.status();
    return *std::move(db);
  }

  static std::string Record(const std::vector<absl::string_view>& fields) {
    std::string record;
    EncodeRecord(fields, &record);
    return record;
  }

  std::string Get(absl::string_view key) {
    ReadResult result;
    const DbStatus status = db_->Read(key, &result);
    const absl::string_view text = status == DbStatus::kOk ? result.record : DbStatusName(status);
    return std::string(text.data(), text.size());
  }

  // Submits all requests, and polls until all have ended.
  void RunAll(Db* db, absl::Span<DbRequest> requests) {
    for (DbRequest& request : requests) db->Submit(&request);
    std::vector<DbRequest*> done(3);
    size_t ended = 0;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (ended < requests.size()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "not all ended";
      ended += db->Poll(absl::MakeSpan(done), 100'000'000);
    }
  }

  DbRegistry registry_;
  std::unique_ptr<DbBackend> backend_;
  std::unique_ptr<Db> db_;
  pid_t pid_ = 0;

 private:
  absl::StatusOr<std::unique_ptr<DbBackend>> Open() {
    PropertyReader reader(&properties_);
    return (*registry_.Find(GetParam().db))->open(&reader);
  }

  void StartServer() {
    std::vector<std::string> args;
    for (const std::string& arg : GetParam().server) args.push_back(InDirectory(arg, directory_));
    pid_ = fork();
    if (pid_ != 0) return;
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(126);
    execvp(argv[0], argv.data());
    std::perror(argv[0]);
    _exit(127);
  }

  bool ServerRuns() {
    if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = 0;
    return pid_ > 0;
  }

  std::string directory_;
  Properties properties_;
};

TEST_P(StoresTest, WhatIsInsertedIsReadByEveryConnection) {
  EXPECT_EQ(db_->Insert("k", Record({"a", "b"})), DbStatus::kOk);
  EXPECT_EQ(db_->Insert("k", Record({"c", ""})), DbStatus::kOk);
  ReadResult result;
  EXPECT_EQ(Connect(1)->Read("k", &result), DbStatus::kOk) << "of another connection";
  EXPECT_EQ(Get("k"), Record({"c", ""}));
}

TEST_P(StoresTest, ValuesOfAnySizeAndAnyBytes) {
  for (size_t bytes : {1u, 62u, 1000u, 65536u, 200'000u}) {
    std::string field(bytes, '\0');
    for (size_t i = 0; i < bytes; ++i) field[i] = static_cast<char>(i * 37);
    EXPECT_EQ(db_->Insert("k", Record({field})), DbStatus::kOk);
    EXPECT_EQ(Get("k"), Record({field})) << bytes;
  }
}

TEST_P(StoresTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(Get("k"), "NOT_FOUND");
  EXPECT_EQ(db_->Replace("k", "r"), DbStatus::kNotFound);
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{0, "x"}}, nullptr), DbStatus::kNotFound);
  EXPECT_NE(db_->last_error(), "");
  EXPECT_EQ(Get("k"), "NOT_FOUND");
}

TEST_P(StoresTest, APatchChangesSomeFieldsAndReplaceAll) {
  ASSERT_EQ(db_->Insert("k", Record({"aaa", std::string(300, 'b'), "ccc"})), DbStatus::kOk);
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{0, "AAA"}, {2, "CCC"}}, nullptr), DbStatus::kOk);
  EXPECT_EQ(Get("k"), Record({"AAA", std::string(300, 'b'), "CCC"}));
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{1, "short"}}, nullptr), DbStatus::kOk);
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{2, std::string(500, 'd')}}, nullptr), DbStatus::kOk);
  EXPECT_EQ(Get("k"), Record({"AAA", "short", std::string(500, 'd')}));
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{3, "x"}}, nullptr), DbStatus::kUnexpectedState);
  EXPECT_EQ(db_->Replace("k", Record({"e"})), DbStatus::kOk);
  EXPECT_EQ(Get("k"), Record({"e"}));
}

TEST_P(StoresTest, APatchMayBeginWithWhatWasRead) {
  ASSERT_EQ(db_->Insert("k", Record({"a", "b"})), DbStatus::kOk);
  ReadResult read;
  ASSERT_EQ(db_->Read("k", &read), DbStatus::kOk);
  EXPECT_EQ(db_->Patch("k", std::vector<FieldWrite>{{1, "B"}}, &read), DbStatus::kOk);
  EXPECT_EQ(Get("k"), Record({"a", "B"}));
}

TEST_P(StoresTest, ABatchHasAStatusForEachKeyAndMayNameOneTwice) {
  ASSERT_EQ(db_->Insert("b", "record of b"), DbStatus::kOk);
  ASSERT_EQ(db_->Insert("d", "record of d"), DbStatus::kOk);
  const std::vector<absl::string_view> keys = {"a", "b", "b", "c", "d", "b", "e"};
  for (int round = 0; round < 2; ++round) {
    std::vector<ReadResult> results(keys.size());
    db_->ReadBatch(keys, absl::MakeSpan(results));
    for (size_t i = 0; i < keys.size(); ++i) {
      const bool there = keys[i] == "b" || keys[i] == "d";
      EXPECT_EQ(results[i].status, there ? DbStatus::kOk : DbStatus::kNotFound) << i;
      if (there) {
        EXPECT_EQ(results[i].record, absl::StrCat("record of ", keys[i])) << i;
      }
    }
  }
}

TEST_P(StoresTest, ManyInFlightEndEachWithItsOwn) {
  constexpr size_t kRequests = 12;
  const std::unique_ptr<Db> db = Connect(kRequests);
  const auto run = [&](DbRequest::Kind kind) {
    std::vector<DbRequest> requests(kRequests);
    for (size_t i = 0; i < kRequests; ++i) {
      requests[i].kind = kind;
      requests[i].key = absl::StrCat("key", i);
      requests[i].record = Record({absl::StrCat("value", i), std::string(i * 3000, 'v')});
      requests[i].writes = {{0, absl::StrCat("patched", i)}};
    }
    RunAll(db.get(), absl::MakeSpan(requests));
    return requests;
  };
  for (DbRequest::Kind kind : {DbRequest::Kind::kReplace, DbRequest::Kind::kPatch, DbRequest::Kind::kRead}) {
    for (const DbRequest& request : run(kind)) EXPECT_EQ(request.status, DbStatus::kNotFound);
  }
  for (DbRequest::Kind kind : {DbRequest::Kind::kInsert, DbRequest::Kind::kReplace, DbRequest::Kind::kPatch}) {
    for (const DbRequest& request : run(kind)) EXPECT_EQ(request.status, DbStatus::kOk);
  }
  const std::vector<DbRequest> reads = run(DbRequest::Kind::kRead);
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_EQ(reads[i].status, DbStatus::kOk);
    EXPECT_EQ(reads[i].result.record, Record({absl::StrCat("patched", i), std::string(i * 3000, 'v')}));
  }
}

TEST_P(StoresTest, PatchesOfManyThreadsAreAllKept) {
  if (std::string(GetParam().db) == "floor") return;  // it makes no such promise
  ASSERT_EQ(db_->Insert("k", Record({"", "", ""})), DbStatus::kOk);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      const std::unique_ptr<Db> db = Connect(4);
      for (size_t i = 1; i <= 50; ++i) {
        const std::vector<FieldWrite> writes = {{t, std::string(i, 'x')}};
        if (i % 2 == 0) {
          ASSERT_EQ(db->Patch("k", writes, nullptr), DbStatus::kOk);
          continue;
        }
        std::vector<DbRequest> request(1);
        request[0].kind = DbRequest::Kind::kPatch;
        request[0].key = "k";
        request[0].writes = writes;
        RunAll(db.get(), absl::MakeSpan(request));
        ASSERT_EQ(request[0].status, DbStatus::kOk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all(50, 'x');
  EXPECT_EQ(Get("k"), Record({all, all, all}));
}

// More than the sockets in between can hold, in both directions: a client that writes everything before it reads would
// wait for ever.
TEST_P(StoresTest, ManyLongValuesAreUnderWay) {
  constexpr size_t kRequests = 64;
  const std::string value = Record({std::string(200'000, 'v')});
  ASSERT_EQ(db_->Insert("k", value), DbStatus::kOk);
  const std::unique_ptr<Db> db = Connect(kRequests);
  std::vector<DbRequest> requests(kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    requests[i].kind = i % 2 == 0 ? DbRequest::Kind::kRead : DbRequest::Kind::kReplace;
    requests[i].key = "k";
    requests[i].record = value;
  }
  RunAll(db.get(), absl::MakeSpan(requests));
  for (const DbRequest& request : requests) {
    ASSERT_EQ(request.status, DbStatus::kOk) << db->last_error();
    if (request.kind == DbRequest::Kind::kRead) {
      EXPECT_TRUE(request.result.record == value);
    }
  }
}

TEST_P(StoresTest, TheServersProcessIsKnown) { EXPECT_EQ(backend_->server_pid(), pid_); }

TEST_P(StoresTest, AServerThatIsGoneIsSaid) {
  if (pid_ == 0) return;
  const std::unique_ptr<Db> db = Connect(4);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
  EXPECT_NE(Get("k"), "NOT_FOUND");
  EXPECT_NE(db_->Insert("k", "v"), DbStatus::kOk);
  std::vector<DbRequest> requests(2);
  requests[0].key = requests[1].key = "k";
  RunAll(db.get(), absl::MakeSpan(requests));
  EXPECT_EQ(requests[0].status, DbStatus::kServiceUnavailable);
  EXPECT_NE(db->last_error(), "");
}

INSTANTIATE_TEST_SUITE_P(All, StoresTest,
                         testing::Values(Store{"map", "map", {}, {}}, Store{"floor", "floor", {}, {}},
                                         Store{"lmdb", "lmdb", {}, {{"lmdb.path", "$D/lmdb"}, {"lmdb.map_mib", "64"}}},
                                         Store{"redis",
                                               "redis",
                                               {"redis-server", "--port", "0", "--unixsocket", "$D/s", "--save", "",
                                                "--appendonly", "no"},
                                               {{"redis.address", "unix://$D/s"}}},
                                         Store{"memcached",
                                               "memcached",
                                               {"bench/stores/run_memcached", "-s", "$D/s", "-t", "1"},
                                               {{"memcached.address", "unix://$D/s"}}}),
                         [](const testing::TestParamInfo<Store>& store) { return store.param.test_name; });

}  // namespace
}  // namespace farlook::bench
