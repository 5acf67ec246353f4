// Every allocation of every function of the C library fails once, and once with all that follow. Each time a new thread
// runs the call, whose first error is the lack of memory. Expect: a code and a text, never the end of the process.
//
// malloc() fails, not operator new, so that glibc's own allocations fail too.
#include <malloc.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "farlook.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

}  // extern "C"

namespace {

// Which allocations of this thread fail: none, or a number of them from the `left`th on.
thread_local bool fails = false;
thread_local int left = 0;
thread_local int failures = 0;

bool Fails() {
  if (!fails || left-- > 0) return false;
  left = 0;
  if (failures == 0) return false;
  --failures;
  errno = ENOMEM;
  return true;
}

}  // namespace

extern "C" {

void* malloc(size_t bytes) { return Fails() ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return Fails() ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* memory, size_t bytes) { return Fails() ? nullptr : __libc_realloc(memory, bytes); }
void* memalign(size_t alignment, size_t bytes) { return Fails() ? nullptr : __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"

namespace farlook {
namespace {

constexpr int kOne = 1;
constexpr int kAllFurther = 1'000'000;
constexpr int kMost = 2'000;  // allocations of one call: more than any makes

constexpr size_t kKeys = 20;

// The arguments of all calls, allocated before the calls.
struct Arguments {
  std::string address;
  farlook_client* client = nullptr;
  farlook_options* options = farlook_options_new();
  farlook_options* scan = farlook_options_new();
  farlook_value* value = farlook_value_new();
  farlook_operation* operation = farlook_operation_new();
  std::array<farlook_value*, kKeys> values;
  std::array<std::string, kKeys> names;
  std::array<const void*, kKeys> keys;
  std::array<size_t, kKeys> key_bytes;
  std::array<std::array<char, 64>, kKeys> room;
  std::array<void*, kKeys> buffers;
  std::array<size_t, kKeys> buffer_bytes, value_bytes;
  std::array<int64_t, kKeys> numbers = {};
  std::array<int, kKeys> codes;
  std::string long_value = std::string(100'000, 'v');

  explicit Arguments(const std::string& prefix) {
    EXPECT_EQ(farlook_options_set(scan, "values", 1), FARLOOK_OK);
    for (size_t i = 0; i < kKeys; ++i) {
      values[i] = farlook_value_new();
      names[i] = prefix + std::to_string(i);
      keys[i] = names[i].data();
      key_bytes[i] = names[i].size();
      buffers[i] = room[i].data();
      buffer_bytes[i] = room[i].size();
    }
  }
  ~Arguments() {
    farlook_close(client);
    farlook_options_free(options);
    farlook_options_free(scan);
    farlook_value_free(value);
    EXPECT_EQ(farlook_operation_free(operation), FARLOOK_OK);
    for (farlook_value* one : values) farlook_value_free(one);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
};

struct Call {
  const char* name;
  std::function<int(Arguments* a)> run;
  bool counts = false;  // its keys are counters
};

bool IsExpected(int code) {
  switch (code) {
    case FARLOOK_OK:
    case FARLOOK_NOT_FOUND:
    case FARLOOK_ALREADY_EXISTS:
    case FARLOOK_INVALID_ARGUMENT:  // of calls that are wrong on purpose
    case FARLOOK_RESOURCE_EXHAUSTED:
    case FARLOOK_FAILED_PRECONDITION:  // of the next call with a client that this one broke
      return true;
    default:
      return false;
  }
}

// Prepares an operation, starts it and waits for its end. Returns the code of a call that fails.
template <typename... Parameters, typename... Values>
int Asynchronously(Arguments* a, int (*prepare)(farlook_operation*, Parameters...), Values... values) {
  if (const int code = prepare(a->operation, values...); code != FARLOOK_OK) return code;
  if (const int code = farlook_start(a->client, &a->operation, 1); code != FARLOOK_OK) return code;
  for (;;) {
    farlook_operation* done = nullptr;
    const int count = farlook_wait(a->client, &done, 1);
    if (count < 0) return count;
    if (count == 0) continue;
    const int code = farlook_operation_code(done);
    EXPECT_EQ(code == FARLOOK_OK, *farlook_operation_error(done) == 0);
    EXPECT_TRUE(IsExpected(code));
    return FARLOOK_OK;
  }
}

std::vector<Call> OfValues() {
  return {
      {"get", [](auto a) { return farlook_get(a->client, "key", 3, nullptr, a->buffers[0], 64, nullptr, nullptr); }},
      {"get_value", [](auto a) { return farlook_get_value(a->client, "long", 4, nullptr, a->value); }},
      {"exists", [](auto a) { return farlook_exists(a->client, "key", 3, nullptr); }},
      {"put", [](auto a) { return farlook_put(a->client, "key", 3, "value", 5, nullptr, nullptr); }},
      {"put with options", [](auto a) { return farlook_put(a->client, "key", 3, "value", 5, a->options, nullptr); }},
      {"put of a long value",
       [](auto a) {
         return farlook_put(a->client, "long", 4, a->long_value.data(), a->long_value.size(), nullptr, nullptr);
       }},
      {"delete", [](auto a) { return farlook_delete(a->client, "absent", 6, nullptr); }},
      {"touch", [](auto a) { return farlook_touch(a->client, "key", 3, 1'000'000, nullptr); }},
      {"persist", [](auto a) { return farlook_persist(a->client, "key", 3, nullptr); }},
      {"ttl", [](auto a) { return farlook_ttl(a->client, "key", 3, nullptr, a->numbers.data()); }},
      {"get_and_touch",
       [](auto a) { return farlook_get_and_touch(a->client, "key", 3, 1'000'000, nullptr, a->value); }},
      {"a call without a client", [](auto) { return farlook_ping(nullptr, nullptr); }},
      {"get_many",
       [](auto a) {
         return farlook_get_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), nullptr, a->buffers.data(),
                                 a->buffer_bytes.data(), a->value_bytes.data(), nullptr, a->codes.data());
       }},
      {"get_many_values",
       [](auto a) {
         return farlook_get_many_values(a->client, kKeys, a->keys.data(), a->key_bytes.data(), nullptr,
                                        a->values.data(), a->codes.data());
       }},
      {"put_many",
       [](auto a) {
         return farlook_put_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), a->keys.data(),
                                 a->key_bytes.data(), nullptr, nullptr, a->codes.data());
       }},
      {"delete_many",
       [](auto a) {
         return farlook_delete_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), nullptr, a->codes.data());
       }},
      {"touch_many",
       [](auto a) {
         return farlook_touch_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), 1'000'000, nullptr,
                                   a->codes.data());
       }},
      {"scan",
       [](auto a) {
         farlook_scanner* scanner = nullptr;
         int code = farlook_scan(a->client, nullptr, 0, a->scan, &scanner);
         EXPECT_EQ(scanner != nullptr, code == FARLOOK_OK);
         if (scanner == nullptr) return code;
         farlook_item item;
         while ((code = farlook_scan_next(scanner, &item)) > 0) {
         }
         EXPECT_NE(farlook_scan_cursor(scanner), nullptr);
         farlook_scanner_free(scanner);
         return code;
       }},
      {"exists_many",
       [](auto a) {
         return farlook_exists_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), nullptr, a->codes.data());
       }},
  };
}

std::vector<Call> OfCounters() {
  const auto many = [](Arguments* a, auto call) {
    return call(a->client, kKeys, a->keys.data(), a->key_bytes.data(), a->numbers.data(), nullptr, a->numbers.data(),
                a->codes.data());
  };
  return {
      {"create_counter", [](auto a) { return farlook_create_counter(a->client, "c", 1, 7, nullptr, nullptr); }, true},
      {"fetch_add", [](auto a) { return farlook_fetch_add(a->client, "c", 1, 1, nullptr, nullptr); }, true},
      {"compare_swap", [](auto a) { return farlook_compare_swap(a->client, "c", 1, 7, 8, nullptr, nullptr); }, true},
      {"read_counter", [](auto a) { return farlook_read_counter(a->client, "c", 1, nullptr, a->numbers.data()); },
       true},
      {"create_counter_many", [=](auto a) { return many(a, farlook_create_counter_many); }, true},
      {"fetch_add_many", [=](auto a) { return many(a, farlook_fetch_add_many); }, true},
      {"read_counter_many",
       [](auto a) {
         return farlook_read_counter_many(a->client, kKeys, a->keys.data(), a->key_bytes.data(), nullptr,
                                          a->numbers.data(), a->codes.data());
       },
       true},
      {"delete_counter", [](auto a) { return farlook_delete_counter(a->client, "c", 1, nullptr, nullptr); }, true},
  };
}

std::vector<Call> OfTheServer() {
  return {
      {"connect",
       [](auto a) {
         farlook_client* client = nullptr;
         const int code = farlook_connect(a->address.c_str(), nullptr, &client);
         EXPECT_EQ(client != nullptr, code == FARLOOK_OK);
         farlook_close(client);
         return code;
       }},
      {"close",
       [](auto a) {
         farlook_close(a->client);
         a->client = nullptr;
         return 0;
       }},
      {"close of a client in use",
       [](auto a) {
         const int code = farlook_prepare_get(a->operation, "key", 3, nullptr);
         if (code == FARLOOK_OK) farlook_start(a->client, &a->operation, 1);
         farlook_close(a->client);
         a->client = nullptr;
         return code;
       }},
      {"ping", [](auto a) { return farlook_ping(a->client, nullptr); }},
      {"warm", [](auto a) { return farlook_warm(a->client, nullptr); }},
      {"server_stats", [](auto a) { return farlook_server_stats(a->client, nullptr, a->value); }},
      {"stat",
       [](auto a) {
         uint64_t figure;
         return farlook_stat(a->client, "no figure has this name", &figure);
       }},
      {"incarnation",
       [](auto a) {
         uint64_t number;
         const int code = farlook_incarnation(a->client, &number);
         return code != FARLOOK_OK ? code : farlook_memory_bytes(a->client, &number);
       }},
      {"register",
       [](auto a) {
         const int code = farlook_register(a->client, a->long_value.data(), a->long_value.size());
         return code != FARLOOK_OK ? code : farlook_unregister(a->client, a->long_value.data());
       }},
      {"in_flight, arm, fd, wait_ms",
       [](auto a) {
         EXPECT_EQ(farlook_in_flight(a->client), 0u);
         EXPECT_GE(farlook_wait_ms(a->client), -1);
         EXPECT_EQ(farlook_in_flight(nullptr), 0u);
         const int armed = farlook_arm(a->client), fd = farlook_fd(a->client);
         return armed < 0 ? armed : fd < 0 ? fd : 0;
       }},
  };
}

std::vector<Call> OfHandles() {
  return {
      {"options_set",
       [](auto a) {
         if (const int code = farlook_options_set(a->options, "keep", 1); code != FARLOOK_OK) return code;
         if (const int code = farlook_options_set(a->options, "no option has this name", 1); code != 0) return code;
         return farlook_options_set_text(a->options, "user", "a name that is too long for the string itself");
       }},
      {"new",
       [](auto) {
         farlook_options* const options = farlook_options_new();
         farlook_value* const value = farlook_value_new();
         farlook_operation* const operation = farlook_operation_new();
         const bool all = options != nullptr && value != nullptr && operation != nullptr;
         farlook_options_free(options);
         farlook_value_free(value);
         const int code = farlook_operation_free(operation);
         return all ? code : static_cast<int>(FARLOOK_RESOURCE_EXHAUSTED);
       }},
      {"prepare_get of a long key",
       [](auto a) { return farlook_prepare_get(a->operation, a->long_value.data(), 1000, nullptr); }},
      {"prepare_server_stats",
       [](auto a) { return farlook_prepare_server_stats(a->operation, 1'234'567'890'123'456'789, nullptr); }},
      {"a get that does not wait",
       [](auto a) { return Asynchronously(a, farlook_prepare_get, "long", size_t{4}, nullptr); }},
      {"a put that does not wait",
       [](auto a) {
         return Asynchronously(a, farlook_prepare_put, "long", size_t{4}, a->long_value.data(), a->long_value.size(),
                               nullptr);
       }},
      {"server's figures that do not wait",
       [](auto a) { return Asynchronously(a, farlook_prepare_server_stats, uint64_t{0}, nullptr); }},
      {"an add that does not wait",
       [](auto a) { return Asynchronously(a, farlook_prepare_fetch_add, "none", size_t{4}, int64_t{1}, nullptr); }},
  };
}

class NoMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    farlook_client* client = nullptr;
    ASSERT_EQ(farlook_connect(server_.address().c_str(), nullptr, &client), FARLOOK_OK) << farlook_error();
    const std::string long_value(100'000, 'v');
    ASSERT_EQ(farlook_put(client, "long", 4, long_value.data(), long_value.size(), nullptr, nullptr), FARLOOK_OK);
    ASSERT_EQ(farlook_put(client, "key", 3, "value", 5, nullptr, nullptr), FARLOOK_OK);
    farlook_close(client);
  }

  // Returns whether the allocation was reached.
  bool Run(const Call& call, int nth, int count) {
    SCOPED_TRACE(testing::Message() << call.name << ", allocation " << nth << ", and " << count - 1 << " after it");
    Arguments arguments(call.counts ? "counter" : "value");
    arguments.address = server_.address();
    EXPECT_EQ(farlook_options_set(arguments.options, "ttl_ms", 1'000'000), FARLOOK_OK);
    EXPECT_EQ(farlook_connect(arguments.address.c_str(), nullptr, &arguments.client), FARLOOK_OK) << farlook_error();
    int code = FARLOOK_OK;
    char text[256] = "";
    bool reached = false;
    std::thread([&] {
      left = nth;
      failures = count;
      fails = true;
      code = call.run(&arguments);
      strncpy(text, farlook_error(), sizeof(text) - 1);
      fails = false;
      reached = failures < count;
    }).join();
    EXPECT_TRUE(IsExpected(code)) << farlook_code_name(code) << ": " << text;
    EXPECT_TRUE(code == FARLOOK_OK || *text != 0);
    EXPECT_TRUE(reached || code != FARLOOK_RESOURCE_EXHAUSTED) << text;
    return reached;
  }

  void RunAll(const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      for (const int count : {kOne, kAllFurther}) {
        fprintf(stderr, "%s%s\n", call.name, count == kOne ? "" : ", and all further ones");
        int nth = 0;
        while (nth < kMost && Run(call, nth, count)) ++nth;
        EXPECT_LT(nth, kMost) << call.name;
        failed_ += nth;
        if (HasFailure()) return;
      }
    }
    EXPECT_GT(failed_, 0);
  }

  ServerProcess server_{{"--memory=64MiB", "--log_level=error"}};
  int failed_ = 0;
};

TEST_F(NoMemoryTest, CallsOfValuesFail) { RunAll(OfValues()); }
TEST_F(NoMemoryTest, CallsOfCountersFail) { RunAll(OfCounters()); }
TEST_F(NoMemoryTest, CallsOfTheServerFail) { RunAll(OfTheServer()); }
TEST_F(NoMemoryTest, CallsOfHandlesFail) { RunAll(OfHandles()); }

}  // namespace
}  // namespace farlook
