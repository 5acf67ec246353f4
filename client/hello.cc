// Farlook in thirty lines. Run it beside a server: kv_server --listen=shm:///tmp/x --memory=64MiB, then hello
// shm:///tmp/x.
#include <cstdio>

#include "client/client.h"

int main(int argc, char** argv) {
  auto client = farlook::Client::Connect(argc > 1 ? argv[1] : "shm:///tmp/x");
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  auto version = (*client)->Put("greeting", "hello, world");
  auto value = (*client)->Get("greeting");
  if (!version.ok() || !value.ok()) return 1;
  std::printf("%s (version %llu)\n", value->data.c_str(), static_cast<unsigned long long>(value->version));
  return 0;
}
