#include "bench/stores/record.h"

namespace farlook::bench {
namespace {

void AppendNumber(size_t number, std::string* out) {
  while (number >= 0x80) {
    out->push_back(static_cast<char>(number | 0x80));
    number >>= 7;
  }
  out->push_back(static_cast<char>(number));
}

// Takes a number off the front of *in. Returns false if there is none, or it has more than five bytes (35 bits).
bool TakeNumber(absl::string_view* in, size_t* number) {
  *number = 0;
  for (int shift = 0; shift < 35 && !in->empty(); shift += 7) {
    const uint8_t byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *number |= static_cast<size_t>(byte & 0x7f) << shift;
    if ((byte & 0x80) == 0) return true;
  }
  return false;
}

}  // namespace

void EncodeRecord(absl::Span<const absl::string_view> fields, std::string* record) {
  record->clear();
  AppendNumber(fields.size(), record);
  for (absl::string_view field : fields) AppendNumber(field.size(), record);
  for (absl::string_view field : fields) record->append(field.data(), field.size());
}

bool DecodeRecord(absl::string_view record, std::vector<absl::string_view>* fields) {
  size_t count;
  absl::string_view lengths = record;
  if (!TakeNumber(&lengths, &count) || count > kMaxFields || count > lengths.size()) return false;

  // Two passes over the lengths: the first finds the beginning of the bytes.
  absl::string_view bytes = lengths;
  for (size_t i = 0; i < count; ++i) {
    size_t unused;
    if (!TakeNumber(&bytes, &unused)) return false;
  }
  fields->resize(count);
  for (absl::string_view& field : *fields) {
    size_t length;
    if (!TakeNumber(&lengths, &length) || length > bytes.size()) return false;
    field = bytes.substr(0, length);
    bytes.remove_prefix(length);
  }
  return bytes.empty();
}

bool PatchRecord(absl::string_view record, absl::Span<const FieldWrite> writes, std::string* patched) {
  std::vector<absl::string_view> fields;
  if (!DecodeRecord(record, &fields)) return false;
  for (const FieldWrite& write : writes) {
    if (write.field >= fields.size()) return false;
    fields[write.field] = write.bytes;
  }
  EncodeRecord(fields, patched);
  return true;
}

}  // namespace farlook::bench
