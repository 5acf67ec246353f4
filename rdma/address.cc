#include "rdma/address.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farlook::rdma {
namespace {

constexpr char kForms[] = "an address is shm:///absolute/path, rdma://host:port, tcp://host:port or auto://host:port";
constexpr size_t kMaxHostBytes = 253;  // of a DNS name

// The text may come from anywhere: it is escaped, and cut to what fits a log line.
absl::Status Invalid(absl::string_view text, absl::string_view what) {
  const absl::string_view shown = text.substr(0, 200);
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", absl::CHexEscape(shown), shown.size() < text.size() ? "..." : "", "\": ", what));
}

absl::StatusOr<Address> ParseShm(absl::string_view text, absl::string_view path) {
  if (path.empty() || path.front() != '/') {
    return Invalid(text, "the path after shm:// must be absolute (three slashes: shm:///run/farlook)");
  }
  if (path.size() > kMaxSocketPathBytes) {
    return Invalid(text, absl::StrCat("the path has ", path.size(), " bytes, a Unix socket allows ",
                                      kMaxSocketPathBytes, "; choose a shorter one"));
  }
  if (path.find('\0') != absl::string_view::npos) return Invalid(text, "the path contains a zero byte");
  if (path.back() == '/') return Invalid(text, "the path names a directory; append the name of a socket");
  Address address;
  address.scheme = Scheme::kShm;
  address.path = std::string(path);
  return address;
}

bool IsHostCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

// A scope ("%eth0") belongs to link-local addresses.
bool IsIpv6Character(char c) { return IsHostCharacter(c) || c == ':' || c == '%'; }

absl::Status CheckHost(absl::string_view text, absl::string_view host, bool bracketed) {
  if (host.empty()) return Invalid(text, "the host is missing (as in rdma://host:port)");
  if (host.size() > kMaxHostBytes) return Invalid(text, absl::StrCat("the host is longer than ", kMaxHostBytes));
  if (bracketed && !absl::StrContains(host, ':')) return Invalid(text, "brackets are for IPv6 addresses only");
  for (const char c : host) {
    if (bracketed ? IsIpv6Character(c) : IsHostCharacter(c)) continue;
    if (c == ':') return Invalid(text, "an IPv6 address needs brackets (as in rdma://[fe80::1]:7000)");
    return Invalid(text, absl::StrCat("the host contains \"", absl::CHexEscape(absl::string_view(&c, 1)), "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<Address> ParseHostAndPort(Scheme scheme, absl::string_view text, absl::string_view rest) {
  const bool bracketed = absl::StartsWith(rest, "[");
  size_t host_end;
  if (bracketed) {
    host_end = rest.find(']');
    if (host_end == absl::string_view::npos) return Invalid(text, "the bracket is not closed");
  } else {
    host_end = rest.rfind(':');
    if (host_end == absl::string_view::npos) return Invalid(text, "the port is missing (as in rdma://host:port)");
  }
  const absl::string_view host = bracketed ? rest.substr(1, host_end - 1) : rest.substr(0, host_end);
  if (absl::Status status = CheckHost(text, host, bracketed); !status.ok()) return status;

  absl::string_view port = rest.substr(bracketed ? host_end + 1 : host_end);
  if (!absl::ConsumePrefix(&port, ":") || port.empty())
    return Invalid(text, "the port is missing (as in rdma://host:port)");
  uint32_t number = 0;
  const bool digits = port.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!digits || !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535) {
    return Invalid(text, "the port is not a number from 1 to 65535");
  }
  Address address;
  address.scheme = scheme;
  address.host = std::string(host);
  address.port = static_cast<uint16_t>(number);
  return address;
}

}  // namespace

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  absl::string_view rest = text;
  if (absl::ConsumePrefix(&rest, "shm://")) return ParseShm(text, rest);
  if (absl::ConsumePrefix(&rest, "rdma://")) return ParseHostAndPort(Scheme::kRdma, text, rest);
  if (absl::ConsumePrefix(&rest, "tcp://")) return ParseHostAndPort(Scheme::kTcp, text, rest);
  return Invalid(text, kForms);
}

std::string FormatAddress(const Address& address) {
  if (address.scheme == Scheme::kShm) return absl::StrCat("shm://", address.path);
  const bool bracketed = absl::StrContains(address.host, ':');
  return absl::StrCat(address.scheme == Scheme::kRdma ? "rdma://" : "tcp://", bracketed ? "[" : "", address.host,
                      bracketed ? "]" : "", ":", address.port);
}

}  // namespace farlook::rdma
