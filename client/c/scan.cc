// Scans.
#include "farlook/scan.h"

#include <cstddef>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "client/c/handles.h"

struct farlook_scanner {
  farlook_client* client;
  farlook::Scanner scanner;
  std::string cursor = {};  // returned by farlook_scan_cursor()
  bool busy = false;        // a call waits for the server: while_waiting() may have the client used, but not this
};

// NOLINTNEXTLINE(google-build-using-namespace): what follows has C's names
using namespace farlook::c;

extern "C" {

int farlook_scan(farlook_client* client, const void* prefix, size_t prefix_bytes, const farlook_options* options,
                 farlook_scanner** scanner) {
  return GuardedWith(client, [&] {
    if (scanner == nullptr) return Invalid("the pointer to the scanner is NULL");
    *scanner = nullptr;
    if (const int code = Check(client); code != FARLOOK_OK) return code;
    if (prefix == nullptr && prefix_bytes > 0) return Invalid("the prefix is NULL");
    if (const int code = CheckOptions(options, kFarlookTimeout | kFarlookScan); code != FARLOOK_OK) return code;
    farlook::ScanOptions scan;
    if (options != nullptr) {
      scan = options->scan;
      if ((options->set & kFarlookTimeout) != 0) scan.timeout_ms = options->connect.timeout_ms;
    }
    const absl::string_view text = Bytes(prefix, prefix_bytes);
    scan.prefix.assign(text.data(), text.size());
    *scanner = new farlook_scanner{.client = client, .scanner = farlook::Scanner(client->client.get(), scan)};
    return 0;
  });
}

int farlook_scan_next(farlook_scanner* scanner, farlook_item* item) {
  if (scanner == nullptr || item == nullptr) return Invalid("the scanner, or the item, is NULL");
  return GuardedWith(scanner->client, [&] {
    if (const int code = Check(scanner->client); code != FARLOOK_OK) return code;
    if (scanner->busy) {
      return Fail(absl::StatusCode::kFailedPrecondition, "another call is using the scanner");
    }
    farlook::ScannedItem found;
    scanner->busy = true;
    const auto idle = absl::MakeCleanup([scanner] { scanner->busy = false; });
    const absl::StatusOr<bool> more = scanner->scanner.Next(&found);
    if (!more.ok()) return Fail(more.status());
    if (!*more) return 0;
    *item = {.key = found.key.data(),
             .key_bytes = found.key.size(),
             .value = found.value.empty() ? "" : found.value.data(),
             .value_bytes = found.value.size(),
             .item_bytes = found.value_bytes,
             .version = found.version,
             .left_ms = found.left_ms,
             .keep = found.keep ? 1 : 0,
             .counter = found.counter ? 1 : 0};
    return 1;
  });
}

const char* farlook_scan_cursor(farlook_scanner* scanner) {
  if (scanner == nullptr) return "";
  return GuardedOr<const char*>("", [&] {
    scanner->cursor = scanner->scanner.cursor();
    return scanner->cursor.c_str();
  });
}

double farlook_scan_progress(const farlook_scanner* scanner) {
  return scanner != nullptr ? scanner->scanner.progress() : 0;
}

void farlook_scanner_free(farlook_scanner* scanner) { delete scanner; }

}  // extern "C"
