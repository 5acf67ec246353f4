// The examples of docs/guide.md: its code blocks are pieces of this file, which guide_test.cc runs.
#include "tests/guide/guide.h"

#include <poll.h>

#include <chrono>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "farlook/async.h"

namespace farlook_guide {

absl::StatusOr<std::unique_ptr<farlook::Client>> ConnectPatiently(std::string_view address) {
  return farlook::Client::Connect(address, {.timeout_ms = 2000, .wait_for_server = true});
}

absl::Status Append(farlook::Client& client, std::string_view key, std::string_view line) {
  farlook::Value list;
  for (int attempt = 0; attempt < 100; ++attempt) {
    farlook::Condition unchanged = farlook::Condition::IfAbsent();
    if (absl::Status got = client.Get(key, &list); got.ok()) {
      unchanged = farlook::Condition::IfVersion(list.version);
    } else if (absl::IsNotFound(got)) {
      list.data.clear();
    } else {
      return got;
    }
    list.data.append(line);
    absl::Status put = client.Put(key, list.data, {.condition = unchanged}).status();
    const bool overtaken = absl::IsAborted(put) || absl::IsAlreadyExists(put) || absl::IsNotFound(put);
    if (!overtaken) return put;
  }
  return absl::AbortedError("others write this list all the time");
}

absl::StatusOr<size_t> TotalBytes(farlook::Client& client, std::span<const std::string_view> keys) {
  std::vector<farlook::Result<farlook::Value>> results;
  if (absl::Status status = client.MultiGet(keys, &results); !status.ok()) return status;
  size_t bytes = 0;
  for (const auto& result : results) {
    if (result.status.ok()) bytes += result.value.data.size();  // else the key is absent
  }
  return bytes;
}

absl::StatusOr<std::map<std::string, std::string>> UsersOf(farlook::Client& client, std::string* cursor) {
  farlook::Scanner scanner(&client, {.prefix = "user:", .values = true, .cursor = *cursor, .limit = 1000});
  std::map<std::string, std::string> users;
  farlook::ScannedItem item;
  for (;;) {
    absl::StatusOr<bool> found = scanner.Next(&item);
    if (!found.ok()) return found.status();
    if (!*found) break;
    users[std::string(item.key)] = std::string(item.value);
  }
  *cursor = scanner.cursor();  // "end" after the last
  return users;
}

absl::Status PutAll(farlook::Client& client, const std::map<std::string, std::string>& pairs) {
  absl::Status first_error;
  std::vector<std::unique_ptr<farlook::PutOperation>> operations;
  for (const auto& [key, value] : pairs) {
    operations.push_back(std::make_unique<farlook::PutOperation>(key, farlook::Borrowed{value}));
    client.Start(operations.back().get());
  }
  farlook::AsyncOperation* done[64];
  while (client.in_flight() > 0) {
    for (size_t i = client.Wait(done); i > 0; --i) {
      if (first_error.ok()) first_error = done[i - 1]->status();
    }
  }
  return first_error;
}

void CopyLater(farlook::Client& client, std::string_view from, std::string_view to,
               std::function<void(const absl::Status&)> then) {
  auto* get = new farlook::GetOperation(from);
  client.Start(get, [&client, get, to = std::string(to), then](farlook::AsyncOperation*) {
    std::unique_ptr<farlook::GetOperation> ended(get);
    if (!ended->status().ok()) return then(ended->status());
    auto* put = new farlook::PutOperation(to, std::move(ended->value()));
    client.Start(put, [put, then](farlook::AsyncOperation*) {
      then(put->status());
      delete put;
    });
  });
}

void PollOnce(farlook::Client& client, int other_fd) {
  if (client.Arm()) {  // nothing to poll now: sleep
    pollfd fds[2] = {{client.fd(), POLLIN, 0}, {other_fd, POLLIN, 0}};
    poll(fds, 2, static_cast<int>(client.wait_ms()));
  }
  farlook::AsyncOperation* done[64];
  for (size_t i = client.Poll(done); i > 0; --i) {
    // done[i - 1] has ended
  }
}

absl::Status PutStubbornly(farlook::Client& client, std::string_view key, std::string_view value) {
  absl::Status status;
  for (int attempt = 0; attempt < 5; ++attempt) {
    status = client.Put(key, value).status();
    const bool not_done = absl::IsUnavailable(status);
    const bool unknown = absl::IsUnknown(status) || absl::IsDeadlineExceeded(status);
    // It is harmless to put the same value twice, if no other client writes this key.
    if (!not_done && !unknown) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10 << attempt));
  }
  return status;
}

void CountInThreads(const std::string& address, int threads) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) {
    running.emplace_back([&address] {
      auto client = farlook::Client::Connect(address);
      if (!client.ok()) return;
      for (int n = 0; n < 1000; ++n) {
        if (!(*client)->FetchAdd("visits", 1).ok()) return;
      }
    });
  }
  for (std::thread& thread : running) thread.join();
}

}  // namespace farlook_guide
