/* Asynchronous operations: a part of farlook.h, which includes it.
 *
 *     farlook_operation* get = farlook_operation_new();
 *     farlook_prepare_get(get, "key", 3, NULL);
 *     farlook_start(client, &get, 1);
 *     while (farlook_in_flight(client) > 0) {
 *       farlook_operation* done[16];
 *       for (int i = farlook_wait(client, done, 16); i > 0; --i) use(done[i - 1]);
 *     }
 *
 * An operation is prepared and started. It is in flight until farlook_poll() or farlook_wait() returns it. Then it may
 * be started again unchanged, or prepared again. It copies its key. Other memory (a value to put, a buffer) must stay
 * valid and unchanged while the operation is in flight. It belongs to no client until it is started. farlook/async.h
 * describes the order in which concurrent operations take effect.
 *
 * While an operation is in flight, preparing, starting or freeing it is FARLOOK_FAILED_PRECONDITION, without effect. */
#ifndef FARLOOK_C_OPERATIONS_H_
#define FARLOOK_C_OPERATIONS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct farlook_client;
struct farlook_options;
typedef struct farlook_operation farlook_operation;

farlook_operation* farlook_operation_new(void);           /* NULL: out of memory */
int farlook_operation_free(farlook_operation* operation); /* may be NULL */

/* Prepare an operation. Keys, options and errors are those of the calls with the same names, except errors about the
 * key's kind, which the operation itself returns. */
int farlook_prepare_get(farlook_operation* operation, const void* key, size_t key_bytes,
                        const struct farlook_options* options); /* for farlook_operation_data() */
int farlook_prepare_get_into(farlook_operation* operation, const void* key, size_t key_bytes,
                             const struct farlook_options* options, void* buffer, size_t buffer_bytes);
int farlook_prepare_exists(farlook_operation* operation, const void* key, size_t key_bytes,
                           const struct farlook_options* options);
int farlook_prepare_put(farlook_operation* operation, const void* key, size_t key_bytes, const void* value,
                        size_t value_bytes, const struct farlook_options* options);
int farlook_prepare_delete(farlook_operation* operation, const void* key, size_t key_bytes,
                           const struct farlook_options* options);
int farlook_prepare_touch(farlook_operation* operation, const void* key, size_t key_bytes, int64_t ttl_ms,
                          const struct farlook_options* options);
int farlook_prepare_persist(farlook_operation* operation, const void* key, size_t key_bytes,
                            const struct farlook_options* options);
int farlook_prepare_ttl(farlook_operation* operation, const void* key, size_t key_bytes,
                        const struct farlook_options* options);
int farlook_prepare_get_and_touch(farlook_operation* operation, const void* key, size_t key_bytes, int64_t ttl_ms,
                                  const struct farlook_options* options); /* for farlook_operation_data() */
int farlook_prepare_ping(farlook_operation* operation, const struct farlook_options* options);
int farlook_prepare_warm(farlook_operation* operation, const struct farlook_options* options);
/* The server's statistics as in farlook_server_stats(), from line `from_line` on: as many lines as fit in a reply, for
 * farlook_operation_data(). farlook_operation_number(): how many lines remain; 0: none. */
int farlook_prepare_server_stats(farlook_operation* operation, uint64_t from_line,
                                 const struct farlook_options* options);
int farlook_prepare_create_counter(farlook_operation* operation, const void* key, size_t key_bytes, int64_t initial,
                                   const struct farlook_options* options);
int farlook_prepare_fetch_add(farlook_operation* operation, const void* key, size_t key_bytes, int64_t delta,
                              const struct farlook_options* options);
int farlook_prepare_compare_swap(farlook_operation* operation, const void* key, size_t key_bytes, int64_t expected,
                                 int64_t desired, const struct farlook_options* options);
int farlook_prepare_read_counter(farlook_operation* operation, const void* key, size_t key_bytes,
                                 const struct farlook_options* options);
int farlook_prepare_delete_counter(farlook_operation* operation, const void* key, size_t key_bytes,
                                   const struct farlook_options* options);

/* Starts operations, with their first READs posted together. Fails, and starts none, if one of them is NULL or not
 * prepared (FARLOOK_INVALID_ARGUMENT), or in flight or listed twice (FARLOOK_FAILED_PRECONDITION). */
int farlook_start(struct farlook_client* client, farlook_operation* const* operations, size_t count);
/* Makes progress, never waits. Stores operations that have ended, at most `room`, in that order, and returns their
 * number, or a negative code. */
int farlook_poll(struct farlook_client* client, farlook_operation** done, size_t room);
/* The same, but waits until there is one to return, or nothing is in flight. `room` must not be 0. */
int farlook_wait(struct farlook_client* client, farlook_operation** done, size_t room);
/* Returns the number of operations started and not returned; 0 if it is no client of this process. */
size_t farlook_in_flight(struct farlook_client* client);

/* For a caller's own loop that sleeps while operations are in flight: if farlook_arm() returns 1, wait until
 * farlook_fd() is readable or farlook_wait_ms() milliseconds have passed (-1: no limit), then poll. If it returns 0,
 * poll at once. The descriptor belongs to the client and stays the same. farlook_wait_ms() is 0 if it is no client of
 * this process. */
int farlook_arm(struct farlook_client* client);
int farlook_fd(struct farlook_client* client);
int64_t farlook_wait_ms(struct farlook_client* client);

/* The result. farlook_operation_code() is 1 if the operation has not ended since it was prepared. The others are
 * defined only after FARLOOK_OK, unless the calls of the same names say otherwise, and are 0 if not applicable. */
int farlook_operation_code(const farlook_operation* operation);
const char* farlook_operation_error(const farlook_operation* operation); /* owned by the operation; never NULL */
const void* farlook_operation_data(const farlook_operation* operation);  /* until it is started or prepared again */
size_t farlook_operation_bytes(const farlook_operation* operation);      /* of the value, also in a buffer */
uint64_t farlook_operation_version(const farlook_operation* operation);
/* A counter's value before; for ttl: left_ms; for the server's statistics: number of remaining lines. */
int64_t farlook_operation_number(const farlook_operation* operation);

/* The caller's own pointer, which the library does not use. */
void farlook_operation_set_tag(farlook_operation* operation, void* tag);
void* farlook_operation_tag(const farlook_operation* operation);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_OPERATIONS_H_ */
