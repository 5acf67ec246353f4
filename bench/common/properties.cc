#include "bench/common/properties.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farlook::bench {
namespace {

constexpr absl::string_view kSpaces = " \t\f\r";

// Takes one escape sequence, after its backslash, off the front of *in. Returns false if it is malformed or not ASCII.
bool TakeEscape(absl::string_view* in, char* out) {
  const char kind = in->front();
  in->remove_prefix(1);
  switch (kind) {
    case 't':
      *out = '\t';
      return true;
    case 'n':
      *out = '\n';
      return true;
    case 'r':
      *out = '\r';
      return true;
    case 'f':
      *out = '\f';
      return true;
    case 'u': {
      uint32_t code;
      if (in->size() < 4 || !absl::SimpleHexAtoi(in->substr(0, 4), &code) || code >= 0x80) return false;
      in->remove_prefix(4);
      *out = static_cast<char>(code);
      return true;
    }
    default:
      *out = kind;
      return true;
  }
}

// Moves characters from *in to *out until one of `stops` (which stays) or the end.
bool TakeUntil(absl::string_view stops, absl::string_view* in, std::string* out) {
  while (!in->empty() && stops.find(in->front()) == absl::string_view::npos) {
    char c = in->front();
    in->remove_prefix(1);
    if (c == '\\' && (in->empty() || !TakeEscape(in, &c))) return false;
    out->push_back(c);
  }
  return true;
}

void SkipSpaces(absl::string_view* in) {
  while (!in->empty() && kSpaces.find(in->front()) != absl::string_view::npos) in->remove_prefix(1);
}

bool ParsePair(absl::string_view line, std::string* name, std::string* value) {
  if (!TakeUntil(" \t\f\r=:", &line, name)) return false;
  SkipSpaces(&line);
  if (!line.empty() && (line.front() == '=' || line.front() == ':')) line.remove_prefix(1);
  SkipSpaces(&line);
  // Java keeps spaces at the end of a value; then "true " would not be true. They are dropped here.
  line = absl::StripTrailingAsciiWhitespace(line);
  return !name->empty() && TakeUntil("", &line, value);
}

// Returns true if an odd number of backslashes ends the line: it continues in the next.
bool IsContinued(absl::string_view line) {
  size_t backslashes = 0;
  while (backslashes < line.size() && line[line.size() - 1 - backslashes] == '\\') ++backslashes;
  return backslashes % 2 == 1;
}

}  // namespace

absl::Status ParseProperties(absl::string_view text, absl::string_view source, Properties* properties) {
  std::string logical;
  int number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    absl::string_view line = text.substr(0, end);
    text = end == absl::string_view::npos ? absl::string_view() : text.substr(end + 1);
    ++number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    SkipSpaces(&line);
    if (logical.empty() && (line.empty() || line.front() == '#' || line.front() == '!')) continue;
    absl::StrAppend(&logical, line);
    if (IsContinued(logical)) {
      logical.pop_back();
      if (!text.empty()) continue;
    }
    std::string name, value;
    if (!ParsePair(logical, &name, &value)) {
      return absl::InvalidArgumentError(absl::StrCat(source, ":", number, ": not a property: ", logical));
    }
    (*properties)[name] = value;
    logical.clear();
  }
  return absl::OkStatus();
}

absl::Status LoadProperties(const std::string& path, Properties* properties) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  // A directory can be opened but not read.
  if (!file || !(file.peek() == std::ifstream::traits_type::eof() || text << file.rdbuf()) || file.bad()) {
    const int error = errno == 0 ? EISDIR : errno;
    return absl::Status(absl::ErrnoToStatusCode(error),
                        absl::StrCat("cannot read the properties file ", path, ": ", std::strerror(error)));
  }
  return ParseProperties(text.str(), path, properties);
}

const std::string* PropertyReader::Find(const std::string& name) {
  read_.insert(name);
  const auto found = properties_->find(name);
  return found == properties_->end() ? nullptr : &found->second;
}

bool PropertyReader::Has(const std::string& name) { return Find(name) != nullptr; }

void PropertyReader::Fail(const std::string& name, absl::string_view problem) {
  if (!status_.ok()) return;
  const std::string* value = Find(name);
  status_ = absl::InvalidArgumentError(value == nullptr ? absl::StrCat("property ", name, " ", problem)
                                                        : absl::StrCat("property ", name, "=", *value, " ", problem));
}

std::string PropertyReader::String(const std::string& name, absl::string_view fallback) {
  const std::string* value = Find(name);
  return value == nullptr ? std::string(fallback.data(), fallback.size()) : *value;
}

bool PropertyReader::Bool(const std::string& name, bool fallback) {
  const std::string* value = Find(name);
  if (value == nullptr) return fallback;
  if (absl::EqualsIgnoreCase(*value, "true")) return true;
  if (!absl::EqualsIgnoreCase(*value, "false")) Fail(name, "is neither true nor false");
  return false;
}

int64_t PropertyReader::Int(const std::string& name, int64_t fallback, int64_t min, int64_t max) {
  const std::string* value = Find(name);
  if (value == nullptr) return fallback;
  int64_t number;
  if (!absl::SimpleAtoi(*value, &number)) {
    Fail(name, "is not a whole number of 64 bits");
    return fallback;
  }
  if (number < min || number > max) {
    Fail(name, max == std::numeric_limits<int64_t>::max() ? absl::StrCat("is below ", min)
                                                          : absl::StrCat("is not between ", min, " and ", max));
    return fallback;
  }
  return number;
}

double PropertyReader::Double(const std::string& name, double fallback, double min, double max) {
  const std::string* value = Find(name);
  if (value == nullptr) return fallback;
  double number;
  if (!absl::SimpleAtod(*value, &number) || !std::isfinite(number)) {
    Fail(name, "is not a number");
    return fallback;
  }
  if (number < min || number > max) {
    Fail(name, absl::StrCat("is not between ", min, " and ", max));
    return fallback;
  }
  return number;
}

std::vector<std::string> PropertyReader::Unread() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : *properties_) {
    if (read_.count(name) == 0) names.push_back(name);
  }
  return names;
}

}  // namespace farlook::bench
