// Farlook in thirty lines. First start a server: kv_server --listen=shm:///tmp/x --memory=64MiB, then hello
// shm:///tmp/x.
#include <iostream>

#include "farlook/client.h"

int main(int argc, char** argv) {
  auto client = farlook::Client::Connect(argc > 1 ? argv[1] : "shm:///tmp/x");
  if (!client.ok()) {
    std::cerr << client.status() << "\n";
    return 1;
  }
  auto version = (*client)->Put("greeting", "hello, world");
  auto value = (*client)->Get("greeting");
  if (!version.ok() || !value.ok()) return 1;
  std::cout << value->data << " (version " << value->version << ")\n";
  return 0;
}
