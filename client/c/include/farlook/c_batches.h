/* Many keys in one call, overlapped: a part of farlook.h, which includes it.
 *
 * A batch is columns: the i-th elements of all arrays are of one key. `keys` and `key_bytes` may not be NULL unless
 * `count` is 0, nor may what is not said to be; what a call gives out of one key is written whether or not it
 * succeeded, and `codes` tells: FARLOOK_OK, or what the call for that key alone would have returned. The call returns
 * FARLOOK_OK if each key was dealt with or is absent, else the first other error, of which farlook_error() tells; the
 * rest is done all the same. Options hold for each key alike, the time for the whole call. Writes of one key take
 * effect in their order. */
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

/* Reads the value of keys[i] into buffers[i], which has buffer_bytes[i]. Its length comes to value_bytes[i], also with
 * FARLOOK_OUT_OF_RANGE: too short a buffer. `versions` may be NULL. */
int farlook_get_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                     const struct farlook_options* options, void* const* buffers, const size_t* buffer_bytes,
                     size_t* value_bytes, uint64_t* versions, int* codes);
/* The same into handles, all of them different. Those of keys that are not found are empty. */
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
/* FARLOOK_OK or FARLOOK_NOT_FOUND of each. */
int farlook_exists_many(struct farlook_client* client, size_t count, const void* const* keys, const size_t* key_bytes,
                        const struct farlook_options* options, int* codes);

#ifdef __cplusplus
}
#endif

#endif /* FARLOOK_C_BATCHES_H_ */
