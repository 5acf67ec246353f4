#include "client/api/misuse.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

namespace farlook::client {
namespace {

// The clients of this process. In a child of fork() the lock is free.
struct Registry {
  Registry() {
    pthread_atfork([] { Instance().mutex.lock(); }, [] { Instance().mutex.unlock(); },
                   [] { Instance().mutex.unlock(); });
  }
  static Registry& Instance() {
    static auto* const registry = new Registry;
    return *registry;
  }
  uint64_t Add() {
    const std::lock_guard lock(mutex);
    numbers.insert(++last);
    return last;
  }

  std::mutex mutex;
  std::set<uint64_t> numbers;
  uint64_t last = 0;
};

}  // namespace

void EndForMisuse(const char* what) {
  std::fprintf(stderr, "farlook: %s\n", what);
  std::abort();
}

LiveClient::LiveClient() : number_(uint64_t{fork_mark_.made_in()} << 32 | Registry::Instance().Add()) {}

LiveClient::~LiveClient() {
  Registry& all = Registry::Instance();
  const std::lock_guard lock(all.mutex);
  all.numbers.erase(number_ & UINT32_MAX);
}

bool LiveClient::Lives(uint64_t number) {
  if (number >> 32 != CountForks()) return false;
  Registry& all = Registry::Instance();
  const std::lock_guard lock(all.mutex);
  return all.numbers.count(number & UINT32_MAX) > 0;
}

}  // namespace farlook::client
