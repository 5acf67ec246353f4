/* Operations that do not wait: a part of farlook.h, which includes it.
 *
 *     farlook_operation* get = farlook_operation_new();
 *     farlook_prepare_get(get, "key", 3, NULL);
 *     farlook_start(client, &get, 1);
 *     while (farlook_in_flight(client) > 0) {
 *       farlook_operation* done[16];
 *       for (int i = farlook_wait(client, done, 16); i > 0; --i) use(done[i - 1]);
 *     }
 *
 * An operation is prepared, started, in flight until farlook_poll() or farlook_wait() gives it back, and may then be
 * started again as it is, or prepared anew. It copies its key; memory that it was told of (a value to put, a buffer)
 * stays where it is and is not changed while the operation is in flight. It is no client's until it is started. In what
 * order operations take effect that are in flight together: farlook/async.h.
 *
 * While an operation is in flight, to prepare, start or free it is FARLOOK_FAILED_PRECONDITION and does nothing. */
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
int farlook_operation_free(farlook_operation* operation); /* which may be NULL */

/* Say what an operation will do. Keys, options and errors as in the calls of the same names, but for what the key is,
 * which the operation finds out. */
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
/* The server's figures, those of farlook_server_stats(), from line `from_line` on: as many lines as one answer has room
 * for, for farlook_operation_data(). farlook_operation_number(): how many more there are; none: all were told. */
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

/* Starts them, with their first READs posted together. Fails, and starts none, if one of them is NULL, not prepared
 * (FARLOOK_INVALID_ARGUMENT), in flight already or there twice (FARLOOK_FAILED_PRECONDITION). */
int farlook_start(struct farlook_client* client, farlook_operation* const* operations, size_t count);
/* Makes progress, never waits. Gives back operations that have ended, `room` at most, in that order, and returns how
 * many; or a negative code. */
int farlook_poll(struct farlook_client* client, farlook_operation** done, size_t room);
/* The same, but waits until there is one to give back, or nothing is in flight. `room` may not be 0. */
int farlook_wait(struct farlook_client* client, farlook_operation** done, size_t room);
/* Started and not given back; 0 for what is no client of this process. */
size_t farlook_in_flight(struct farlook_client* client);

/* To sleep in one's own loop while operations are in flight: if farlook_arm() returns 1, wait until farlook_fd() is
 * readable or farlook_wait_ms() milliseconds are over (-1: no limit), then poll. If it returns 0 there is something to
 * poll already. The descriptor is the client's, the same as long as it lives. farlook_wait_ms() is 0 for what is no
 * client of this process. */
int farlook_arm(struct farlook_client* client);
int farlook_fd(struct farlook_client* client);
int64_t farlook_wait_ms(struct farlook_client* client);

/* How it ended, and what came of it. 1: it has not ended since it was prepared. The others mean something only after
 * FARLOOK_OK, unless the calls of the same names say otherwise, and are 0 where there is nothing to tell. */
int farlook_operation_code(const farlook_operation* operation);
const char* farlook_operation_error(const farlook_operation* operation); /* the operation's own; never NULL */
const void* farlook_operation_data(const farlook_operation* operation);  /* until it is started or prepared anew */
size_t farlook_operation_bytes(const farlook_operation* operation);      /* the value's, also of one in a buffer */
uint64_t farlook_operation_version(const farlook_operation* operation);
/* A counter's value before; of ttl: left_ms; of the server's figures: lines that are left. */
int64_t farlook_operation_number(const farlook_operation* operation);

/* The caller's own pointer, at which the library does not look. */
void farlook_operation_set_tag(farlook_operation* operation, void* tag);
void* farlook_operation_tag(const farlook_operation* operation);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_OPERATIONS_H_ */
