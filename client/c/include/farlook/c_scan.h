/* A walk through all keys: a part of farlook.h, which includes it.
 *
 *     farlook_scanner* scanner;
 *     farlook_item item;
 *     int found = farlook_scan(client, "user:", 5, options, &scanner);
 *     if (found == FARLOOK_OK) {
 *       while ((found = farlook_scan_next(scanner, &item)) > 0) use(item.key, item.key_bytes);
 *       farlook_scanner_free(scanner);
 *     }
 *     if (found < 0) puts(farlook_error());
 *
 * farlook/scan.h has the promise: which keys are returned while others write. */
#ifndef FARLOOK_C_SCAN_H_
#define FARLOOK_C_SCAN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct farlook_client;
struct farlook_options;
typedef struct farlook_scanner farlook_scanner;

/* An item. Key and value are valid until the scanner is used in another call. */
typedef struct farlook_item {
  const void* key; /* never NULL, nor is the value */
  size_t key_bytes;
  const void* value;   /* of no bytes unless the option `values` is 1; of a counter always */
  size_t value_bytes;  /* of `value` */
  uint64_t item_bytes; /* length of the item's value, also if `value` was not asked for; 0 for a counter */
  uint64_t version;
  int64_t left_ms; /* until it expires, or FARLOOK_FOREVER */
  int keep;        /* 1: stored with the option `keep` */
  int counter;     /* 1: farlook_read_counter() returns its number */
} farlook_item;

/* Begins a scan of the keys with a prefix, which may have no bytes: all keys. It READs nothing yet. Options, which are
 * copied: values, limit, min_value_bytes, max_value_bytes, only_expiring, batch_bytes, bytes_per_s, cursor, timeout_ms.
 * *scanner is NULL unless this succeeds. */
int farlook_scan(struct farlook_client* client, const void* prefix, size_t prefix_bytes,
                 const struct farlook_options* options, farlook_scanner** scanner);
/* Returns 1, and sets *item to the next item; 0 at the end, or after `limit` items; or a negative code. After a
 * negative code the call may be repeated: it continues from where it was. FARLOOK_FAILED_PRECONDITION: while_waiting()
 * led to it while another call with this scanner waits. */
int farlook_scan_next(farlook_scanner* scanner, farlook_item* item);
/* Returns a short printable text for the option `cursor` of another scan, also of another client, which continues after
 * the last item that was returned; "end" after the end; "" before the first item, or if memory ran out: from the
 * beginning. Valid until the scanner is used in another call. Never NULL. */
const char* farlook_scan_cursor(farlook_scanner* scanner);
/* Returns the part of the scan that is done: from 0 to 1. */
double farlook_scan_progress(const farlook_scanner* scanner);
/* May be called after farlook_close(); the others must not. `scanner` may be NULL. */
void farlook_scanner_free(farlook_scanner* scanner);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_SCAN_H_ */
