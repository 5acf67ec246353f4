/* Many keys in one call, overlapped: a part of farlook.h, which includes it.
 *
 * A batch consists of columns: the i-th elements of all arrays belong to one key. Unless `count` is 0, columns must not
 * be NULL except where stated. Results for a key are written even if it failed. `codes` contains FARLOOK_OK, or what
 * the call for that key alone would have returned. The call returns FARLOOK_OK if each key was processed or is absent,
 * else the first other error, which farlook_error() describes; the rest is executed nevertheless. Options apply to each
 * key, the timeout to the whole call. Writes of one key take effect in their order. */
#ifndef FARLOOK_C_BATCHES_H_
#define FARLOOK_C_BATCHES_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct farlook_client;
struct farlook_options;
struct farlook_value;

/* Reads the value of keys[i] into buffers[i], of length buffer_bytes[i]. value_bytes[i] is the value's length, also
 * with FARLOOK_OUT_OF_RANGE: the buffer is too short. `versions` may be NULL. */
int farlook_get_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                     const struct farlook_options* options, void* const* buffers, const size_t* buffer_bytes,
                     size_t* value_bytes, uint64_t* versions, int* codes);
/* The same into handles, which must all be different. Those of absent keys become empty. */
int farlook_get_many_values(struct farlook_client* client, size_t count, const void* const* keys,
                            const size_t* key_bytes, const struct farlook_options* options,
                            struct farlook_value* const* values, int* codes);
/* `versions` (the new ones) may be NULL. */
int farlook_put_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                     const void* const* values, const size_t* value_bytes, const struct farlook_options* options,
                     uint64_t* versions, int* codes);
int farlook_delete_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                        const struct farlook_options* options, int* codes);
int farlook_touch_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                       int64_t ttl_ms, const struct farlook_options* options, int* codes);
/* FARLOOK_OK or FARLOOK_NOT_FOUND for each. */
int farlook_exists_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                        const struct farlook_options* options, int* codes);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_BATCHES_H_ */
