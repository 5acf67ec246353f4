// A server of the comparison: its address, and the process whose CPU time is counted.
#ifndef FARLOOK_BENCH_STORES_STORE_ADDRESS_H_
#define FARLOOK_BENCH_STORES_STORE_ADDRESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bench/common/properties.h"
#include "bench/stores/db.h"

namespace farlook::bench {

struct StoreAddress {
  std::string path;  // of a Unix socket; or empty
  std::string host;  // of TCP
  int port = 0;
};

// "unix:///path" or "tcp://host:port". INVALID_ARGUMENT states the expected form.
absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text);

// Returns whether it is an address of this host, so that processes listening there are this host's.
bool IsThisHost(const StoreAddress& address);

struct StoreServer {
  StoreAddress address;
  std::string address_text;
  int64_t timeout_ms = 10'000;  // of each operation
};
// The server that the properties NAME.address and NAME.timeout_ms specify for the store NAME.
absl::StatusOr<StoreServer> ReadStoreServer(const std::string& name, absl::string_view default_address,
                                            PropertyReader* reader);

// The common part of backends whose Dbs are connections to such a server.
class ServerBackend : public DbBackend {
 public:
  pid_t server_pid() const override { return server_pid_; }
  bool server_is_here() const override { return IsThisHost(address_); }

 protected:
  ServerBackend(StoreAddress address, pid_t server_pid) : address_(std::move(address)), server_pid_(server_pid) {}

 private:
  const StoreAddress address_;
  const pid_t server_pid_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_STORE_ADDRESS_H_
