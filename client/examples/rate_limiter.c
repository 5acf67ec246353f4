/* A limit of requests in a window of time, which many processes share: a counter for each user and window, which expires
 * by itself. Over shared memory, and adapters with atomics, the server's processor has no part in it.
 *
 *   rate_limiter ADDRESS USER REQUESTS LIMIT */
#include <farlook.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kWindowSeconds = 60 };

/* Whether one more request of the user is within the limit: 1 or 0, or a negative code. */
static int allow(farlook_client* client, const char* user, int64_t limit, long window) {
  char key[128];
  const size_t bytes = (size_t)snprintf(key, sizeof key, "rate:%s:%ld", user, window);
  int64_t before = 0;
  int code = farlook_fetch_add(client, key, bytes, 1, NULL, &before);
  if (code == FARLOOK_NOT_FOUND) {
    /* The first in its window makes the counter; who comes at the same time adds to it. */
    farlook_options* options = farlook_options_new();
    farlook_options_set(options, "ttl_ms", 2 * kWindowSeconds * 1000);
    code = farlook_create_counter(client, key, bytes, 0, options, NULL);
    farlook_options_free(options);
    if (code == FARLOOK_OK || code == FARLOOK_ALREADY_EXISTS)
      code = farlook_fetch_add(client, key, bytes, 1, NULL, &before);
  }
  return code != FARLOOK_OK ? code : before < limit;
}

int main(int argc, char** argv) {
  farlook_client* client;
  if (argc != 5) return 2;
  if (farlook_connect(argv[1], NULL, &client) != FARLOOK_OK) return puts(farlook_error()), 1;
  int allowed = 0;
  const long window = (long)(time(NULL) / kWindowSeconds);
  for (int i = atoi(argv[3]); i > 0; --i) {
    const int one = allow(client, argv[2], atoll(argv[4]), window);
    if (one < 0) return puts(farlook_error()), 1;
    allowed += one;
  }
  printf("%d allowed\n", allowed);
  farlook_close(client);
  return 0;
}
