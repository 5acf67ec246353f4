// Resolves names without waiting for the system's resolver.
//
// getaddrinfo() may take tens of seconds while a name server does not answer, and cannot be cancelled. So each lookup
// has its own thread, and its user checks from time to time for the answer:
//
//     Resolver::LookUp(host) -> Lookup -- getaddrinfo(), on a thread --> answered, and the resolver's user is woken
//
// A name that was resolved before can be used even if the name server is gone. If the answer is an error, or takes
// longer than kFallbackMs, the last valid addresses are used.
#ifndef FARLOOK_RDMA_HOST_RESOLVER_H_
#define FARLOOK_RDMA_HOST_RESOLVER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/address.h"
#include "rdma/host/ip_address.h"

namespace farlook::rdma {

// In the order in which they should be tried, each once, without a port.
using SocketAddresses = std::vector<SocketAddress>;

// One request to the system's resolver.
//
// Thread safety: any thread.
class Lookup {
 public:
  // Time after which earlier addresses, if there are any, are used instead of the answer.
  static constexpr int64_t kFallbackMs = 100;

  // Returns the addresses to use: the answer, or earlier ones instead. Returns nothing if neither exists yet.
  // UNAVAILABLE: the name is unknown. RESOURCE_EXHAUSTED: there is no thread to look it up.
  std::optional<absl::StatusOr<SocketAddresses>> Addresses(int64_t now_ns) const;
  // Time from which Addresses() uses the earlier ones; INT64_MAX: there are none.
  int64_t fallback_ns() const { return fallback_.empty() ? INT64_MAX : begun_ns_ + kFallbackMs * 1'000'000; }
  bool is_answered() const;
  // Waits for Addresses(), at most `timeout_ms`. UNAVAILABLE: there is no answer in time.
  absl::StatusOr<SocketAddresses> Await(int64_t timeout_ms) const;

 private:
  friend class Resolver;
  struct Bell;

  Lookup(std::string host, SocketAddresses fallback, int64_t begun_ns, std::shared_ptr<Bell> bell);
  static std::shared_ptr<Lookup> Start(std::string host, SocketAddresses fallback, std::shared_ptr<Bell> bell);
  static void* Run(void* lookup);
  void Answer(absl::StatusOr<SocketAddresses> answer);
  std::optional<absl::StatusOr<SocketAddresses>> answer() const;
  bool IsFresh() const;

  const std::string host_;
  const SocketAddresses fallback_;
  const int64_t begun_ns_;
  const std::shared_ptr<Bell> bell_;
  mutable std::mutex mutex_;
  mutable std::condition_variable answered_;
  std::optional<absl::StatusOr<SocketAddresses>> answer_;  // guarded by mutex_
  int64_t answered_ns_ = 0;                                // guarded by mutex_
};

// Thread safety: one thread.
class Resolver {
 public:
  // `wake` is called, on any thread, when a lookup is answered.
  explicit Resolver(std::function<void()> wake);
  ~Resolver();  // waits for no lookup
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  // Numeric hosts are answered at once. For a name there is one lookup at a time, and an answer is valid for a second.
  std::shared_ptr<const Lookup> LookUp(const std::string& host);

 private:
  const std::shared_ptr<Lookup::Bell> bell_;
  std::map<std::string, std::shared_ptr<Lookup>> last_;  // by host; the last lookup
};

// UNAVAILABLE: the resolver has not answered in time.
absl::Status NotResolved(const std::string& host);

// Looks up an address's host and waits for the answer, at most `timeout_ms`. Errors as for Lookup. The result contains
// the address's port, and is not empty.
absl::StatusOr<SocketAddresses> ResolveWithin(const Address& address, int64_t timeout_ms);

// Time for which a server that listens at a name waits for the system's resolver.
inline constexpr int64_t kResolveForListeningMs = 30'000;

// From now on calls `function` instead of the system's resolver for all names. Null: the system's resolver again.
using LookUpFunction = absl::StatusOr<SocketAddresses> (*)(const std::string& host);
void SetLookUpForTest(LookUpFunction function);

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_HOST_RESOLVER_H_
