#include "server/daemon/server_flags.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace farlook::server {
namespace {

// Abseil parses each occurrence into a new value, so the list of all is kept here.
std::vector<std::string>* AllAddresses() {
  static auto* const all = new std::vector<std::string>;
  return all;
}

}  // namespace

void ForgetAddresses() { AllAddresses()->clear(); }

bool AbslParseFlag(absl::string_view text, AddressList* list, std::string* error) {
  std::vector<std::string>* const all = AllAddresses();
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    const std::string address(absl::StripAsciiWhitespace(part));
    if (address.empty() && text.empty()) break;  // the default
    if (address.empty()) {
      *error = "an address is empty; use for example shm:///tmp/farlook";
      return false;
    }
    if (std::find(all->begin(), all->end(), address) == all->end()) all->push_back(address);
  }
  list->addresses = *all;
  return true;
}

std::string AbslUnparseFlag(const AddressList& list) { return absl::StrJoin(list.addresses, ","); }

bool AbslParseFlag(absl::string_view text, HugePagesFlag* flag, std::string* error) {
  const absl::StatusOr<rdma::HugePages> pages = rdma::ParseHugePages(text);
  if (!pages.ok()) {
    *error = std::string(pages.status().message());
    return false;
  }
  flag->pages = *pages;
  return true;
}

std::string AbslUnparseFlag(HugePagesFlag flag) { return std::string(rdma::HugePagesName(flag.pages)); }

bool AbslParseFlag(absl::string_view text, NumaNode* flag, std::string* error) {
  if (text == "auto") {
    flag->node = -1;
    return true;
  }
  int node;
  if (!absl::SimpleAtoi(text, &node) || node < 0) {
    *error = "use auto, or the number of a node (see numactl --hardware)";
    return false;
  }
  flag->node = node;
  return true;
}

std::string AbslUnparseFlag(NumaNode flag) { return flag.node < 0 ? "auto" : absl::StrCat(flag.node); }

bool AbslParseFlag(absl::string_view text, FileMode* flag, std::string* error) {
  flag->mode = text.empty() ? -1 : 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '7' || flag->mode > 0777) {
      *error = "use three octal digits, such as 660 (owner, group, others); write permission allows connecting";
      return false;
    }
    flag->mode = flag->mode * 8 + (digit - '0');
  }
  if (flag->mode <= 0777) return true;
  *error = "use three octal digits, such as 660 (owner, group, others); write permission allows connecting";
  return false;
}

std::string AbslUnparseFlag(FileMode flag) { return flag.mode < 0 ? "" : absl::StrFormat("%03o", flag.mode); }

bool AbslParseFlag(absl::string_view text, LogLevelFlag* flag, std::string* error) {
  if (ParseLogLevel(text, &flag->level)) return true;
  *error = "use debug, info, warning, error or none";
  return false;
}

std::string AbslUnparseFlag(LogLevelFlag flag) {
  switch (flag.level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kNone:
      break;
  }
  return "none";
}

}  // namespace farlook::server
