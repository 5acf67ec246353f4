// Registered memory: values are read into it and pulled from it without a copy, for any number of operations of one
// client.
//
//     std::vector<char> rows(1 << 30);
//     farlook::RegisterMemory(client.get(), rows);
//     client->GetInto(key, std::span(rows).subspan(0, 1 << 20));
//
// The effect depends on the transport:
//
//             a get into it                       a put from it, at a multiple of 8
//     rdma    by the adapter, without a copy      fetched by the server's adapter, without a copy
//     tcp     received in place, as always        sent from its place
//     shm     copied once, as always              copied once, as always: the server maps only memory of the library
//
// A get that ends in time has its value there by one READ. One that exceeds its deadline ends only when nothing can be
// written to the memory any more. For this its connection is closed; the next operation opens another one.
//
// Values that fit in a message (some 4,000 bytes), strings, and memory that is not registered as a whole are copied.
#ifndef FARLOOK_MEMORY_H_
#define FARLOOK_MEMORY_H_

#include <span>

#include "absl/status/status.h"
#include "farlook/client.h"

namespace farlook {

// Registers memory at any address and of any length. It must stay mapped until it is unregistered or the client is
// destroyed. Over rdma its pages are locked meanwhile (RLIMIT_MEMLOCK). After fork() the child has copies of the pages
// and may use them. Before Linux 5.12 the child lacks these pages, with everything on them. Errors: INVALID_ARGUMENT:
// no bytes, or the memory is not writable; ALREADY_EXISTS: a part of it is registered; RESOURCE_EXHAUSTED: more than
// may be locked; UNAVAILABLE: the device is gone.
absl::Status RegisterMemory(Client* client, std::span<char> memory);

// Unregisters the whole range that was registered at `memory`. NOT_FOUND: there is none. FAILED_PRECONDITION:
// operations in flight use it, or the server may still pull from it for a put that ended by its deadline: try again
// after its reply.
absl::Status UnregisterMemory(Client* client, const char* memory);

}  // namespace farlook

#endif  // FARLOOK_MEMORY_H_
