#include "bench/store_address.h"

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

}  // namespace farlook::bench
