#include "client/cli/input/pair_format.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/input/encoding.h"
#include "client/cli/input/json_line.h"
#include "nlohmann/json.hpp"

namespace farlook::cli {
namespace {

std::string OutOfRange(absl::string_view name, absl::string_view number) {
  return absl::StrCat(Quoted(name), " is ", number, ", which is no number of 64 bits");
}

// Returns an error if the parts of a pair contradict each other.
absl::Status Check(const Pair& pair) {
  if (pair.ttl_ms < 0) return absl::InvalidArgumentError(absl::StrCat("has a ttl of ", pair.ttl_ms, " ms"));
  if (pair.counter.has_value() && !pair.value.empty()) return absl::InvalidArgumentError("has both value and counter");
  if (pair.counter.has_value() && pair.keep) return absl::InvalidArgumentError("has \"keep\", which no counter has");
  return absl::OkStatus();
}

// Reads a pair from an object while it is parsed, without a tree and without exceptions. Each handler returns whether
// to continue.
class PairHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Wrong("null"); }
  bool boolean(bool value) override {
    if (!in_object_ || member_ != Member::kKeep) return Wrong("a boolean");
    pair_.keep = value;
    return true;
  }
  bool number_integer(number_integer_t number) override { return Number(number); }
  bool number_unsigned(number_unsigned_t number) override {
    if (in_object_ && member_ == Member::kVersion) return true;
    if (number > INT64_MAX && (member_ == Member::kCounter || member_ == Member::kTtl)) {
      return Fail(OutOfRange(name_, absl::StrCat(number)));
    }
    return Number(static_cast<number_integer_t>(number));
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (in_object_ && (member_ == Member::kCounter || member_ == Member::kTtl)) return Fail(OutOfRange(name_, text));
    return Wrong("a number");
  }
  bool binary(binary_t&) override { return Wrong("binary"); }

  bool string(string_t& text) override {
    if (!in_object_) return Wrong("a string");
    switch (member_) {
      case Member::kKey:
        pair_.key = std::move(text);
        return true;
      case Member::kValue:
        pair_.value = std::move(text);
        return true;
      case Member::kKeyBase64:
        return absl::Base64Unescape(text, &pair_.key) || Fail(absl::StrCat(Quoted(name_), " is not base64"));
      case Member::kValueBase64:
        return absl::Base64Unescape(text, &pair_.value) || Fail(absl::StrCat(Quoted(name_), " is not base64"));
      default:
        return Wrong("a string");
    }
  }

  bool start_object(size_t) override {
    if (in_object_) return Wrong("an object");
    return in_object_ = true;
  }
  bool key(string_t& name) override {
    const auto* const found = std::find(std::begin(kNames), std::end(kNames), name);
    if (found == std::end(kNames)) return Fail(absl::StrCat("has a member ", Quoted(name), ", which is not known"));
    name_ = std::move(name);
    member_ = static_cast<Member>(found - std::begin(kNames));
    // A key and a value have two names each.
    const uint32_t bit = 1u << (member_ == Member::kKeyBase64     ? static_cast<int>(Member::kKey)
                                : member_ == Member::kValueBase64 ? static_cast<int>(Member::kValue)
                                                                  : static_cast<int>(member_));
    if ((seen_ & bit) != 0) return Fail(absl::StrCat("gives the ", kNames[std::countr_zero(bit)], " twice"));
    seen_ |= bit;
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return Wrong("an array"); }
  bool end_array() override { return true; }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("is not JSON at position ", position));
  }

  absl::StatusOr<Pair> Finish() && {
    if (error_.empty() && !Has(Member::kKey)) error_ = "has neither \"key\" nor \"key_base64\"";
    if (error_.empty() && !Has(Member::kValue) && !Has(Member::kCounter)) {
      error_ = "has none of \"value\", \"value_base64\" and \"counter\"";
    }
    if (error_.empty() && Has(Member::kValue) && Has(Member::kCounter)) error_ = "has both value and counter";
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    if (absl::Status status = Check(pair_); !status.ok()) return status;
    return std::move(pair_);
  }

 private:
  enum class Member { kKey, kValue, kKeyBase64, kValueBase64, kCounter, kTtl, kKeep, kVersion };
  static constexpr absl::string_view kNames[] = {"key",     "value",  "key_base64", "value_base64",
                                                 "counter", "ttl_ms", "keep",       "version"};

  bool Has(Member member) const { return (seen_ & 1u << static_cast<int>(member)) != 0; }

  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  // Handles an element at a wrong place.
  bool Wrong(absl::string_view what) {
    if (!in_object_) return Fail(absl::StrCat("is ", what, ", not an object"));
    const absl::string_view right = member_ == Member::kKeep                                     ? "true or false"
                                    : member_ >= Member::kCounter && member_ <= Member::kVersion ? "a number"
                                                                                                 : "a string";
    return Fail(absl::StrCat(Quoted(name_), " is ", what, ", not ", right));
  }

  bool Number(int64_t number) {
    if (!in_object_) return Wrong("a number");
    if (member_ == Member::kVersion) return true;
    if (member_ == Member::kCounter) {
      pair_.counter = number;
      return true;
    }
    if (member_ != Member::kTtl) return Wrong("a number");
    if (number < 1) return Fail(absl::StrCat("has a ttl of ", number, " ms"));
    pair_.ttl_ms = number;
    return true;
  }

  bool in_object_ = false;
  std::string name_;  // of the member whose value comes next
  Member member_ = Member::kKey;
  uint32_t seen_ = 0;  // a bit for each member
  Pair pair_;
  std::string error_;
};

absl::StatusOr<Pair> ParseJson(absl::string_view line) {
  PairHandler handler;
  nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  return std::move(handler).Finish();
}

absl::StatusOr<Pair> ParseTsv(absl::string_view line) {
  // FormatPair() escapes it: this one comes from an editor's line ends.
  absl::ConsumeSuffix(&line, "\r");
  const std::vector<absl::string_view> columns = absl::StrSplit(line, '\t');
  if (columns.size() < 2) return absl::InvalidArgumentError("has no tab between key and value");
  absl::StatusOr<std::string> key = Unescape(columns[0]);
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat("key: ", key.status().message()));
  absl::StatusOr<std::string> value = Unescape(columns[1]);
  if (!value.ok()) return absl::InvalidArgumentError(absl::StrCat("value: ", value.status().message()));
  Pair pair = {.key = *std::move(key), .value = *std::move(value)};
  for (size_t i = 2; i < columns.size(); ++i) {
    absl::string_view column = columns[i];
    int64_t number = 0;
    if (column == "keep") {
      pair.keep = true;
    } else if (absl::ConsumePrefix(&column, "ttl_ms=") && absl::SimpleAtoi(column, &number) && number > 0) {
      pair.ttl_ms = number;
    } else if (absl::ConsumePrefix(&column, "counter=") && absl::SimpleAtoi(column, &number)) {
      pair.counter = number;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("has a second tab, and behind it ", Quoted(columns[i]),
                                                     ", not ttl_ms=N, keep or counter=N; a tab within a key or value "
                                                     "is written as \\t"));
    }
  }
  if (absl::Status status = Check(pair); !status.ok()) return status;
  return pair;
}

}  // namespace

absl::StatusOr<PairFormat> ParsePairFormat(absl::string_view name) {
  if (name == "json") return PairFormat::kJson;
  if (name == "tsv") return PairFormat::kTsv;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is none of json, tsv"));
}

std::string FormatPair(const Pair& pair, PairFormat format) {
  if (format == PairFormat::kTsv) {
    return absl::StrCat(Escape(pair.key), "\t", Escape(pair.value),
                        pair.counter.has_value() ? absl::StrCat("\tcounter=", *pair.counter) : "",
                        pair.ttl_ms != 0 ? absl::StrCat("\tttl_ms=", pair.ttl_ms) : "", pair.keep ? "\tkeep" : "");
  }
  JsonLine line;
  line.Bytes("key", pair.key);
  if (pair.counter.has_value()) {
    line.NumberOrBytes("counter", absl::StrCat(*pair.counter));
  } else {
    line.Bytes("value", pair.value);
  }
  if (pair.ttl_ms != 0) line.Number("ttl_ms", static_cast<uint64_t>(pair.ttl_ms));
  if (pair.keep) line.Bool("keep", true);
  if (pair.version != 0) line.Number("version", pair.version);
  return line.ToString();
}

absl::StatusOr<Pair> ParsePair(absl::string_view line, PairFormat format) {
  return format == PairFormat::kTsv ? ParseTsv(line) : ParseJson(line);
}

}  // namespace farlook::cli
