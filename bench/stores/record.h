// A YCSB record (fields field0 to fieldN-1) as one value of a key-value store.
//
// Names of fields are their numbers, so only lengths are stored. Numbers are LEB128: 7 bits a byte, lowest first, the
// top bit set on all bytes but the last.
//
//     +-------+----------+-----+------------+----------------+-----+------------------+
//     | count | length 0 | ... | length N-1 | bytes of field0| ... | bytes of fieldN-1|
//     +-------+----------+-----+------------+----------------+-----+------------------+
//
//     worked example: field0 = "ab", field1 = "", field2 = "c"      03 02 00 01 61 62 63
//
// The standard record of 10 fields of 100 bytes has 1,011 bytes. Field lengths differ if fieldlengthdistribution is not
// constant, hence one length for each field. A record from a store is not trusted: Decode checks all of it.
#ifndef FARLOOK_BENCH_STORES_RECORD_H_
#define FARLOOK_BENCH_STORES_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace farlook::bench {

inline constexpr size_t kMaxFields = 10'000;

// New contents for some fields of a record. An update of one field of ten has one.
struct FieldWrite {
  size_t field = 0;
  std::string bytes;
};

// Replaces *record by the encoding of `fields`. REQUIRES: fields.size() <= kMaxFields.
void EncodeRecord(absl::Span<const absl::string_view> fields, std::string* record);

// Sets *fields to views into `record`. Returns false, with *fields unspecified, unless `record` is exactly one record.
bool DecodeRecord(absl::string_view record, std::vector<absl::string_view>* fields);

// Sets *patched to `record` with `writes` applied, in order. Returns false, with *patched unspecified, if `record` is
// not a record or lacks a field that a write names. `record` must not view *patched.
bool PatchRecord(absl::string_view record, absl::Span<const FieldWrite> writes, std::string* patched);

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_STORES_RECORD_H_
