#include "cluster/directory.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace farlook::cluster {

bool IsDirectoryName(absl::string_view name) {
  return !name.empty() && name.size() <= 128 && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-';
  });
}

absl::Status CheckRecord(absl::string_view name, size_t value_bytes) {
  if (!IsDirectoryName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)),
                     "\" is no name for a group: 1 to 128 letters, digits, '_', '-' or '.', the first no '.'"));
  }
  if (value_bytes > kMaxRecordBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a record of ", value_bytes, " bytes: at most ", kMaxRecordBytes));
  }
  return absl::OkStatus();
}

}  // namespace farlook::cluster
