// The lines of exported files. Both formats hold any bytes, one pair a line:
//
//     json   {"key":"user1","value":"text","version":7}
//            {"key_base64":"/w==","value_base64":"AP8="}      if the bytes are not UTF-8
//            {"key":"user2","value":"text","ttl_ms":29998,"keep":true,"version":8}
//            {"key":"hits","counter":42,"ttl_ms":29998}
//     tsv    user1<TAB>text                                   with \\ \t \n \r \xHH as in encoding.h
//            user2<TAB>text<TAB>ttl_ms=29998<TAB>keep
//            hits<TAB><TAB>counter=42<TAB>ttl_ms=29998
//
// "ttl_ms" is the item's remaining life when it was exported; without it the item never expires. "version" is for
// information: import ignores it. Any other member or column is an error.
#ifndef FARLOOK_CLIENT_CLI_INPUT_PAIR_FORMAT_H_
#define FARLOOK_CLIENT_CLI_INPUT_PAIR_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::cli {

enum class PairFormat { kJson, kTsv };

struct Pair {
  std::string key = {};
  std::string value = {};               // empty for a counter
  std::optional<int64_t> counter = {};  // the number, if the key names a counter
  int64_t ttl_ms = 0;                   // 0: it never expires
  bool keep = false;                    // PutOptions::keep
  uint64_t version = 0;                 // 0: not known
};

absl::StatusOr<PairFormat> ParsePairFormat(absl::string_view name);

// Without a line feed.
std::string FormatPair(const Pair& pair, PairFormat format);
// INVALID_ARGUMENT says what is wrong with the line.
absl::StatusOr<Pair> ParsePair(absl::string_view line, PairFormat format);

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_PAIR_FORMAT_H_
