#include "bench/stores/farlook_db.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "bench/stores/farlook_pipeline.h"
#include "bench/stores/record.h"
#include "farlook/client.h"

namespace farlook::bench {
namespace {

struct FarlookOptions {
  std::string address;
  ClientOptions client;
};

class FarlookDb : public Db {
 public:
  FarlookDb(std::unique_ptr<Client> client, const FarlookOptions& options, size_t inflight)
      : pipeline_(client.get(), inflight, options.client.spin_us * 1000), client_(std::move(client)) {}

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    return result->status = Get(key, &result->buffer, &result->record, &result->version);
  }

  void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) override {
    keys_.clear();
    for (absl::string_view key : keys) keys_.push_back(Std(key));
    // Each result has its own status; the overall one adds nothing.
    (void)client_->MultiGet(keys_, &batch_);
    for (size_t i = 0; i < keys.size(); ++i) {
      results[i].status = Note(batch_[i].status);
      results[i].record = batch_[i].value.data;
      results[i].version = batch_[i].value.version;
    }
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override {
    return Note(client_->Put(Std(key), Std(record)).status());
  }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    return Note(client_->Put(Std(key), Std(record), {.condition = Condition::IfPresent()}).status());
  }

  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult* basis) override {
    absl::string_view record;
    uint64_t version = 0;
    for (int64_t attempt = 0; attempt < kPatchAttempts; ++attempt) {
      if (attempt == 0 && basis != nullptr) {
        record = basis->record;
        version = basis->version;
      } else {
        const DbStatus read = Get(key, &read_, &record, &version);
        if (read != DbStatus::kOk) return read;
      }
      if (!PatchRecord(record, writes, &patched_)) {
        Note(absl::DataLossError(absl::StrCat("the record of ", key, " has no such field")));
        return DbStatus::kUnexpectedState;
      }
      const DbStatus set =
          Note(client_->Put(Std(key), patched_, {.condition = Condition::IfVersion(version)}).status());
      if (set != DbStatus::kConflict) return set;
    }
    return DbStatus::kConflict;
  }

  void Submit(DbRequest* request) override { pipeline_.Submit(request); }

  size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns) override {
    const size_t count = pipeline_.Poll(done, wait_ns);
    if (!pipeline_.last_error().ok()) last_error_ = pipeline_.last_error();
    return count;
  }

  std::string last_error() const override { return last_error_.ToString(); }

 private:
  DbStatus Get(absl::string_view key, std::string* buffer, absl::string_view* record, uint64_t* version) {
    value_.data.swap(*buffer);  // reuses its memory
    const DbStatus status = Note(client_->Get(Std(key), &value_));
    value_.data.swap(*buffer);
    *record = *buffer;
    *version = value_.version;
    return status;
  }

  DbStatus Note(const absl::Status& status) {
    if (!status.ok()) last_error_ = status;
    return ToDbStatus(status);
  }

  std::string read_, patched_;  // for Patch
  Value value_;                 // for Get
  std::vector<std::string_view> keys_;
  std::vector<farlook::Result<Value>> batch_;
  absl::Status last_error_;
  FarlookPipeline pipeline_;
  std::unique_ptr<Client> client_;  // destroyed first: cancels what is in flight
};

class FarlookBackend : public DbBackend {
 public:
  FarlookBackend(const FarlookOptions& options, pid_t server_pid) : options_(options), server_pid_(server_pid) {}

  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions& connect) override {
    FarlookOptions options = options_;
    if (connect.inflight > options.client.max_in_flight) {
      options.client.max_in_flight = static_cast<uint32_t>(connect.inflight);
    }
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options.address, options.client);
    if (!client.ok()) return client.status();
    return std::make_unique<FarlookDb>(*std::move(client), options, connect.inflight);
  }

  pid_t server_pid() const override { return server_pid_; }

 private:
  const FarlookOptions options_;
  const pid_t server_pid_;
};

absl::StatusOr<std::unique_ptr<DbBackend>> Open(PropertyReader* reader) {
  FarlookOptions options;
  const char* from_environment = std::getenv("FARLOOK_ADDRESS");
  options.address = reader->String("farlook.address", from_environment == nullptr ? "" : from_environment);
  if (options.address.empty()) reader->Fail("farlook.address", "is missing: where the server listens (shm:///path)");
  options.client.timeout_ms = reader->Int("farlook.timeout_ms", options.client.timeout_ms, 1, 3'600'000);
  options.client.mirror_bytes = reader->Int("farlook.mirror_bytes", options.client.mirror_bytes, -1, int64_t{1} << 40);
  options.client.spin_us = reader->Int("farlook.spin_us", options.client.spin_us, 0, 1'000'000'000);
  options.client.wait_for_server = reader->Bool("farlook.wait", false);
  const std::string lookups = reader->String("farlook.lookups", "auto");
  if (lookups == "reads") {
    options.client.lookups = Lookups::kReads;
  } else if (lookups == "messages") {
    options.client.lookups = Lookups::kMessages;
  } else if (lookups != "auto") {
    reader->Fail("farlook.lookups", "is none of auto, reads and messages");
  }
  if (!reader->status().ok()) return reader->status();

  // Connects once now, to report at once that there is no server.
  const absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options.address, options.client);
  if (absl::StrContains(client.status().message(), "is starting")) {
    return absl::UnavailableError(absl::StrCat(client.status().message(), "; wait for it with -p farlook.wait=true"));
  }
  if (absl::IsUnavailable(client.status()) || absl::IsDeadlineExceeded(client.status())) {
    return absl::Status(client.status().code(), absl::StrCat(client.status().message(),
                                                             "; start one with kv_server --listen=", options.address));
  }
  if (!client.ok()) return client.status();
  return std::make_unique<FarlookBackend>(options, FarlookServerPid(options.address));
}

}  // namespace

void RegisterFarlookDb(DbRegistry* registry) {
  registry->Add("farlook",
                DbEntry{.help = "a kv_server at -p farlook.address=ADDRESS or $FARLOOK_ADDRESS; also\n"
                                "                                   farlook.timeout_ms (1000), "
                                "farlook.mirror_bytes (-1: the\n"
                                "                                   client decides), farlook.spin_us (50), "
                                "farlook.lookups\n"
                                "                                   (auto; reads; messages: the server looks up), "
                                "farlook.wait\n"
                                "                                   (false; true: for a server that is not "
                                "there yet)",
                        .open = Open});
}

pid_t FarlookServerPid(absl::string_view address) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (!absl::ConsumePrefix(&address, "shm://") || address.size() >= sizeof(name.sun_path)) return 0;
  std::memcpy(name.sun_path, address.data(), address.size());

  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return 0;
  ucred peer = {};
  socklen_t bytes = sizeof(peer);
  // In C, all kinds of socket addresses are cast to sockaddr.
  const bool known = connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0 &&
                     getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0;
  close(fd);
  return known ? peer.pid : 0;
}

}  // namespace farlook::bench
