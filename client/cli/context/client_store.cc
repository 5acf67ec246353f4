#include "client/cli/context/client_store.h"

#include <poll.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farlook::cli {
namespace {

constexpr int64_t kMaxWaitMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> ClientStore::Connect(const Options& options) {
  ClientOptions client_options;
  client_options.timeout_ms = options.timeout_ms;
  client_options.read_only = options.read_only || options.as_operator;
  client_options.as_operator = options.as_operator;
  client_options.user = options.user;
  client_options.secret_file = options.secret_file;
  client_options.wait_for_server = options.wait;
  // The same number as the command keeps in flight, which its window bounds.
  client_options.max_in_flight = static_cast<uint32_t>(std::max<int64_t>(options.transfer.in_flight, 1));
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(options.address, client_options);
  if (!client.ok()) return client.status();
  return std::make_unique<ClientStore>(*std::move(client));
}

AsyncOperation* ClientStore::Poll() {
  AsyncOperation* ended = nullptr;
  return client_->Poll({&ended, 1}) == 1 ? ended : nullptr;
}

void ClientStore::Wait() {
  if (!client_->Arm()) return;
  const int64_t wait_ms = client_->wait_ms();
  const int64_t bounded_ms = wait_ms < 0 ? kMaxWaitMs : std::min(wait_ms, kMaxWaitMs);
  struct pollfd poll_fd = {.fd = client_->fd(), .events = POLLIN, .revents = 0};
  // The result does not matter: the caller polls in any case.
  poll(&poll_fd, 1, static_cast<int>(bounded_ms));
}

absl::StatusOr<std::vector<ClusterGroup>> ClientStore::Groups(const ServerOptions& options) {
  auto groups = ListGroups(client_.get(), options);
  if (absl::IsFailedPrecondition(groups.status())) return std::vector<ClusterGroup>();
  return groups;
}

std::string ClientStore::ClientStats() const {
  const farlook::ClientStats& s = client_->stats();
  std::string text;
  const auto add = [&](absl::string_view name, uint64_t value) { absl::StrAppend(&text, name, " ", value, "\n"); };
  absl::StrAppend(&text, "address ", address(), "\n");
  add("gets", s.gets);
  add("hits", s.hits);
  add("misses", s.misses);
  add("puts", s.puts);
  add("bucket_reads", s.bucket_reads);
  add("item_reads", s.item_reads);
  add("read_retries", s.read_retries);
  add("cached_hits", s.cached_hits);
  add("stale_locations", s.stale_locations);
  add("directory_refreshes", s.directory_refreshes);
  add("server_gets", s.server_gets);
  add("pulled_values", s.pulled_values);
  add("reconnects", s.reconnects);
  add("resent_requests", s.resent_requests);
  add("timeouts", s.timeouts);
  add("incarnation_changes", s.incarnation_changes);
  add("atomics", s.atomics);
  add("counter_requests", s.counter_requests);
  add("dead_cells", s.dead_cells);
  add("unknown_atomics", s.unknown_atomics);
  const auto add_times = [&](absl::string_view name, const LatencyHistogram& times) {
    if (times.count() == 0) return;
    add(absl::StrCat(name, "_p50_ns"), times.QuantileNs(0.5));
    add(absl::StrCat(name, "_p99_ns"), times.QuantileNs(0.99));
    add(absl::StrCat(name, "_p999_ns"), times.QuantileNs(0.999));
  };
  add_times("get", s.get_times);
  add_times("write", s.write_times);
  add_times("counter", s.counter_times);
  add("memory_bytes", client_->memory_bytes());
  return text;
}

absl::Status ClientStore::Scan(const ScanOptions& options, const TakeItem& take, std::string* cursor) {
  Scanner scanner(client_.get(), options);
  ScannedItem item;
  for (;;) {
    const absl::StatusOr<bool> found = scanner.Next(&item);
    if (found.ok() && *found && take(item, scanner.progress())) continue;
    *cursor = scanner.cursor();
    return found.status();
  }
}

}  // namespace farlook::cli
