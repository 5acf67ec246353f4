#include "tests/failnth/scenario.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "farlook/client.h"
#include "server/base/log.h"
#include "server/daemon/server.h"
#include "tests/failnth/belongings.h"

namespace farlook::failnth {
namespace {

// One call fails, so the second attempt succeeds at the latest; some failures cost a connection, and then its next use
// fails, too.
constexpr int kAttempts = 4;

// Between attempts on verbs: after a failed atomic of its own the server tries the device again after a second.
constexpr std::chrono::milliseconds kPause(500);

bool OnShm(const std::string& address) { return absl::StartsWith(address, "shm://"); }

// Returns whether an operation may be tried again without an error.
bool Transient(Phase phase, const Report& report) {
  if (!report.failed.load(std::memory_order_acquire)) return false;
  if (report.error == EINTR) return true;
  const std::string name = report.name;
  return phase == Phase::kLoad && (name == "sendmsg" || name == "recvmsg") &&
         (report.error == ENOBUFS || report.error == ENOMEM);
}

class Run {
 public:
  Run(std::string address, Phase phase, const Choice& choice, Report* report)
      : address_(std::move(address)), phase_(phase), choice_(choice), report_(report) {}

  std::string All() {
    if (During(Phase::kStartUp, [this] { return StartUp(); }) &&
        During(Phase::kConnect, [this] { return Connect(); })) {
      During(Phase::kLoad, [this] { return Load(); });
    }
    During(Phase::kShutdown, [this] { return Shutdown(); });
    return trouble_;
  }

 private:
  bool During(Phase phase, absl::FunctionRef<bool()> act) {
    if (phase == phase_) Expect(choice_, report_);
    const bool done = act();
    if (phase == phase_) Forget();
    return done;
  }

  // Attempts `act` until it gives OK.
  bool Succeeds(const char* what, absl::FunctionRef<absl::Status()> act) {
    std::string statuses;
    for (int i = 0; i < kAttempts; ++i) {
      const absl::Status status = act();
      if (!status.ok()) absl::StrAppend(&statuses, "\n    ", status.ToString());
      if (!status.ok() && Transient(phase_, *report_)) {
        absl::StrAppend(&trouble_, what, " failed though its call had only to be repeated:", statuses, "\n");
      }
      if (status.ok()) return true;
      if (!OnShm(address_)) std::this_thread::sleep_for(kPause);
    }
    absl::StrAppend(&trouble_, what, " failed ", kAttempts, " times though one call did:", statuses, "\n");
    return false;
  }

  bool StartUp() {
    server::ServerOptions options;
    options.listen = {address_};
    options.memory_bytes = 16 << 20;
    options.huge_pages = rdma::HugePages::kNone;
    options.counter_memory_bytes = 64 << 10;
    if (OnShm(address_)) options.numa_node = 0;
    options.spin_us = 0;  // sleeping makes system calls
    return Succeeds("start-up", [&] {
      auto server = server::Server::Start(options);
      if (server.ok()) server_ = *std::move(server);
      return server.status();
    });
  }

  bool Connect() {
    ClientOptions options;
    options.spin_us = 0;
    options.timeout_ms = 20'000;  // on a busy machine; nothing is to take as long
    return Succeeds("connecting", [&] {
      auto client = Client::Connect(server_->addresses()[0], options);
      if (client.ok()) client_ = *std::move(client);
      return client.status();
    });
  }

  bool Load() {
    if (!PutAndGet("small", small_) || !PutAndGet("large", large_)) return false;
    Reread();
    Count();
    if (!Succeeds("a delete", [&] {
          const absl::Status status = client_->Delete("small");
          return absl::IsNotFound(status) ? absl::OkStatus() : status;  // an earlier attempt did it
        })) {
      return false;
    }
    if (auto exists = client_->Exists("small"); exists.ok() && *exists) absl::StrAppend(&trouble_, "it is deleted\n");
    return Succeeds("figures", [&] { return client_->ServerStats().status(); });
  }

  bool Shutdown() {
    client_.reset();
    if (server_ != nullptr) server_->Stop();
    server_.reset();
    return true;
  }

  bool PutAndGet(std::string_view key, std::string_view value) {
    if (!Succeeds("a put", [&] { return client_->Put(key, value).status(); })) return false;
    Value found;
    if (!Succeeds("a get", [&] { return client_->Get(key, &found); })) return false;
    if (found.data != value) absl::StrAppend(&trouble_, std::string(key), " has another value than was put\n");
    return true;
  }

  void Reread() {
    std::vector<std::string_view> keys = {"small", "large", "absent"};
    std::vector<Result<Value>> results;
    if (!Succeeds("gets", [&] { return client_->MultiGet(keys, &results); })) return;
    if (results[0].value.data.size() != 100 || results[1].value.data.size() != 100'000 ||
        !absl::IsNotFound(results[2].status)) {
      absl::StrAppend(&trouble_, "a MultiGet found other values than were put\n");
    }
  }

  // The sum is exact, except for adds with an unknown outcome.
  void Count() {
    if (!Succeeds("a counter", [&] {
          const absl::Status status = client_->CreateCounter("counter");
          return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
        })) {
      return;
    }
    int64_t least = 0;
    int64_t most = 0;
    for (int i = 0; i < 3; ++i) {
      CounterOptions options;
      options.exactly_once = i == 1;
      if (!Succeeds("an add", [&] {
            const absl::Status status = client_->FetchAdd("counter", 1, options).status();
            if (absl::IsUnknown(status) || absl::IsDeadlineExceeded(status)) ++most;
            return status;
          })) {
        return;
      }
      ++least;
      ++most;
    }
    int64_t sum = 0;
    if (!Succeeds("a counter's read", [&] {
          auto read = client_->ReadCounter("counter");
          if (read.ok()) sum = *read;
          return read.status();
        })) {
      return;
    }
    if (sum < least || sum > most) absl::StrAppend(&trouble_, "a counter of ", least, " to ", most, " is ", sum, "\n");
    Succeeds("a counter's delete", [&] {
      const absl::Status status = client_->DeleteCounter("counter").status();
      return absl::IsNotFound(status) ? absl::OkStatus() : status;
    });
  }

  const std::string address_;
  const Phase phase_;
  const Choice choice_;
  const std::string small_ = std::string(100, 's');
  const std::string large_ = std::string(100'000, 'l');  // too long for a message: the server pulls it
  Report* const report_;
  std::unique_ptr<server::Server> server_;
  std::unique_ptr<Client> client_;
  std::string trouble_;
};

}  // namespace

std::string RunScenario(const std::string& address, Phase phase, const Choice& choice, Report* report) {
  server::SetLogLevel(server::LogLevel::kNone);
  const Belongings before = Belongings::Now();
  std::string trouble = Run(address, phase, choice, report).All();
  AwaitThreads(before.threads);
  trouble += before.Leaked(Belongings::Now());
  if (OnShm(address)) {
    const std::string path(absl::StripPrefix(address, "shm://"));
    struct stat info;
    if (lstat(path.c_str(), &info) == 0) trouble += path + " is still there; ";
    if (lstat((path + ".lock").c_str(), &info) == 0) trouble += path + ".lock is still there; ";
  }
  return trouble;
}

}  // namespace farlook::failnth
