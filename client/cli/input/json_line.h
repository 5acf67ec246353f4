// One JSON object on one line. Bytes that are not UTF-8 are not JSON: they are written as base64 under another name.
#ifndef FARLOOK_CLIENT_CLI_INPUT_JSON_LINE_H_
#define FARLOOK_CLIENT_CLI_INPUT_JSON_LINE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farlook::cli {

// Builds an object, with its fields in the order in which they were added.
class JsonLine {
 public:
  // Adds `bytes` as "name", or as "name_base64" if `bytes` is not UTF-8.
  JsonLine& Bytes(absl::string_view name, absl::string_view bytes);
  JsonLine& Number(absl::string_view name, uint64_t number);
  JsonLine& Number(absl::string_view name, double number);
  JsonLine& Bool(absl::string_view name, bool value);
  // Adds `text` as the number that it is, with the same digits, else like Bytes(). "1e5" is no number: it may be
  // hexadecimal.
  JsonLine& NumberOrBytes(absl::string_view name, absl::string_view text);
  JsonLine& Object(absl::string_view name, const JsonLine& object);

  std::string ToString() const { return text_ + "}"; }

 private:
  void Name(absl::string_view name);

  std::string text_ = "{";
};

}  // namespace farlook::cli

#endif  // FARLOOK_CLIENT_CLI_INPUT_JSON_LINE_H_
