#include "bench/stores/store_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farlook::bench {

absl::StatusOr<StoreAddress> ParseStoreAddress(absl::string_view text) {
  StoreAddress address;
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "unix://") && rest.size() > 1 && rest[0] == '/') {
    address.path.assign(rest.data(), rest.size());
    return address;
  }
  if (absl::ConsumePrefix(&rest, "tcp://")) {
    const size_t colon = rest.rfind(':');
    if (colon != absl::string_view::npos && colon > 0 && absl::SimpleAtoi(rest.substr(colon + 1), &address.port) &&
        address.port > 0 && address.port < 65536) {
      address.host.assign(rest.data(), colon);
      return address;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("is neither unix:///path nor tcp://host:port: \"", text, "\""));
}

bool IsThisHost(const StoreAddress& address) {
  if (!address.path.empty()) return true;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.host.c_str(), nullptr, &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool mine = bind(fd, found->ai_addr, found->ai_addrlen) == 0;  // succeeds only for an address of an interface
  close(fd);
  return mine;
}

absl::StatusOr<StoreServer> ReadStoreServer(const std::string& name, absl::string_view default_address,
                                            PropertyReader* reader) {
  StoreServer server;
  server.address_text = reader->String(name + ".address", default_address);
  server.timeout_ms = reader->Int(name + ".timeout_ms", server.timeout_ms, 1, 3'600'000);
  const absl::StatusOr<StoreAddress> address = ParseStoreAddress(server.address_text);
  if (!address.ok()) reader->Fail(name + ".address", address.status().message());
  if (!reader->status().ok()) return reader->status();
  server.address = *address;
  return server;
}

}  // namespace farlook::bench
