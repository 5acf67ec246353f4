// A server in a process of its own, for tests that stop and kill it.
//
//     test_server shm:///path
//
// Offers 1 MiB whose words hold their own offset, welcomes every client with its key (8 hex digits), echoes messages.
// Prints "ready" when it listens.
#include <poll.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "rdma/shared_memory.h"
#include "rdma/transport.h"

int main(int argc, char** argv) {
  using namespace farlook::rdma;  // NOLINT(build/namespaces)
  if (argc != 2) return 2;
  absl::StatusOr<std::unique_ptr<Listener>> listener = Listen(argv[1]);
  if (!listener.ok()) {
    fprintf(stderr, "%s\n", listener.status().ToString().c_str());
    return 1;
  }
  SharedMemoryOptions options;
  options.bytes = 1 << 20;
  options.huge_pages = HugePages::kNone;
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(options);
  if (!memory.ok()) return 1;
  for (uint64_t offset = 0; offset < memory->bytes(); offset += 8) memcpy(memory->data() + offset, &offset, 8);
  absl::StatusOr<RemoteRange> range = (*listener)->Offer(memory->range(), Access::kRemoteRead);
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = (*listener)->CreateEndpoint();
  if (!range.ok() || !endpoint.ok()) return 1;
  puts("ready");
  fflush(stdout);

  std::vector<std::unique_ptr<Connection>> connections;
  Completion completions[16];
  while (true) {
    while (std::unique_ptr<ConnectionRequest> request = (*listener)->Next()) {
      absl::StatusOr<std::unique_ptr<Connection>> connection =
          request->Accept(endpoint->get(), absl::StrFormat("%08x", range->rkey), absl::MakeConstSpan(&range->rkey, 1));
      if (connection.ok()) connections.push_back(*std::move(connection));
    }
    const size_t count = (*endpoint)->Poll(absl::MakeSpan(completions));
    for (size_t i = 0; i < count; ++i) {
      const Completion& c = completions[i];
      if (c.opcode != Opcode::kReceive) continue;
      c.connection->PostSend(absl::string_view(c.message.data(), c.message.size()), "");
      c.connection->Ring();
    }
    if (count > 0 || !(*endpoint)->Arm()) continue;
    pollfd waiting[] = {{(*listener)->fd(), POLLIN, 0}, {(*endpoint)->fd(), POLLIN, 0}};
    poll(waiting, 2, -1);
  }
}
