// The lines of which exported files consist. Both formats hold any bytes, one pair a line:
//
//     json   {"key":"user1","value":"text","version":7}
//            {"key_base64":"/w==","value_base64":"AP8="}      where the bytes are not UTF-8
//     tsv    user1<TAB>text                                   with \\ \t \n \r \xHH as in encoding.h
//
// "version" is for the reader's information; import ignores it, and fields that it does not know.
#ifndef FARLOOK_CLIENT_CLI_PAIR_FORMAT_H_
#define FARLOOK_CLIENT_CLI_PAIR_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

enum class PairFormat { kJson, kTsv };

struct Pair {
  std::string key;
  std::string value;
};

absl::StatusOr<PairFormat> ParsePairFormat(absl::string_view name);

// Without a line feed.
std::string FormatPair(absl::string_view key, absl::string_view value, uint64_t version, PairFormat format);
// INVALID_ARGUMENT says what is wrong with the line.
absl::StatusOr<Pair> ParsePair(absl::string_view line, PairFormat format);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_PAIR_FORMAT_H_
