/* Every call of farlook.h against a kv_server: what it does, what it gives out, and what it says of wrong input.
 *
 *   calls ADDRESS
 *
 * Plain C99, so that it is built by whatever a user has; tests/c/c_test.py builds it in four ways. */
#define _POSIX_C_SOURCE 200809L

#include <farlook.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(int line, const char* what, int code) {
  fprintf(stderr, "calls.c:%d: %s: %s, %s\n", line, what, farlook_code_name(code), farlook_error());
  exit(1);
}

#define CHECK(condition)                                             \
  do {                                                               \
    if (!(condition)) fail(__LINE__, "expected " #condition, 0);     \
  } while (0)
#define EXPECT(code, call)                                           \
  do {                                                               \
    const int code_ = (call);                                        \
    if (code_ != (code)) fail(__LINE__, #call " is no " #code, code_);\
  } while (0)
#define OK(call) EXPECT(FARLOOK_OK, call)
#define SAYS(text) CHECK(strstr(farlook_error(), text) != NULL)

#define KEY(literal) literal, sizeof(literal) - 1
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char* address;

static farlook_client* connect_to(void) {
  farlook_client* client = NULL;
  farlook_options* options = farlook_options_new();
  OK(farlook_options_set(options, "timeout_ms", 30000));
  OK(farlook_connect(address, options, &client));
  CHECK(client != NULL);
  farlook_options_free(options);
  return client;
}

static farlook_options* with(const char* name, int64_t value) {
  farlook_options* options = farlook_options_new();
  OK(farlook_options_set(options, name, value));
  return options;
}

static void test_values(farlook_client* client) {
  char buffer[16];
  size_t bytes = 99;
  uint64_t version = 1, second = 0;
  EXPECT(FARLOOK_NOT_FOUND, farlook_get(client, KEY("v"), NULL, buffer, sizeof buffer, &bytes, &version));
  CHECK(bytes == 0 && version == 0);
  SAYS("absent");
  OK(farlook_put(client, KEY("v"), "one", 3, NULL, &version));
  OK(farlook_get(client, KEY("v"), NULL, buffer, sizeof buffer, &bytes, &second));
  CHECK(bytes == 3 && memcmp(buffer, "one", 3) == 0 && version != 0 && second == version);
  OK(farlook_exists(client, KEY("v"), NULL));
  EXPECT(FARLOOK_NOT_FOUND, farlook_exists(client, KEY("w"), NULL));
  /* Too short a buffer says how long it should be. */
  EXPECT(FARLOOK_OUT_OF_RANGE, farlook_get(client, KEY("v"), NULL, buffer, 2, &bytes, &version));
  CHECK(bytes == 3 && version == 0);
  EXPECT(FARLOOK_OUT_OF_RANGE, farlook_get(client, KEY("v"), NULL, NULL, 0, &bytes, NULL));
  CHECK(bytes == 3);
  OK(farlook_get(client, KEY("v"), NULL, buffer, 3, NULL, NULL));
  /* Any bytes, and none. */
  OK(farlook_put(client, "\0\xff", 2, NULL, 0, NULL, NULL));
  OK(farlook_get(client, "\0\xff", 2, NULL, NULL, 0, &bytes, NULL));
  CHECK(bytes == 0);
  OK(farlook_delete(client, KEY("v"), NULL));
  EXPECT(FARLOOK_NOT_FOUND, farlook_delete(client, KEY("v"), NULL));

  farlook_value* value = farlook_value_new();
  CHECK(farlook_value_bytes(value) == 0 && farlook_value_data(value) != NULL);
  const size_t long_bytes = 300000;
  char* long_value = malloc(long_bytes);
  for (size_t i = 0; i < long_bytes; ++i) long_value[i] = (char)(i * 7 + i / 256);
  OK(farlook_put(client, KEY("long"), long_value, long_bytes, NULL, &version));
  OK(farlook_get_value(client, KEY("long"), NULL, value));
  CHECK(farlook_value_bytes(value) == long_bytes && farlook_value_version(value) == version);
  CHECK(memcmp(farlook_value_data(value), long_value, long_bytes) == 0);
  EXPECT(FARLOOK_OUT_OF_RANGE, farlook_get(client, KEY("long"), NULL, long_value, long_bytes - 1, &bytes, NULL));
  CHECK(bytes == long_bytes);
  EXPECT(FARLOOK_NOT_FOUND, farlook_get_value(client, KEY("w"), NULL, value));
  CHECK(farlook_value_bytes(value) == 0 && farlook_value_version(value) == 0);
  OK(farlook_delete(client, KEY("long"), NULL));
  free(long_value);
  farlook_value_free(value);
}

static void test_conditions(farlook_client* client) {
  uint64_t first, second, third;
  farlook_options* options = with("if_present", 1);
  EXPECT(FARLOOK_NOT_FOUND, farlook_put(client, KEY("c"), "x", 1, options, NULL));
  OK(farlook_options_set(options, "if_absent", 1)); /* in the place of if_present */
  OK(farlook_put(client, KEY("c"), "x", 1, options, &first));
  EXPECT(FARLOOK_ALREADY_EXISTS, farlook_put(client, KEY("c"), "y", 1, options, &second));
  CHECK(second == first);
  OK(farlook_options_set(options, "if_version", (int64_t)first));
  OK(farlook_put(client, KEY("c"), "z", 1, options, &second));
  EXPECT(FARLOOK_ABORTED, farlook_put(client, KEY("c"), "y", 1, options, &third));
  CHECK(second != first && third == second);
  EXPECT(FARLOOK_ABORTED, farlook_delete(client, KEY("c"), options));
  OK(farlook_options_set(options, "if_absent", 0)); /* which it is not */
  OK(farlook_options_set(options, "if_present", 0));
  EXPECT(FARLOOK_ABORTED, farlook_delete(client, KEY("c"), options));
  /* 0 is a version that no item has, and not the absence of a condition. */
  OK(farlook_options_set(options, "if_version", 0));
  EXPECT(FARLOOK_ABORTED, farlook_put(client, KEY("c"), "y", 1, options, &third));
  CHECK(third == second);
  EXPECT(FARLOOK_ABORTED, farlook_delete(client, KEY("c"), options));
  const void* const keys[2] = {"c", "no c"};
  const size_t key_bytes[2] = {1, 4};
  int codes[2];
  EXPECT(FARLOOK_ABORTED, farlook_put_many(client, 2, keys, key_bytes, keys, key_bytes, options, NULL, codes));
  CHECK(codes[0] == FARLOOK_ABORTED && codes[1] == FARLOOK_NOT_FOUND);
  EXPECT(FARLOOK_ABORTED, farlook_delete_many(client, 2, keys, key_bytes, options, codes));
  CHECK(codes[0] == FARLOOK_ABORTED && codes[1] == FARLOOK_NOT_FOUND);
  farlook_operation* operation = farlook_operation_new();
  OK(farlook_prepare_put(operation, KEY("c"), "y", 1, options));
  OK(farlook_start(client, &operation, 1));
  CHECK(farlook_wait(client, &operation, 1) == 1);
  EXPECT(FARLOOK_ABORTED, farlook_operation_code(operation));
  OK(farlook_operation_free(operation));
  OK(farlook_options_set(options, "if_version", (int64_t)second));
  OK(farlook_options_set(options, "if_present", 1));
  OK(farlook_options_set(options, "if_present", 0));
  OK(farlook_delete(client, KEY("c"), options)); /* without a condition */
  farlook_options_free(options);
}

static int64_t third_time_never(void* context) { return ++*(int*)context < 3 ? 1 : -1; }

static void test_a_call_that_is_given_up(void) {
  int asked = 0;
  farlook_client* client;
  farlook_options* options = with("wait_for_server", 1);
  OK(farlook_options_set(options, "timeout_ms", 600000));
  OK(farlook_options_set_while_waiting(options, third_time_never, &asked));
  EXPECT(FARLOOK_UNAVAILABLE, farlook_connect("shm:///tmp/farlook-no-such-server", options, &client));
  CHECK(asked == 3);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set_while_waiting(options, NULL, NULL));
  farlook_options_free(options);
}

static void test_expiry(farlook_client* client) {
  int64_t left = -1;
  char byte;
  farlook_value* value = farlook_value_new();
  farlook_options* options = with("ttl_ms", 3600000);
  OK(farlook_put(client, KEY("e"), "x", 1, options, NULL));
  OK(farlook_ttl(client, KEY("e"), NULL, &left));
  CHECK(left > 3000000 && left <= 3601000);
  OK(farlook_touch(client, KEY("e"), 7200000, NULL));
  OK(farlook_ttl(client, KEY("e"), NULL, &left));
  CHECK(left > 3601000 && left <= 7201000);
  OK(farlook_persist(client, KEY("e"), NULL));
  OK(farlook_ttl(client, KEY("e"), NULL, &left));
  CHECK(left == FARLOOK_FOREVER);
  OK(farlook_get_and_touch(client, KEY("e"), 1, NULL, value));
  CHECK(farlook_value_bytes(value) == 1 && farlook_value_version(value) != 0);
  int code;
  for (int i = 0; (code = farlook_get(client, KEY("e"), NULL, &byte, 1, NULL, NULL)) == FARLOOK_OK && i < 3000; ++i) {
    poll(NULL, 0, 10);
  }
  EXPECT(FARLOOK_NOT_FOUND, code);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_touch(client, KEY("e"), 0, NULL));
  EXPECT(FARLOOK_NOT_FOUND, farlook_ttl(client, KEY("e"), NULL, &left));
  farlook_options_free(options);
  farlook_value_free(value);
}

static void test_counters(farlook_client* client) {
  int64_t number = 0;
  OK(farlook_create_counter(client, KEY("n"), 5, NULL, NULL));
  EXPECT(FARLOOK_ALREADY_EXISTS, farlook_create_counter(client, KEY("n"), 6, NULL, &number));
  CHECK(number == 5);
  OK(farlook_fetch_add(client, KEY("n"), -7, NULL, &number));
  CHECK(number == 5);
  OK(farlook_compare_swap(client, KEY("n"), 9, 1, NULL, &number));
  CHECK(number == -2);
  OK(farlook_compare_swap(client, KEY("n"), -2, 100, NULL, NULL));
  farlook_options* once = with("exactly_once", 1);
  OK(farlook_fetch_add(client, KEY("n"), 1, once, &number));
  CHECK(number == 100);
  OK(farlook_read_counter(client, KEY("n"), NULL, &number));
  CHECK(number == 101);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_read_counter(client, KEY("n"), NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_fetch_add(client, KEY("n"), INT64_MAX, NULL, &number));
  EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_get(client, KEY("n"), NULL, &number, 8, NULL, NULL));
  OK(farlook_delete_counter(client, KEY("n"), NULL, &number));
  CHECK(number == 101);
  EXPECT(FARLOOK_NOT_FOUND, farlook_fetch_add(client, KEY("n"), 1, NULL, &number));
  CHECK(number == 0);

  const void* keys[3] = {"n0", "n1", "n2"};
  const size_t key_bytes[3] = {2, 2, 2};
  const int64_t initials[3] = {10, 20, 30}, deltas[3] = {1, 2, 3};
  int64_t numbers[3];
  int codes[3];
  OK(farlook_create_counter_many(client, 2, keys, key_bytes, initials, NULL, NULL, codes));
  OK(farlook_fetch_add_many(client, 3, keys, key_bytes, deltas, NULL, numbers, codes));
  CHECK(codes[0] == FARLOOK_OK && codes[1] == FARLOOK_OK && codes[2] == FARLOOK_NOT_FOUND);
  CHECK(numbers[0] == 10 && numbers[1] == 20 && numbers[2] == 0);
  OK(farlook_read_counter_many(client, 3, keys, key_bytes, NULL, numbers, codes));
  CHECK(numbers[0] == 11 && numbers[1] == 22 && codes[2] == FARLOOK_NOT_FOUND);
  EXPECT(FARLOOK_ALREADY_EXISTS, farlook_create_counter_many(client, 3, keys, key_bytes, initials, NULL, numbers, codes));
  CHECK(numbers[0] == 11 && codes[0] == FARLOOK_ALREADY_EXISTS && codes[2] == FARLOOK_OK && numbers[2] == 30);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_read_counter_many(client, 3, keys, key_bytes, NULL, NULL, codes));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_fetch_add_many(client, 3, keys, key_bytes, NULL, NULL, NULL, codes));
  for (int i = 0; i < 3; ++i) OK(farlook_delete_counter(client, keys[i], 2, NULL, NULL));

  /* A counter's ttl, in a batch too. */
  int64_t left;
  farlook_options* ttl = with("ttl_ms", 60000);
  OK(farlook_create_counter_many(client, 1, keys, key_bytes, initials, ttl, NULL, codes));
  OK(farlook_ttl(client, "n0", 2, NULL, &left));
  CHECK(left > 0 && left <= 61000);
  OK(farlook_delete_counter(client, "n0", 2, NULL, NULL));

  /* Adds that create what is absent: alone, and in a batch. */
  farlook_options* create = with("create", 1);
  OK(farlook_options_set(create, "initial", -5));
  OK(farlook_options_set(create, "ttl_ms", 60000));
  OK(farlook_fetch_add(client, KEY("new"), 7, create, &number));
  CHECK(number == -5);
  OK(farlook_ttl(client, KEY("new"), NULL, &left));
  CHECK(left > 0 && left <= 61000);
  OK(farlook_fetch_add(client, KEY("new"), 1, create, &number));
  CHECK(number == 2);
  OK(farlook_delete_counter(client, KEY("new"), NULL, &number));
  CHECK(number == 3);
  OK(farlook_fetch_add_many(client, 3, keys, key_bytes, deltas, create, numbers, codes));
  for (int i = 0; i < 3; ++i) CHECK(codes[i] == FARLOOK_OK && numbers[i] == -5);
  OK(farlook_read_counter_many(client, 3, keys, key_bytes, NULL, numbers, codes));
  for (int i = 0; i < 3; ++i) CHECK(numbers[i] == deltas[i] - 5);
  for (int i = 0; i < 3; ++i) OK(farlook_delete_counter(client, keys[i], 2, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_fetch_add(client, KEY("new"), 1, ttl, &number));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_create_counter(client, KEY("new"), 1, create, &number));
  OK(farlook_options_set(create, "initial", INT64_MAX));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_fetch_add(client, KEY("new"), 1, create, &number));
  farlook_options_free(create);
  farlook_options_free(ttl);
  farlook_options_free(once);
}

enum { kMany = 200 };

static void test_batches(farlook_client* client) {
  static char names[kMany][8], buffers[kMany][8];
  const void *keys[kMany], *values[kMany];
  void* to[kMany];
  size_t key_bytes[kMany], value_bytes[kMany], room[kMany], got[kMany];
  uint64_t versions[kMany], read[kMany];
  int codes[kMany];
  farlook_value* handles[kMany];
  for (int i = 0; i < kMany; ++i) {
    key_bytes[i] = (size_t)sprintf(names[i], "b%d", i);
    keys[i] = values[i] = names[i];
    value_bytes[i] = key_bytes[i];
    to[i] = buffers[i];
    room[i] = sizeof buffers[i];
    handles[i] = farlook_value_new();
  }
  OK(farlook_put_many(client, kMany, keys, key_bytes, values, value_bytes, NULL, versions, codes));
  for (int i = 0; i < kMany; ++i) CHECK(codes[i] == FARLOOK_OK && versions[i] != 0);
  OK(farlook_delete(client, keys[7], key_bytes[7], NULL));
  OK(farlook_get_many(client, kMany, keys, key_bytes, NULL, to, room, got, read, codes));
  for (int i = 0; i < kMany; ++i) {
    CHECK(codes[i] == (i == 7 ? FARLOOK_NOT_FOUND : FARLOOK_OK));
    CHECK(got[i] == (i == 7 ? 0 : value_bytes[i]) && read[i] == (i == 7 ? 0 : versions[i]));
    CHECK(i == 7 || memcmp(buffers[i], names[i], got[i]) == 0);
  }
  OK(farlook_get_many_values(client, kMany, keys, key_bytes, NULL, handles, codes));
  for (int i = 0; i < kMany; ++i) {
    CHECK(farlook_value_bytes(handles[i]) == (i == 7 ? 0 : value_bytes[i]));
    CHECK(memcmp(farlook_value_data(handles[i]), names[i], farlook_value_bytes(handles[i])) == 0);
  }
  OK(farlook_exists_many(client, kMany, keys, key_bytes, NULL, codes));
  CHECK(codes[7] == FARLOOK_NOT_FOUND && codes[8] == FARLOOK_OK);
  OK(farlook_touch_many(client, kMany, keys, key_bytes, 60000, NULL, codes));
  CHECK(codes[7] == FARLOOK_NOT_FOUND && codes[8] == FARLOOK_OK);
  /* One that fails does not keep the others from being done, and the call says so. */
  room[3] = 1;
  key_bytes[5] = 0;
  EXPECT(FARLOOK_OUT_OF_RANGE, farlook_get_many(client, kMany, keys, key_bytes, NULL, to, room, got, NULL, codes));
  SAYS("the buffer 1");
  CHECK(codes[3] == FARLOOK_OUT_OF_RANGE && got[3] == value_bytes[3]);
  CHECK(codes[5] == FARLOOK_INVALID_ARGUMENT && codes[4] == FARLOOK_OK && codes[kMany - 1] == FARLOOK_OK);
  key_bytes[5] = 2;
  farlook_options* absent = with("if_absent", 1);
  EXPECT(FARLOOK_ALREADY_EXISTS,
         farlook_put_many(client, kMany, keys, key_bytes, values, value_bytes, absent, read, codes));
  CHECK(codes[7] == FARLOOK_OK && codes[8] == FARLOOK_ALREADY_EXISTS && read[8] == versions[8]);
  /* What is wrong as a whole does nothing. */
  keys[2] = NULL;
  codes[0] = 77;
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_delete_many(client, kMany, keys, key_bytes, NULL, codes));
  SAYS("key 2 is NULL");
  CHECK(codes[0] == 77);
  keys[2] = names[2];
  to[4] = NULL;
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get_many(client, kMany, keys, key_bytes, NULL, to, room, got, NULL, codes));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_delete_many(client, kMany, keys, key_bytes, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_delete_many(client, kMany, NULL, key_bytes, NULL, codes));
  OK(farlook_delete_many(client, 0, NULL, NULL, NULL, NULL));
  OK(farlook_delete_many(client, kMany, keys, key_bytes, NULL, codes));
  for (int i = 0; i < kMany; ++i) CHECK(codes[i] == FARLOOK_OK);
  farlook_options_free(absent);
  for (int i = 0; i < kMany; ++i) farlook_value_free(handles[i]);
}

/* Waits for all that is in flight in the way that an event loop does. */
static int drain(farlook_client* client) {
  int ended = 0;
  while (farlook_in_flight(client) > 0) {
    farlook_operation* done[3];
    const int count = farlook_poll(client, done, COUNT(done));
    CHECK(count >= 0);
    for (int i = 0; i < count; ++i) *(int*)farlook_operation_tag(done[i]) += 1;
    ended += count;
    if (count > 0 || farlook_arm(client) != 1) continue;
    struct pollfd fd = {farlook_fd(client), POLLIN, 0};
    poll(&fd, 1, (int)farlook_wait_ms(client));
  }
  return ended;
}

static void test_operations(farlook_client* client) {
  enum { kOperations = 100 };
  farlook_operation* operations[kOperations];
  int ended[kOperations] = {0};
  char key[8];
  for (int i = 0; i < kOperations; ++i) {
    operations[i] = farlook_operation_new();
    farlook_operation_set_tag(operations[i], &ended[i]);
    CHECK(farlook_operation_code(operations[i]) == 1);
    const size_t bytes = (size_t)sprintf(key, "o%d", i);
    OK(farlook_prepare_put(operations[i], key, bytes, "value", 5, NULL)); /* the key is copied */
  }
  OK(farlook_start(client, operations, kOperations));
  CHECK(drain(client) == kOperations);
  for (int i = 0; i < kOperations; ++i) {
    CHECK(ended[i] == 1);
    OK(farlook_operation_code(operations[i]));
    CHECK(farlook_operation_version(operations[i]) != 0 && farlook_operation_error(operations[i])[0] == '\0');
  }
  /* Each kind, and its results. */
  char buffer[8];
  farlook_operation **o = operations, *done[2];
  OK(farlook_prepare_get(o[0], KEY("o0"), NULL));
  OK(farlook_prepare_get_into(o[1], KEY("o1"), NULL, buffer, sizeof buffer));
  OK(farlook_prepare_get_into(o[2], KEY("o2"), NULL, buffer, 1));
  OK(farlook_prepare_get(o[3], KEY("nothing"), NULL));
  OK(farlook_prepare_exists(o[4], KEY("o4"), NULL));
  OK(farlook_prepare_ttl(o[5], KEY("o5"), NULL));
  OK(farlook_prepare_touch(o[6], KEY("o6"), 60000, NULL));
  OK(farlook_prepare_persist(o[7], KEY("o7"), NULL));
  OK(farlook_prepare_get_and_touch(o[8], KEY("o8"), 60000, NULL));
  OK(farlook_prepare_delete(o[9], KEY("o9"), NULL));
  OK(farlook_prepare_ping(o[10], NULL));
  OK(farlook_start(client, o, 11));
  CHECK(drain(client) == 11);
  OK(farlook_operation_code(o[0]));
  CHECK(farlook_operation_bytes(o[0]) == 5 && memcmp(farlook_operation_data(o[0]), "value", 5) == 0);
  CHECK(farlook_operation_bytes(o[1]) == 5 && memcmp(buffer, "value", 5) == 0);
  EXPECT(FARLOOK_OUT_OF_RANGE, farlook_operation_code(o[2]));
  CHECK(farlook_operation_bytes(o[2]) == 5);
  EXPECT(FARLOOK_NOT_FOUND, farlook_operation_code(o[3]));
  CHECK(strstr(farlook_operation_error(o[3]), "absent") != NULL && farlook_operation_bytes(o[3]) == 0);
  CHECK(farlook_operation_number(o[5]) == FARLOOK_FOREVER);
  CHECK(farlook_operation_bytes(o[8]) == 5 && memcmp(farlook_operation_data(o[8]), "value", 5) == 0);
  for (int i = 4; i < 11; ++i) OK(farlook_operation_code(o[i]));
  /* Counters; one after the other, since nothing else orders them. */
  const int64_t numbers[5] = {40, 40, 41, 7, 7};
  OK(farlook_prepare_create_counter(o[0], KEY("on"), 40, NULL));
  OK(farlook_prepare_fetch_add(o[1], KEY("on"), 1, NULL));
  OK(farlook_prepare_compare_swap(o[2], KEY("on"), 41, 7, NULL));
  OK(farlook_prepare_read_counter(o[3], KEY("on"), NULL));
  OK(farlook_prepare_delete_counter(o[4], KEY("on"), NULL));
  for (int i = 0; i < 5; ++i) {
    OK(farlook_start(client, &o[i], 1));
    EXPECT(1, farlook_wait(client, done, 2));
    CHECK(done[0] == o[i]);
    OK(farlook_operation_code(o[i]));
    CHECK(farlook_operation_number(o[i]) == numbers[i]);
  }
  EXPECT(0, farlook_wait(client, done, 2)); /* nothing is in flight */
  /* What is prepared anew has nothing of what it was before. */
  farlook_options* create = with("create", 1);
  OK(farlook_options_set(create, "initial", 40));
  farlook_options* keep = with("keep", 1);
  OK(farlook_options_set(keep, "if_present", 1));
  OK(farlook_prepare_compare_swap(o[0], KEY("on"), 1, 2, NULL));
  OK(farlook_prepare_fetch_add(o[0], KEY("on"), 1, create));
  OK(farlook_start(client, o, 1));
  EXPECT(1, farlook_wait(client, done, 2));
  OK(farlook_operation_code(o[0]));
  CHECK(farlook_operation_number(o[0]) == 40);
  OK(farlook_prepare_delete_counter(o[0], KEY("on"), NULL));
  OK(farlook_start(client, o, 1));
  EXPECT(1, farlook_wait(client, done, 2));
  OK(farlook_operation_code(o[0]));
  CHECK(farlook_operation_number(o[0]) == 41);
  OK(farlook_prepare_put(o[0], KEY("o0"), "value", 5, keep));
  OK(farlook_prepare_touch(o[0], KEY("o0"), 60000, NULL));
  OK(farlook_start(client, o, 1));
  EXPECT(1, farlook_wait(client, done, 2));
  OK(farlook_operation_code(o[0]));
  OK(farlook_prepare_persist(o[0], KEY("o0"), NULL));
  OK(farlook_start(client, o, 1));
  EXPECT(1, farlook_wait(client, done, 2));
  OK(farlook_operation_code(o[0]));
  farlook_options_free(keep);
  farlook_options_free(create);
  /* The same once more, as it is. */
  OK(farlook_prepare_get(o[0], KEY("o0"), NULL));
  for (int i = 0; i < 3; ++i) {
    OK(farlook_start(client, o, 1));
    EXPECT(1, farlook_wait(client, done, 1));
    CHECK(farlook_operation_bytes(o[0]) == 5);
  }
  /* Mistakes. */
  static char kilobytes[2048];
  farlook_operation* blank = farlook_operation_new();
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_start(client, &blank, 1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_prepare_get(blank, NULL, 1, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_prepare_get(NULL, KEY("o0"), NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_prepare_put(blank, KEY("o0"), NULL, 1, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_wait(client, done, 0));
  OK(farlook_prepare_get(o[1], KEY("o1"), NULL));
  farlook_operation* const bad[3][3] = {{o[0], o[1], o[0]}, {o[0], o[1], blank}, {o[0], o[1], NULL}};
  EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_start(client, bad[0], 3));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_start(client, bad[1], 3));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_start(client, bad[2], 3));
  CHECK(farlook_in_flight(client) == 0);
  OK(farlook_start(client, bad[0], 2));
  EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_start(client, o, 1));
  EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_prepare_get(o[0], KEY("o0"), NULL));
  EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_operation_free(o[0]));
  EXPECT(1, farlook_operation_code(o[0]));
  CHECK(drain(client) == 2);
  OK(farlook_prepare_get(blank, "", 0, NULL)); /* what the key is, the operation finds out */
  int unused = 0;
  farlook_operation_set_tag(blank, &unused);
  OK(farlook_start(client, &blank, 1));
  CHECK(drain(client) == 1);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_operation_code(blank));
  OK(farlook_prepare_get(blank, kilobytes, SIZE_MAX, NULL));
  OK(farlook_start(client, &blank, 1));
  CHECK(drain(client) == 1);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_operation_code(blank));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_start(client, &blank, SIZE_MAX));
  OK(farlook_operation_free(blank));
  OK(farlook_operation_free(NULL));
  /* A client that is closed gives up what is in flight. */
  farlook_client* other = connect_to();
  OK(farlook_prepare_ping(o[0], NULL));
  OK(farlook_prepare_put(o[1], KEY("o1"), "x", 1, NULL));
  OK(farlook_start(other, o, 2));
  farlook_close(other);
  EXPECT(FARLOOK_CANCELLED, farlook_operation_code(o[0]));
  EXPECT(FARLOOK_CANCELLED, farlook_operation_code(o[1]));
  CHECK(farlook_operation_error(o[0])[0] != '\0');
  for (int i = 0; i < kOperations; ++i) OK(farlook_operation_free(operations[i]));
}

/* Begins a scan of the keys "scan:...". */
static farlook_scanner* scan(farlook_client* client, farlook_options* options) {
  farlook_scanner* scanner = NULL;
  OK(farlook_scan(client, KEY("scan:"), options, &scanner));
  farlook_options_free(options);
  return scanner;
}

static int count_items(farlook_scanner* scanner) {
  farlook_item item;
  int items = 0, more;
  while ((more = farlook_scan_next(scanner, &item)) == 1) ++items;
  if (more != 0) fail(__LINE__, "farlook_scan_next", more);
  CHECK(farlook_scan_progress(scanner) == 1);
  CHECK(strcmp(farlook_scan_cursor(scanner), "end") == 0);
  farlook_scanner_free(scanner);
  return items;
}

static void test_scans(farlook_client* client) {
  enum { kItems = 300 };
  char name[16], seen[kItems] = {0};
  uint64_t versions[kItems];
  for (int i = 0; i < kItems; ++i) {
    const int bytes = snprintf(name, sizeof name, "scan:%d", i);
    farlook_options* const options = with("keep", i % 2);
    if (i == 7) OK(farlook_options_set(options, "ttl_ms", 3600000));
    OK(farlook_put(client, name, (size_t)bytes, name, (size_t)bytes, options, &versions[i]));
    farlook_options_free(options);
  }
  OK(farlook_create_counter(client, KEY("scan:counter"), 5, NULL, NULL));
  OK(farlook_put(client, KEY("scan:empty"), NULL, 0, NULL, NULL));
  OK(farlook_put(client, KEY("not in the scan"), "v", 1, NULL, NULL));

  /* Each key, with what it has. */
  farlook_options* options = with("values", 1);
  OK(farlook_options_set(options, "batch_bytes", 4096));
  farlook_scanner* scanner = scan(client, options);
  CHECK(farlook_scan_progress(scanner) == 0);
  farlook_item item;
  int found, counters = 0, empty = 0;
  while ((found = farlook_scan_next(scanner, &item)) == 1) {
    CHECK(item.key_bytes > 5 && memcmp(item.key, "scan:", 5) == 0 && item.value != NULL);
    CHECK(item.counter || item.value_bytes == item.item_bytes);
    if (item.counter) {
      CHECK(item.value_bytes == 0 && item.key_bytes == 12);
      ++counters;
    } else if (item.value_bytes == 0) {
      ++empty;
    } else {
      CHECK(item.key_bytes < sizeof name && item.value_bytes == item.key_bytes);
      CHECK(memcmp(item.key, item.value, item.key_bytes) == 0);
      memcpy(name, item.key, item.key_bytes);
      name[item.key_bytes] = '\0';
      const int i = atoi(name + 5);
      seen[i] = 1;
      CHECK(item.version == versions[i] && item.keep == i % 2);
      CHECK(i == 7 ? item.left_ms > 0 && item.left_ms <= 3600000 : item.left_ms == FARLOOK_FOREVER);
    }
  }
  CHECK(found == 0 && counters == 1 && empty == 1);
  for (int i = 0; i < kItems; ++i) CHECK(seen[i]);
  CHECK(farlook_scan_next(scanner, &item) == 0);
  farlook_scanner_free(scanner);

  /* Without values their lengths are known. */
  scanner = scan(client, with("min_value_bytes", 8));
  CHECK(farlook_scan_next(scanner, &item) == 1 && item.item_bytes == 8 && item.value_bytes == 0 && item.value != NULL);
  farlook_scanner_free(scanner);
  CHECK(count_items(scan(client, with("min_value_bytes", 8))) == 200);
  CHECK(count_items(scan(client, with("max_value_bytes", 6))) == 12);
  CHECK(count_items(scan(client, with("only_expiring", 1))) == 1);
  CHECK(count_items(scan(client, with("bytes_per_s", 100000000))) == kItems + 2);

  /* The limit, and what another client continues from a cursor. */
  scanner = scan(client, with("limit", 100));
  for (int i = 0; i < 100; ++i) CHECK(farlook_scan_next(scanner, &item) == 1);
  CHECK(farlook_scan_next(scanner, &item) == 0);
  options = with("timeout_ms", 10000);
  OK(farlook_options_set_text(options, "cursor", farlook_scan_cursor(scanner)));
  farlook_client* const other = connect_to();
  CHECK(count_items(scan(other, options)) == kItems + 2 - 100);
  farlook_close(other);
  farlook_scanner_free(scanner);

  /* All keys. */
  OK(farlook_scan(client, NULL, 0, NULL, &scanner));
  CHECK(count_items(scanner) > kItems + 2);

  /* Wrong input. */
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan(client, NULL, 1, NULL, &scanner));
  CHECK(scanner == NULL);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan(client, NULL, 0, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan(NULL, NULL, 0, NULL, &scanner));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan_next(NULL, &item));
  options = with("keep", 1);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan(client, NULL, 0, options, &scanner));
  SAYS("keep");
  farlook_options_free(options);
  options = with("limit", 1);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_ping(client, options));
  SAYS("farlook_scan");
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "batch_bytes", 4095));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "cursor", 1));
  OK(farlook_options_set_text(options, "cursor", "elsewhere"));
  OK(farlook_scan(client, NULL, 0, options, &scanner));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan_next(scanner, &item));
  SAYS("cursor");
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_scan_next(scanner, NULL));
  farlook_options_free(options);
  farlook_scanner_free(scanner);
  CHECK(farlook_scan_progress(NULL) == 0 && farlook_scan_cursor(NULL)[0] == '\0');
  farlook_scanner_free(NULL);

  /* A scanner may be freed after its client was closed. */
  farlook_client* const gone = connect_to();
  scanner = scan(gone, with("values", 1));
  CHECK(farlook_scan_next(scanner, &item) == 1);
  farlook_close(gone);
  farlook_scanner_free(scanner);
  OK(farlook_delete_counter(client, KEY("scan:counter"), NULL, NULL));
}

static void test_options(farlook_client* client) {
  farlook_options* options = farlook_options_new();
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "timeout", 1));
  SAYS("did you mean timeout_ms");
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "timeout_ms", -1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "liveness_ms", INT64_MAX));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "max_backoff_ms", 3600001));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "spin_us", INT64_MAX));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "read_only", 2));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, "user", 1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(options, NULL, 1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set(NULL, "ttl_ms", 1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set_text(options, "ttl_ms", "1"));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set_text(options, "lookups", "letters"));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set_text(options, "user", NULL));
  /* Nothing of that was set. */
  OK(farlook_put(client, KEY("p"), "x", 1, options, NULL));
  /* An option is for the calls that know it. */
  OK(farlook_options_set(options, "ttl_ms", 60000));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_delete(client, KEY("p"), options));
  SAYS("ttl_ms");
  farlook_client* other = client;
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_connect(address, options, &other));
  CHECK(other == NULL);
  OK(farlook_delete(client, KEY("p"), NULL));
  farlook_options_free(options);

  options = with("read_only", 1);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_options_set_text(options, "fencing", "loose"));
  OK(farlook_options_set_text(options, "fencing", "strict"));
  OK(farlook_options_set_text(options, "lookups", "messages"));
  OK(farlook_options_set(options, "wait_for_server", 1));
  OK(farlook_options_set(options, "timeout_ms", 30000));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_ping(client, options));
  OK(farlook_connect(address, options, &other));
  EXPECT(FARLOOK_PERMISSION_DENIED, farlook_put(other, KEY("p"), "x", 1, NULL, NULL));
  EXPECT(FARLOOK_NOT_FOUND, farlook_exists(other, KEY("p"), NULL));
  uint64_t figure = 0;
  OK(farlook_stat(other, "server_gets", &figure));
  CHECK(figure == 1);
  farlook_close(other);
  farlook_options_free(options);
  farlook_options_free(NULL);
}

static void test_wrong_input(farlook_client* client) {
  char key[2000] = "k", byte;
  farlook_client* none = client;
  size_t bytes;
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(NULL, KEY("k"), NULL, &byte, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(client, NULL, 1, NULL, &byte, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(client, key, 0, NULL, &byte, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(client, key, 1025, NULL, &byte, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(client, key, SIZE_MAX, NULL, &byte, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get(client, key, 1, NULL, NULL, 1, &bytes, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_put(client, key, 1, NULL, 1, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_put(client, key, 1, key, (size_t)1 << 40, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_put(client, key, 1, key, SIZE_MAX, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_put(client, key, 1025, key, 1, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_get_value(client, key, 1, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_ttl(client, key, 1, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_server_stats(client, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_incarnation(client, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_stat(client, "gets", NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_poll(NULL, NULL, 0));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_poll(client, NULL, 1));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_connect(NULL, NULL, &none));
  CHECK(none == NULL);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_connect(address, NULL, NULL));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_connect("nowhere", NULL, &none));
  EXPECT(FARLOOK_UNAVAILABLE, farlook_connect("shm:///tmp/farlook-no-such-server", NULL, &none));
  SAYS("farlook-no-such-server");
  CHECK(farlook_in_flight(NULL) == 0 && farlook_wait_ms(NULL) == 0);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_fd(NULL));
  CHECK(farlook_value_bytes(NULL) == 0 && farlook_operation_bytes(NULL) == 0);
  farlook_close(NULL);
  farlook_value_free(NULL);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_warm(NULL, NULL));
  OK(farlook_warm(client, NULL));
  OK(farlook_ping(client, NULL)); /* and all that did no harm */
}

static void test_registered_memory(farlook_client* client) {
  enum { kBytes = 1 << 20, kValue = 100000 };
  char* const memory = malloc(kBytes);
  size_t bytes = 0;
  memset(memory, 'm', kBytes);
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_register(NULL, memory, kBytes));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_register(client, NULL, kBytes));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_register(client, memory, 0));
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_register(client, memory, SIZE_MAX));
  EXPECT(FARLOOK_NOT_FOUND, farlook_unregister(client, memory));
  EXPECT(FARLOOK_NOT_FOUND, farlook_unregister(client, NULL));
  OK(farlook_register(client, memory + 1, kBytes - 1));
  EXPECT(FARLOOK_ALREADY_EXISTS, farlook_register(client, memory, kBytes));
  SAYS("registered");
  EXPECT(FARLOOK_NOT_FOUND, farlook_unregister(client, memory));
  /* Aligned as it may be, and not at all; in part of it, and beside it. */
  for (size_t from = 0; from < 3; ++from) {
    memset(memory + from * 7, 'a' + (int)from, kValue);
    OK(farlook_put(client, KEY("r"), memory + from * 7, kValue, NULL, NULL));
    char* const to = memory + kBytes / 2 + from;
    OK(farlook_get(client, KEY("r"), NULL, to, kValue, &bytes, NULL));
    CHECK(bytes == kValue && memcmp(to, memory + from * 7, kValue) == 0 && to[kValue] == 'm');
    EXPECT(FARLOOK_OUT_OF_RANGE, farlook_get(client, KEY("r"), NULL, to, kValue - 1, &bytes, NULL));
    CHECK(bytes == kValue && to[kValue] == 'm');
  }
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_unregister(client, memory + 1));
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_register(client, memory, 1));
    memory[kBytes - 1] = 'c';
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0 && memory[kBytes - 1] == 'm');
  OK(farlook_unregister(client, memory + 1));
  OK(farlook_register(client, memory, 10)); /* what farlook_close() lets go of */
  OK(farlook_delete(client, KEY("r"), NULL));
  free(memory);
}

static void test_figures(farlook_client* client) {
  uint64_t figure = 0, incarnation = 0, bytes = 0;
  size_t names = 0;
  for (const char* name; (name = farlook_stat_name(names)) != NULL; ++names) OK(farlook_stat(client, name, &figure));
  CHECK(names == 21);
  OK(farlook_stat(client, "puts", &figure));
  CHECK(figure > 0);
  EXPECT(FARLOOK_NOT_FOUND, farlook_stat(client, "goals", &figure));
  OK(farlook_incarnation(client, &incarnation));
  CHECK(strcmp(farlook_address(client), address) == 0);
  CHECK(farlook_address(NULL)[0] == '\0');
  OK(farlook_memory_bytes(client, &bytes));
  CHECK(incarnation != 0 && bytes != 0);
  farlook_value* text = farlook_value_new();
  OK(farlook_server_stats(client, NULL, text));
  CHECK(farlook_value_bytes(text) > 0 && strncmp(farlook_value_data(text), "version " FARLOOK_VERSION "\n",
                                                 strlen("version " FARLOOK_VERSION "\n")) == 0);
  /* The same without waiting, and from a line on. */
  farlook_operation *stats = farlook_operation_new(), *done[1];
  const char* const second = strchr(farlook_value_data(text), '\n') + 1;
  for (uint64_t from = 0; from < 2; ++from) {
    OK(farlook_prepare_server_stats(stats, from, NULL));
    OK(farlook_start(client, &stats, 1));
    EXPECT(1, farlook_wait(client, done, 1));
    OK(farlook_operation_code(stats));
    CHECK(farlook_operation_bytes(stats) > 0 && farlook_operation_version(stats) == 0);
    const char* const expected = from == 0 ? farlook_value_data(text) : second;
    CHECK(strncmp(farlook_operation_data(stats), expected, (size_t)(strchr(expected, '\n') - expected)) == 0);
    size_t lines = from;
    for (size_t i = 0; i < farlook_operation_bytes(stats); ++i)
      lines += ((const char*)farlook_operation_data(stats))[i] == '\n';
    size_t all = 0;
    for (size_t i = 0; i < farlook_value_bytes(text); ++i) all += ((const char*)farlook_value_data(text))[i] == '\n';
    /* A kind of request that was timed meanwhile for the first time has lines that were not there. */
    const size_t now = lines + (size_t)farlook_operation_number(stats);
    CHECK(now >= all && now < all + 64);
  }
  EXPECT(FARLOOK_INVALID_ARGUMENT, farlook_prepare_server_stats(NULL, 0, NULL));
  OK(farlook_operation_free(stats));
  farlook_value_free(text);
  CHECK(strcmp(farlook_version(), FARLOOK_VERSION) == 0);
  /* Each code's number, which programs have in them, by its name. Nothing returns -12. */
  static const char* const codes[] = {
      "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
      "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "?", "INTERNAL",
      "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED", "?"};
  for (size_t i = 0; i < COUNT(codes); ++i) CHECK(strcmp(farlook_code_name(-(int)i), codes[i]) == 0);
}

static void test_fork(farlook_client* client) {
  OK(farlook_put(client, KEY("f"), "parent", 6, NULL, NULL));
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    char buffer[8];
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_get(client, KEY("f"), NULL, buffer, sizeof buffer, NULL, NULL));
    SAYS("fork");
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_delete(client, KEY("f"), NULL));
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_poll(client, NULL, 0));
    farlook_scanner* scanner = NULL;
    EXPECT(FARLOOK_FAILED_PRECONDITION, farlook_scan(client, NULL, 0, NULL, &scanner));
    CHECK(farlook_in_flight(client) == 0);
    farlook_close(client);
    farlook_client* own = connect_to();
    OK(farlook_get(own, KEY("f"), NULL, buffer, sizeof buffer, NULL, NULL));
    farlook_close(own);
    _exit(0);
  }
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  /* The parent's connection is what it was. */
  uint64_t reconnects = 1;
  OK(farlook_delete(client, KEY("f"), NULL));
  OK(farlook_stat(client, "reconnects", &reconnects));
  CHECK(reconnects == 0);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  address = argv[1];
  CHECK(farlook_error()[0] == '\0');
  farlook_client* client = connect_to();
  test_values(client);
  test_conditions(client);
  test_a_call_that_is_given_up();
  test_expiry(client);
  test_counters(client);
  test_batches(client);
  test_operations(client);
  test_scans(client);
  test_options(client);
  test_wrong_input(client);
  test_registered_memory(client);
  test_figures(client);
  test_fork(client);
  farlook_close(client);
  puts("all calls did what they should");
  return 0;
}
