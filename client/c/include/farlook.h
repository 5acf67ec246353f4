/* Farlook in C: a table as an application sees it. libfarlook.so.1; pkg-config farlook; CMake Farlook::farlook.
 *
 *     farlook_client* client;
 *     if (farlook_connect("shm:///run/farlook", NULL, &client) != FARLOOK_OK) return puts(farlook_error());
 *     farlook_put(client, "key", 3, "value", 5, NULL, NULL);
 *     char buffer[64];
 *     size_t bytes;
 *     if (farlook_get(client, "key", 3, NULL, buffer, sizeof buffer, &bytes, NULL) == FARLOOK_OK) ...
 *     farlook_close(client);
 *
 * Each call behaves like the C++ call of its name, which farlook/client.h describes; this file describes what C adds.
 * Batches are in farlook/c_batches.h, counters in farlook/c_counters.h, asynchronous operations in
 * farlook/c_operations.h, scans in farlook/c_scan.h; this file includes them all.
 *
 * Codes. Functions that return int return FARLOOK_OK or a negative code, unless stated otherwise. After a negative code
 * farlook_error() returns the reason to the same thread. Results through pointers are defined only with FARLOOK_OK,
 * unless stated otherwise.
 *
 * NULL. Client, key and other handles must not be NULL: this is FARLOOK_INVALID_ARGUMENT, without effect. `options` may
 * always be NULL: all defaults. Pointers for results may be NULL where it says "may be NULL". A pointer to no bytes may
 * be NULL.
 *
 * Lifetimes. Keys, values, buffers and options belong to the caller and are used only during the call (except in
 * farlook/c_operations.h). A handle that was closed or freed must not be used again; this is not detected.
 *
 * Threads. A client belongs to one thread at a time, and so does every other handle; threads that work concurrently
 * need a client each. Options may be used by several threads at once while none changes them. Functions without a
 * handle may be called by any thread. The library starts no thread, and installs no signal handler.
 *
 * fork(). A client belongs to the process that connected it: in a child every call with it fails with
 * FARLOOK_FAILED_PRECONDITION. There farlook_close() only releases memory and descriptors; the parent's connection
 * stays open. A child must connect again.
 *
 * Memory. If an allocation fails, the call ends with FARLOOK_RESOURCE_EXHAUSTED. If that left the client in an unknown
 * state, every further call with it fails with FARLOOK_FAILED_PRECONDITION: farlook_close() it. */
#ifndef FARLOOK_H_
#define FARLOOK_H_

#include <stddef.h>
#include <stdint.h>

#include "farlook/version.h" /* FARLOOK_VERSION, of the headers; farlook_version() is the library's */

#ifdef __cplusplus
extern "C" {
#endif

/* The errors of farlook/client.h, which says what to do about each. Later versions may have more: treat an unknown code
 * as FARLOOK_INTERNAL. */
enum {
  FARLOOK_OK = 0,
  FARLOOK_CANCELLED = -1, /* the client was closed while the operation was in flight */
  FARLOOK_UNKNOWN = -2,
  FARLOOK_INVALID_ARGUMENT = -3,
  FARLOOK_DEADLINE_EXCEEDED = -4,
  FARLOOK_NOT_FOUND = -5,
  FARLOOK_ALREADY_EXISTS = -6,
  FARLOOK_PERMISSION_DENIED = -7,
  FARLOOK_RESOURCE_EXHAUSTED = -8,
  FARLOOK_FAILED_PRECONDITION = -9,
  FARLOOK_ABORTED = -10,
  FARLOOK_OUT_OF_RANGE = -11,
  FARLOOK_INTERNAL = -13,
  FARLOOK_UNAVAILABLE = -14,
  FARLOOK_DATA_LOSS = -15,
  FARLOOK_UNAUTHENTICATED = -16
};

/* Result of farlook_ttl() for an item that never expires. */
#define FARLOOK_FOREVER INT64_MAX

typedef struct farlook_client farlook_client;
typedef struct farlook_options farlook_options;
typedef struct farlook_value farlook_value;

/* Returns the version of the library, as "1.2.3". */
const char* farlook_version(void);
/* Returns the message of this thread's last failed call; never NULL. It is valid until this thread calls
 * farlook_error() again. */
const char* farlook_error(void);
/* Returns "NOT_FOUND", ...; "?" for an unknown code. */
const char* farlook_code_name(int code);

/* Options, by name. One object may be used for farlook_connect() and other calls; a call with an option that it does
 * not have ends with FARLOOK_INVALID_ARGUMENT. An unknown name, a value out of its range, or a number instead of text
 * is FARLOOK_INVALID_ARGUMENT here, without effect.
 *
 *   all calls    timeout_ms                   of the call; 0: the client's
 *   connect      read_only, wait_for_server   0 or 1
 *                lookups                      text: "auto", "reads" or "messages"
 *                fencing                      text: "lease" or "strict"
 *                max_in_flight, mirror_bytes, share_mirror, counter_cache_bytes, min_backoff_ms, max_backoff_ms,
 *                spin_us, liveness_ms, max_outstanding
 *                user, secret, secret_file    text
 *   put          if_absent, if_present        1; 0 clears this condition, but not another one
 *                if_version                   a version; 0 is the version of no item: FARLOOK_ABORTED. The last
 *                                             of these three that was set applies, also for delete. To clear a
 *                                             version set if_present to 1, then to 0
 *                ttl_ms                       also for farlook_create_counter() and for an add with create
 *                keep_ttl, keep, refill       0 or 1
 *   counters     exactly_once                 0 or 1
 *   scan         values, only_expiring        0 or 1
 *                limit, min_value_bytes, max_value_bytes, batch_bytes, bytes_per_s
 *                cursor                       text: farlook_scan_cursor() of another scan
 *   fetch_add    create                       0 or 1: a counter that does not exist is created, with
 *                initial                      this number, 0 by default
 *
 * farlook/options.h and farlook/scan.h describe their meanings and defaults. */
farlook_options* farlook_options_new(void);          /* NULL: out of memory */
void farlook_options_free(farlook_options* options); /* may be NULL */
int farlook_options_set(farlook_options* options, const char* name, int64_t value);
int farlook_options_set_text(farlook_options* options, const char* name, const char* text);
/* Set for farlook_connect(), and used by all later calls of its client. A call that waits calls
 * `while_waiting(context)` after 10 ms, and again after the number of milliseconds that it returned. A negative number
 * ends the call at once, as if its time had passed; then `while_waiting` must return negative numbers until the call
 * returns. Meanwhile other threads may use the client, one at a time, so that an interpreter can handle signals and let
 * its threads take turns. The client must not be closed before all calls have returned. `context` must outlive the
 * client. */
int farlook_options_set_while_waiting(farlook_options* options, int64_t (*while_waiting)(void* context), void* context);

/* Connects; *client is NULL unless this succeeds. `address`: "shm:///path", "rdma://host:port", "tcp://host:port",
 * "auto://host:port" (rdma, else tcp), or, for a cluster, "farlook://host:port,host:port/NAME". */
int farlook_connect(const char* address, const farlook_options* options, farlook_client** client);
/* Closes the client. Operations in flight end with FARLOOK_CANCELLED. `client` may be NULL. */
void farlook_close(farlook_client* client);

/* Memory of the library for a value, reused from one call to the next. The bytes are valid until the value is used in
 * another call; farlook_value_data() never returns NULL. */
farlook_value* farlook_value_new(void);        /* NULL: out of memory */
void farlook_value_free(farlook_value* value); /* may be NULL */
const void* farlook_value_data(const farlook_value* value);
size_t farlook_value_bytes(const farlook_value* value);
uint64_t farlook_value_version(const farlook_value* value);

/* Reads a value into `buffer`. *value_bytes is its length, also with FARLOOK_OUT_OF_RANGE: then the buffer is too
 * short, and its contents are undefined. Both pointers may be NULL. */
int farlook_get(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options, void* buffer,
                size_t buffer_bytes, size_t* value_bytes, uint64_t* version);
/* The same for a value of any length. Unless FARLOOK_OK, *value is empty. */
int farlook_get_value(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                      farlook_value* value);
/* FARLOOK_OK: the key is present; FARLOOK_NOT_FOUND: absent. */
int farlook_exists(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);
/* *version: the new one; with FARLOOK_ABORTED and FARLOOK_ALREADY_EXISTS the present item's. It may be NULL. */
int farlook_put(farlook_client* client, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                const farlook_options* options, uint64_t* version);
int farlook_delete(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);

/* Expiry: from 1 ms to ten years. */
int farlook_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                  const farlook_options* options);
int farlook_persist(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);
/* *left_ms: remaining life of the item in milliseconds, or FARLOOK_FOREVER. Must not be NULL. */
int farlook_ttl(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                int64_t* left_ms);
int farlook_get_and_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                          const farlook_options* options, farlook_value* value);

/* Registers memory that values are read into, and pulled from, without a copy, if the transport can: see
 * farlook/memory.h. It must stay mapped until it is unregistered or the client is closed. FARLOOK_ALREADY_EXISTS: a
 * part of it is registered; FARLOOK_FAILED_PRECONDITION, from farlook_unregister(): it is in use. */
int farlook_register(farlook_client* client, void* memory, size_t bytes);
int farlook_unregister(farlook_client* client, const void* memory);

/* Asks the server's CPU for a reply. */
int farlook_ping(farlook_client* client, const farlook_options* options);
/* READs the index into the mirror (options mirror_bytes and share_mirror), as far as it fits, so that the first get of
 * a key is one READ. Over shm:// it does nothing. FARLOOK_FAILED_PRECONDITION: the client has no mirror, or its gets
 * use messages. */
int farlook_warm(farlook_client* client, const farlook_options* options);
/* Returns the server's statistics, one "name value" a line. */
int farlook_server_stats(farlook_client* client, const farlook_options* options, farlook_value* text);
/* Returns a figure of the client by its name in farlook/stats.h: "gets", ... FARLOOK_NOT_FOUND: unknown name. */
int farlook_stat(farlook_client* client, const char* name, uint64_t* figure);
/* Returns the names of these figures, for indexes from 0; NULL behind the last. */
const char* farlook_stat_name(size_t index);
/* Returns the address that the client uses, and why not another, like Client::address(); "" if it is no client of this
 * process. Valid until farlook_close(). */
const char* farlook_address(const farlook_client* client);
/* A random number chosen when the server began; another number means that the table began empty. */
int farlook_incarnation(farlook_client* client, uint64_t* incarnation);
/* Bytes that the client has allocated. */
int farlook_memory_bytes(farlook_client* client, uint64_t* bytes);

#ifdef __cplusplus
}
#endif

#include "farlook/c_batches.h"
#include "farlook/c_counters.h"
#include "farlook/c_operations.h"
#include "farlook/c_scan.h"

#endif /* FARLOOK_H_ */
