#include "client/cli/pair_format.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/encoding.h"
#include "client/cli/json_line.h"
#include "nlohmann/json.hpp"

namespace farlook::cli {
namespace {

// Takes the two fields out of an object while it is parsed, without a tree of it and without exceptions. Each handler
// returns whether to go on.
class PairHandler : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return NoString("null"); }
  bool boolean(bool) override { return NoString("a boolean"); }
  bool number_integer(number_integer_t) override { return NoString("a number"); }
  bool number_unsigned(number_unsigned_t) override { return NoString("a number"); }
  bool number_float(number_float_t, const string_t&) override { return NoString("a number"); }
  bool binary(binary_t&) override { return NoString("binary"); }

  bool string(string_t& text) override {
    if (depth_ == 0) return Fail("is not an object");
    if (depth_ > 1) return true;
    if (field_ == "key") return Set(std::move(text), "key", &key_);
    if (field_ == "value") return Set(std::move(text), "value", &value_);
    if (field_ == "key_base64") return SetBase64(text, "key", &key_);
    if (field_ == "value_base64") return SetBase64(text, "value", &value_);
    return true;
  }

  bool start_object(size_t) override {
    if (depth_ > 0 && !NoString("an object")) return false;
    ++depth_;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) field_ = std::move(name);
    return true;
  }
  bool end_object() override { return Close(); }

  bool start_array(size_t) override {
    if (!NoString("an array")) return false;
    ++depth_;
    return true;
  }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Fail(absl::StrCat("is not JSON at position ", position));
  }

  absl::StatusOr<Pair> Finish() && {
    if (error_.empty() && !key_.has_value()) error_ = R"(has neither "key" nor "key_base64")";
    if (error_.empty() && !value_.has_value()) error_ = R"(has neither "value" nor "value_base64")";
    if (!error_.empty()) return absl::InvalidArgumentError(error_);
    return Pair{*std::move(key_), *std::move(value_)};
  }

 private:
  bool Fail(std::string error) {
    error_ = std::move(error);
    return false;
  }

  // A value that is not a string stands where one may have to.
  bool NoString(absl::string_view what) {
    if (depth_ == 0) return Fail(absl::StrCat("is ", what, ", not an object"));
    if (depth_ == 1 && (field_ == "key" || field_ == "value" || absl::EndsWith(field_, "_base64"))) {
      return Fail(absl::StrCat(Quoted(field_), " is ", what, ", not a string"));
    }
    return true;
  }

  bool Close() {
    --depth_;
    return true;
  }

  bool Set(std::string bytes, absl::string_view what, std::optional<std::string>* field) {
    if (field->has_value()) return Fail(absl::StrCat("gives the ", what, " twice"));
    *field = std::move(bytes);
    return true;
  }

  bool SetBase64(const std::string& text, absl::string_view what, std::optional<std::string>* field) {
    std::string bytes;
    if (!absl::Base64Unescape(text, &bytes)) return Fail(absl::StrCat(Quoted(field_), " is not base64"));
    return Set(std::move(bytes), what, field);
  }

  int64_t depth_ = 0;
  std::string field_;
  std::optional<std::string> key_;
  std::optional<std::string> value_;
  std::string error_;
};

absl::StatusOr<Pair> ParseJson(absl::string_view line) {
  PairHandler handler;
  nlohmann::json::sax_parse(line.begin(), line.end(), &handler);
  return std::move(handler).Finish();
}

absl::StatusOr<Pair> ParseTsv(absl::string_view line) {
  // FormatPair() escapes it: this one is of an editor that ends lines in its own way.
  absl::ConsumeSuffix(&line, "\r");
  const size_t tab = line.find('\t');
  if (tab == absl::string_view::npos) return absl::InvalidArgumentError("has no tab between key and value");
  if (line.find('\t', tab + 1) != absl::string_view::npos) {
    return absl::InvalidArgumentError("has a second tab: write a tab within a key or value as \\t");
  }
  absl::StatusOr<std::string> key = Unescape(line.substr(0, tab));
  if (!key.ok()) return absl::InvalidArgumentError(absl::StrCat("key: ", key.status().message()));
  absl::StatusOr<std::string> value = Unescape(line.substr(tab + 1));
  if (!value.ok()) return absl::InvalidArgumentError(absl::StrCat("value: ", value.status().message()));
  return Pair{*std::move(key), *std::move(value)};
}

}  // namespace

absl::StatusOr<PairFormat> ParsePairFormat(absl::string_view name) {
  if (name == "json") return PairFormat::kJson;
  if (name == "tsv") return PairFormat::kTsv;
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is none of json, tsv"));
}

std::string FormatPair(absl::string_view key, absl::string_view value, uint64_t version, PairFormat format) {
  if (format == PairFormat::kTsv) return absl::StrCat(Escape(key), "\t", Escape(value));
  return JsonLine().Bytes("key", key).Bytes("value", value).Number("version", version).ToString();
}

absl::StatusOr<Pair> ParsePair(absl::string_view line, PairFormat format) {
  return format == PairFormat::kTsv ? ParseTsv(line) : ParseJson(line);
}

}  // namespace farlook::cli
