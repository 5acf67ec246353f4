/* Sessions of a web service: eight threads log users in, look sessions up, and let unused ones expire.
 *
 *   session_store ADDRESS
 */
#include <farlook.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { kThreads = 8, kUsers = 100, kLivesMs = 60000, kShortMs = 50 };

static const char* address;

static int failed(const char* what) {
  fprintf(stderr, "%s: %s\n", what, farlook_error());
  return -1;
}

/* Each thread has its own client. Returns how many of its sessions were found, or -1. */
static int serve(int thread) {
  farlook_client* client;
  if (farlook_connect(address, NULL, &client) != FARLOOK_OK) return failed("connect");
  farlook_options* log_in = farlook_options_new();
  farlook_options_set(log_in, "if_absent", 1); /* an existing session is not taken over */
  farlook_options_set(log_in, "ttl_ms", kLivesMs);
  farlook_value* session = farlook_value_new();
  int found = 0;
  for (int user = 0; user < kUsers; ++user) {
    char key[32], value[64];
    const size_t key_bytes = (size_t)snprintf(key, sizeof key, "session:%d:%d", thread, user);
    const size_t bytes = (size_t)snprintf(value, sizeof value, "{\"user\": %d}", user);
    if (farlook_put(client, key, key_bytes, value, bytes, log_in, NULL) != FARLOOK_OK) return failed("log in");
    if (farlook_put(client, key, key_bytes, value, bytes, log_in, NULL) != FARLOOK_ALREADY_EXISTS) return failed(key);
    /* Each use extends its life. */
    if (farlook_get_and_touch(client, key, key_bytes, kLivesMs, NULL, session) != FARLOOK_OK) return failed("use");
    found += farlook_value_bytes(session) == bytes && memcmp(farlook_value_data(session), value, bytes) == 0;
    /* Every second one will not be used again. */
    if (user % 2 == 1 && farlook_touch(client, key, key_bytes, kShortMs, NULL) != FARLOOK_OK) return failed("touch");
  }
  int left = kUsers;
  while (left > kUsers / 2) {
    left = 0;
    for (int user = 0; user < kUsers; ++user) {
      char key[32];
      const size_t key_bytes = (size_t)snprintf(key, sizeof key, "session:%d:%d", thread, user);
      left += farlook_exists(client, key, key_bytes, NULL) == FARLOOK_OK;
    }
  }
  farlook_value_free(session);
  farlook_options_free(log_in);
  farlook_close(client);
  return left == kUsers / 2 ? found : failed("sessions that are used have expired");
}

static void* run(void* thread) {
  int* const number = thread;
  *number = serve(*number);
  return NULL;
}

int main(int argc, char** argv) {
  pthread_t threads[kThreads];
  int results[kThreads], sum = 0;
  if (argc != 2) return fprintf(stderr, "usage: session_store ADDRESS, as shm:///run/farlook/kv\n"), 2;
  address = argv[1];
  for (int i = 0; i < kThreads; ++i) {
    results[i] = i;
    if (pthread_create(&threads[i], NULL, run, &results[i]) != 0) return 1;
  }
  for (int i = 0; i < kThreads; ++i) {
    pthread_join(threads[i], NULL);
    sum += results[i];
  }
  printf("%d sessions were found, and half of them expired\n", sum);
  return sum == kThreads * kUsers ? 0 : 1;
}
