// A client that an exception passed through, as memory ran out, refuses all further calls, and can be closed.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "farlook.h"
#include "gtest/gtest.h"
#include "tests/faults/server_process.h"

namespace {

// Number of allocations that still succeed; negative: all.
std::atomic<int> left{-1};

void* Allocate(size_t bytes) {
  if (left.load() >= 0 && left.fetch_sub(1) == 0) {
    left = 0;  // and all further ones fail
    throw std::bad_alloc();
  }
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
// Allocations that must not throw always succeed: their callers work without memory.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes == 0 ? 1 : bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace farlook {
namespace {

farlook_client* Connect(const std::string& address) {
  farlook_client* client = nullptr;
  EXPECT_EQ(farlook_connect(address.c_str(), nullptr, &client), FARLOOK_OK) << farlook_error();
  return client;
}

// Runs a call that finds no memory from its first allocation on, then from its second on, and so forth, each with a
// separate client. Returns how many clients broke.
int FailEach(const std::string& address, const std::function<int(farlook_client*)>& call) {
  int broken = 0;
  for (int allocations = 0; allocations < 100; ++allocations) {
    farlook_client* const client = Connect(address);
    left = allocations;
    const int code = call(client);
    const bool failed = left.exchange(-1) == 0;
    char byte;
    const int next = farlook_get(client, "key", 3, nullptr, &byte, 1, nullptr, nullptr);
    if (next == FARLOOK_FAILED_PRECONDITION) {
      ++broken;
      EXPECT_EQ(code, FARLOOK_RESOURCE_EXHAUSTED);
      EXPECT_NE(std::string(farlook_error()).find("close it"), std::string::npos) << farlook_error();
      // Expect: so do all other calls, without waiting for operations in flight.
      EXPECT_EQ(farlook_put(client, "key", 3, "v", 1, nullptr, nullptr), FARLOOK_FAILED_PRECONDITION);
      EXPECT_EQ(farlook_ping(client, nullptr), FARLOOK_FAILED_PRECONDITION);
      EXPECT_EQ(farlook_arm(client), FARLOOK_FAILED_PRECONDITION);
      EXPECT_EQ(farlook_in_flight(client), 0u);
    } else {
      EXPECT_NE(next, FARLOOK_RESOURCE_EXHAUSTED) << farlook_error();
    }
    farlook_close(client);
    if (!failed) {
      EXPECT_EQ(code, FARLOOK_OK);
      return broken;
    }
  }
  ADD_FAILURE() << "a call has no end of allocations";
  return broken;
}

TEST(BrokenTest, AClientWhoseMemoryRanOutRefusesFurtherCalls) {
  ServerProcess server({"--memory=64MiB", "--log_level=error"});
  const std::string long_value(100'000, 'v');
  farlook_client* const client = Connect(server.address());
  ASSERT_EQ(farlook_put(client, "long", 4, long_value.data(), long_value.size(), nullptr, nullptr), FARLOOK_OK);

  int broken = FailEach(server.address(), [](farlook_client* one) {
    farlook_value* const value = farlook_value_new();
    if (value == nullptr) return static_cast<int>(FARLOOK_RESOURCE_EXHAUSTED);
    const int code = farlook_get_value(one, "long", 4, nullptr, value);
    farlook_value_free(value);
    return code;
  });
  broken += FailEach(server.address(), [&](farlook_client* one) {
    return farlook_put(one, "key", 3, long_value.data(), long_value.size(), nullptr, nullptr);
  });
  broken += FailEach(server.address(), [](farlook_client* one) {
    const std::array<const void*, 2> keys = {"long", "key"};
    const std::array<size_t, 2> bytes = {4, 3};
    std::array<int, 2> codes;
    return farlook_exists_many(one, 2, keys.data(), bytes.data(), nullptr, codes.data());
  });
  EXPECT_GT(broken, 0);
  // Expect: others go on.
  EXPECT_EQ(farlook_exists(client, "long", 4, nullptr), FARLOOK_OK);
  farlook_close(client);
}

}  // namespace
}  // namespace farlook
