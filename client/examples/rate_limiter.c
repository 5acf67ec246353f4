/* A limit of requests in a window of time, shared by many processes: a counter for each user and window, which expires
 * by itself. Over shared memory, and adapters with atomics, it needs no CPU of the server.
 *
 *   rate_limiter ADDRESS USER REQUESTS LIMIT
 */
#include <farlook.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kWindowSeconds = 60 };

/* Returns 1 if one more request of the user is within the limit, else 0; or a negative code. */
static int allow(farlook_client* client, const farlook_options* create, const char* user, int64_t limit, long window) {
  char key[128];
  const size_t bytes = (size_t)snprintf(key, sizeof key, "rate:%s:%ld", user, window);
  int64_t before = 0;
  const int code = farlook_fetch_add(client, key, bytes, 1, create, &before);
  return code != FARLOOK_OK ? code : before < limit;
}

int main(int argc, char** argv) {
  farlook_client* client;
  if (argc != 5) {
    fprintf(stderr, "usage: rate_limiter ADDRESS USER REQUESTS LIMIT, as shm:///run/farlook/kv ann 12 10\n");
    return 2;
  }
  if (farlook_connect(argv[1], NULL, &client) != FARLOOK_OK) return fprintf(stderr, "%s\n", farlook_error()), 1;
  /* The first request of a window creates its counter, in the same step. */
  farlook_options* create = farlook_options_new();
  farlook_options_set(create, "create", 1);
  farlook_options_set(create, "ttl_ms", 2 * kWindowSeconds * 1000);
  int allowed = 0;
  const long window = (long)(time(NULL) / kWindowSeconds);  // wall clock: the same window for all
  for (int i = atoi(argv[3]); i > 0; --i) {
    const int one = allow(client, create, argv[2], atoll(argv[4]), window);
    if (one < 0) return fprintf(stderr, "%s\n", farlook_error()), 1;
    allowed += one;
  }
  printf("%d allowed\n", allowed);
  farlook_options_free(create);
  farlook_close(client);
  return 0;
}
