#include "rdma/choices.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "rdma/address.h"

namespace farlook::rdma {

bool IsAuto(absl::string_view address) { return absl::StartsWith(address, "auto://"); }

absl::StatusOr<std::vector<std::string>> Choices(absl::string_view address) {
  absl::string_view rest = address;
  if (!absl::ConsumePrefix(&rest, "auto://")) {
    absl::StatusOr<Address> parsed = ParseAddress(address);
    if (!parsed.ok()) return parsed.status();
    return std::vector<std::string>{std::string(address)};
  }
  const std::vector<std::string> choices = {absl::StrCat("rdma://", rest), absl::StrCat("tcp://", rest)};
  absl::StatusOr<Address> parsed = ParseAddress(choices[0]);
  if (parsed.ok()) return choices;
  // Uses the scheme that the user wrote.
  return absl::InvalidArgumentError(
      absl::StrReplaceAll(parsed.status().message(), {{"address \"rdma://", "address \"auto://"}}));
}

}  // namespace farlook::rdma
