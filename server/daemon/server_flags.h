// Types of kv_server's flags whose values are more than a number. An error names acceptable values.
#ifndef FARLOOK_SERVER_DAEMON_SERVER_FLAGS_H_
#define FARLOOK_SERVER_DAEMON_SERVER_FLAGS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "rdma/shared_memory.h"
#include "server/base/log.h"

namespace farlook::server {

// Addresses separated by commas. Each occurrence of the flag adds to those before; an address given twice counts once.
struct AddressList {
  std::vector<std::string> addresses;
};
bool AbslParseFlag(absl::string_view text, AddressList* list, std::string* error);
std::string AbslUnparseFlag(const AddressList& list);
// Forgets earlier occurrences of the flag.
void ForgetAddresses();

struct HugePagesFlag {
  rdma::HugePages pages = rdma::HugePages::kAuto;
};
bool AbslParseFlag(absl::string_view text, HugePagesFlag* flag, std::string* error);
std::string AbslUnparseFlag(HugePagesFlag flag);

// Octal, as for chmod; empty is -1.
struct FileMode {
  int mode = -1;
};
bool AbslParseFlag(absl::string_view text, FileMode* flag, std::string* error);
std::string AbslUnparseFlag(FileMode flag);

// "auto" is -1.
struct NumaNode {
  int node = -1;
};
bool AbslParseFlag(absl::string_view text, NumaNode* flag, std::string* error);
std::string AbslUnparseFlag(NumaNode flag);

struct LogLevelFlag {
  LogLevel level = LogLevel::kInfo;
};
bool AbslParseFlag(absl::string_view text, LogLevelFlag* flag, std::string* error);
std::string AbslUnparseFlag(LogLevelFlag flag);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_DAEMON_SERVER_FLAGS_H_
