/* Counters, numbers that clients change in place: a part of farlook.h, which includes it. farlook/client.h describes
 * their guarantees and the meaning of codes. */
#ifndef FARLOOK_C_COUNTERS_H_
#define FARLOOK_C_COUNTERS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct farlook_client;
struct farlook_options;

/* `*value`, here and below, is the counter's value before the call, or its initial value; also with
 * FARLOOK_OUT_OF_RANGE and FARLOOK_ALREADY_EXISTS. It may be NULL, except for farlook_read_counter(). */
int farlook_create_counter(struct farlook_client* client, const void* key, size_t key_bytes, int64_t initial,
                           const struct farlook_options* options, int64_t* value);
/* The options create, initial and ttl_ms control whether a counter that does not exist is created in the same step. */
int farlook_fetch_add(struct farlook_client* client, const void* key, size_t key_bytes, int64_t delta,
                      const struct farlook_options* options, int64_t* value);
/* Sets the counter to `desired` if it is `expected`: it was set if *value is `expected`. FARLOOK_OK in both cases. */
int farlook_compare_swap(struct farlook_client* client, const void* key, size_t key_bytes, int64_t expected,
                         int64_t desired, const struct farlook_options* options, int64_t* value);
int farlook_read_counter(struct farlook_client* client, const void* key, size_t key_bytes,
                         const struct farlook_options* options, int64_t* value);
int farlook_delete_counter(struct farlook_client* client, const void* key, size_t key_bytes,
                           const struct farlook_options* options, int64_t* value);

/* Batches, as in farlook/c_batches.h. `values` may be NULL, except for farlook_read_counter_many(). */
int farlook_create_counter_many(struct farlook_client* client, size_t count, const void* const* keys,
                                const size_t* key_bytes, const int64_t* initials, const struct farlook_options* options,
                                int64_t* values, int* codes);
int farlook_fetch_add_many(struct farlook_client* client, size_t count, const void* const* keys,
                           const size_t* key_bytes, const int64_t* deltas, const struct farlook_options* options,
                           int64_t* values, int* codes);
int farlook_read_counter_many(struct farlook_client* client, size_t count, const void* const* keys,
                              const size_t* key_bytes, const struct farlook_options* options, int64_t* values,
                              int* codes);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_COUNTERS_H_ */
