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
 * What each call promises is what farlook/client.h says of the C++ call of its name; this says what C adds. Batches are
 * in farlook/c_batches.h, counters in farlook/c_counters.h, operations that do not wait in farlook/c_operations.h; this
 * includes all of them.
 *
 * Codes. What returns int returns FARLOOK_OK or a negative code, unless it says otherwise; then farlook_error() tells
 * this thread what happened. What a call gives out through pointers means something only with FARLOOK_OK, unless it
 * says otherwise.
 *
 * NULL. Client and key may not be NULL, nor may a handle; these are FARLOOK_INVALID_ARGUMENT, and nothing is done.
 * `options` may always be NULL: all defaults. Pointers through which something is given out may be NULL where it says
 * "may be NULL". A pointer to no bytes may be NULL.
 *
 * Lifetimes. Keys, values, buffers and options are the caller's and are looked at during the call, no longer (but see
 * farlook/c_operations.h). A handle that was closed or freed may not be used again, which is not detected.
 *
 * Threads. A client belongs to one thread at a time, and so does every other handle; threads that want to work at the
 * same time have a client each. Options may be used by many at once while nobody changes them. Functions without a
 * handle may be called by any thread. The library starts no thread, and installs no signal handler.
 *
 * fork(). A client belongs to the process that connected it: in a child every call with it fails with
 * FARLOOK_FAILED_PRECONDITION, and farlook_close() does nothing, so that the parent's connection stays. Children
 * connect for themselves.
 *
 * Memory. Where an allocation fails, the call ends with FARLOOK_RESOURCE_EXHAUSTED. If that left the client in a state
 * of which nothing is known, every further call with it fails with FARLOOK_FAILED_PRECONDITION: farlook_close() it. */
#ifndef FARLOOK_H_
#define FARLOOK_H_

#include <stddef.h>
#include <stdint.h>

#include "farlook/version.h" /* FARLOOK_VERSION, of the headers; farlook_version() is the library's */

#ifdef __cplusplus
extern "C" {
#endif

/* The errors of farlook/client.h, which tells what to do about each. Later versions may know more: treat a code that
 * you do not know as FARLOOK_INTERNAL. */
enum {
  FARLOOK_OK = 0,
  FARLOOK_CANCELLED = -1, /* of an operation: its client was closed while it was in flight */
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

/* What farlook_ttl() says of an item that never expires. */
#define FARLOOK_FOREVER INT64_MAX

typedef struct farlook_client farlook_client;
typedef struct farlook_options farlook_options;
typedef struct farlook_value farlook_value;

/* The version of the library, as "1.2.3". */
const char* farlook_version(void);
/* What the last call of this thread that failed said; never NULL. It stays as it is until this thread calls
 * farlook_error() again. */
const char* farlook_error(void);
/* "NOT_FOUND", ...; "?" for what is no code. */
const char* farlook_code_name(int code);

/* Options, by name. The same object serves farlook_connect() and other calls; one that was told an option which it does
 * not know ends with FARLOOK_INVALID_ARGUMENT. A name that nobody knows, a value out of its range, or a number where
 * text is wanted, is FARLOOK_INVALID_ARGUMENT here, and changes nothing.
 *
 *   of all       timeout_ms                   of the call; 0: the client's
 *   of connect   read_only, wait_for_server   0 or 1
 *                lookups                      text: "auto", "reads" or "messages"
 *                fencing                      text: "lease" or "strict"
 *                max_in_flight, mirror_bytes, share_mirror, counter_cache_bytes, min_backoff_ms, max_backoff_ms, spin_us,
 *                liveness_ms, max_outstanding
 *                user, secret, secret_file    text
 *   of put       if_absent, if_present        1; if_version: a version, for delete too. Each takes the place of the
 *                                             one before; 0: this condition no more, another stays
 *                ttl_ms                       for farlook_create_counter() too
 *                keep_ttl, keep, refill       0 or 1
 *   of counters  exactly_once                 0 or 1
 *
 * farlook/options.h says what they mean, and their defaults. */
farlook_options* farlook_options_new(void);          /* NULL: out of memory */
void farlook_options_free(farlook_options* options); /* which may be NULL */
int farlook_options_set(farlook_options* options, const char* name, int64_t value);
int farlook_options_set_text(farlook_options* options, const char* name, const char* text);

/* Connects; *client is NULL unless this succeeds. `address`: "shm:///path", "rdma://host:port", "tcp://host:port", or
 * "auto://host:port": rdma, else tcp; or, of a cluster, "farlook://host:port,host:port/NAME". */
int farlook_connect(const char* address, const farlook_options* options, farlook_client** client);
/* Gives up what is in flight, whose operations end with FARLOOK_CANCELLED. `client` may be NULL. */
void farlook_close(farlook_client* client);

/* Memory of the library's for a value, which keeps it from one call to the next. The bytes are there until the value is
 * used in another call; what farlook_value_data() returns is not NULL. */
farlook_value* farlook_value_new(void);        /* NULL: out of memory */
void farlook_value_free(farlook_value* value); /* which may be NULL */
const void* farlook_value_data(const farlook_value* value);
size_t farlook_value_bytes(const farlook_value* value);
uint64_t farlook_value_version(const farlook_value* value);

/* Reads a value into `buffer`. *value_bytes is its length, also with FARLOOK_OUT_OF_RANGE: then the buffer is too
 * short, and its bytes mean nothing. Both pointers may be NULL. */
int farlook_get(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options, void* buffer,
                size_t buffer_bytes, size_t* value_bytes, uint64_t* version);
/* The same for a value of any length. Unless FARLOOK_OK, *value is empty. */
int farlook_get_value(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                      farlook_value* value);
/* FARLOOK_OK: the key is there; FARLOOK_NOT_FOUND. */
int farlook_exists(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);
/* *version: the new one; with FARLOOK_ABORTED and FARLOOK_ALREADY_EXISTS that of the item there. It may be NULL. */
int farlook_put(farlook_client* client, const void* key, size_t key_bytes, const void* value, size_t value_bytes,
                const farlook_options* options, uint64_t* version);
int farlook_delete(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);

/* Expiry: from 1 ms to ten years. */
int farlook_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                  const farlook_options* options);
int farlook_persist(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options);
/* *left_ms: milliseconds that the item lives still, or FARLOOK_FOREVER. May not be NULL. */
int farlook_ttl(farlook_client* client, const void* key, size_t key_bytes, const farlook_options* options,
                int64_t* left_ms);
int farlook_get_and_touch(farlook_client* client, const void* key, size_t key_bytes, int64_t ttl_ms,
                          const farlook_options* options, farlook_value* value);

/* Memory that values are read into, and pulled from, without a copy between, where the transport can: farlook/memory.h
 * says which can. It stays mapped until it is unregistered or the client is closed. FARLOOK_ALREADY_EXISTS: a part of
 * it is registered; FARLOOK_FAILED_PRECONDITION, of farlook_unregister(): it is in use. */
int farlook_register(farlook_client* client, void* memory, size_t bytes);
int farlook_unregister(farlook_client* client, const void* memory);

/* Asks the server's CPU for an answer. */
int farlook_ping(farlook_client* client, const farlook_options* options);
/* READs the index into the mirror (the options mirror_bytes and share_mirror), or as much as that holds, so that the
 * first get of a key is one READ; over shm:// it does nothing. FARLOOK_FAILED_PRECONDITION: the client has no mirror,
 * or its gets go by messages. */
int farlook_warm(farlook_client* client, const farlook_options* options);
/* The server's figures, one "name value" a line. */
int farlook_server_stats(farlook_client* client, const farlook_options* options, farlook_value* text);
/* A figure of the client's, by its name in farlook/stats.h: "gets", ... FARLOOK_NOT_FOUND: there is none of that name.
 */
int farlook_stat(farlook_client* client, const char* name, uint64_t* figure);
/* The names of these figures, from 0 on; NULL behind the last. */
const char* farlook_stat_name(size_t index);
/* A random number of the server's life; another one means that the table began empty. */
int farlook_incarnation(farlook_client* client, uint64_t* incarnation);
/* Bytes that the client has allocated. */
int farlook_memory_bytes(farlook_client* client, uint64_t* bytes);

#ifdef __cplusplus
}
#endif

#include "farlook/c_batches.h"
#include "farlook/c_counters.h"
#include "farlook/c_operations.h"

#endif /* FARLOOK_H_ */
