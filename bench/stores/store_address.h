// Where a server that is compared with listens.
#ifndef FARLOOK_BENCH_STORES_STORE_ADDRESS_H_
#define FARLOOK_BENCH_STORES_STORE_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

struct StoreAddress {
  std::string path;  // of a Unix socket; or empty
  std::string host;  // of TCP
  int port = 0;
};

// "unix:///path" or "tcp://host:port". INVALID_ARGUMENT says what is expected.
absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text);

// Whether it is an address of this host, so that processes listening there are this host's.
bool IsThisHost(const StoreAddress& address);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_STORE_ADDRESS_H_
