// Properties: the name=value pairs that configure YCSB, from files (-P) and the command line (-p).
#ifndef FARLOOK_BENCH_COMMON_PROPERTIES_H_
#define FARLOOK_BENCH_COMMON_PROPERTIES_H_

#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::bench {

using Properties = std::map<std::string, std::string>;

// Adds the pairs of `text`, in the format of Java's Properties.load, to *properties; the last of equal names counts.
// Supported: comments with # and !, name=value, name:value, name value, lines continued after a backslash, and escapes
// (t, n, r, f, any mark, and uXXXX below 0x80). `source` names the text in errors (INVALID_ARGUMENT, with the line's
// number).
absl::Status ParseProperties(absl::string_view text, absl::string_view source, Properties* properties);

// The same from a file. NOT_FOUND or another status that names the file if it cannot be read.
absl::Status LoadProperties(const std::string& path, Properties* properties);

// Takes typed values out of properties. After an error, reading continues and returns defaults; status() has the first
// error, which names the property, its value and what was expected. So a caller reads everything, then checks once.
//
// Thread safety: belongs to one thread. `properties` must outlive it.
class PropertyReader {
 public:
  explicit PropertyReader(const Properties* properties) : properties_(properties) {}

  bool Has(const std::string& name);
  std::string String(const std::string& name, absl::string_view fallback);
  bool Bool(const std::string& name, bool fallback);
  int64_t Int(const std::string& name, int64_t fallback, int64_t min = 0,
              int64_t max = std::numeric_limits<int64_t>::max());
  double Double(const std::string& name, double fallback, double min, double max);

  // Records an error about the value of `name`, unless there is one already.
  void Fail(const std::string& name, absl::string_view problem);

  const absl::Status& status() const { return status_; }

  // Names that were never read: the unknown ones, once all readers are done.
  std::vector<std::string> Unread() const;

 private:
  const std::string* Find(const std::string& name);

  const Properties* properties_;
  std::set<std::string> read_;
  absl::Status status_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_COMMON_PROPERTIES_H_
