// Memory that values are read into, and pulled from, without a copy between: once registered, for any number of
// operations of one client.
//
//     std::vector<char> rows(1 << 30);
//     farlook::RegisterMemory(client.get(), rows);
//     client->GetInto(key, std::span(rows).subspan(0, 1 << 20));
//
// What each transport makes of it:
//
//             a get into it                       a put from it, at a multiple of 8
//     rdma    by the adapter, without a copy      fetched by the server's adapter, without a copy
//     tcp     received where it lies, as ever     sent from where it lies
//     shm     copied once, as ever                copied once, as ever: the server maps only what the library made
//
// A get that is in time has its value there by one READ; one that is not ends only when nothing can be written to the
// memory any more, for which its connection is closed: the next operation makes another one.
//
// Of values that fit into a message (some 4,000 bytes), strings, and what is not registered as a whole, copies are
// made.
#ifndef FARLOOK_MEMORY_H_
#define FARLOOK_MEMORY_H_

#include <span>

#include "absl/status/status.h"
#include "farlook/client.h"

namespace farlook {

// From any address on, and of any length. It stays mapped until it is unregistered or the client is destroyed; over
// rdma its pages are locked so long (RLIMIT_MEMLOCK). After fork() the child has copies of them, which it may use; with
// kernels before 5.12 it has no such pages, nor what else lies on them. Errors: INVALID_ARGUMENT: no bytes, or no
// memory that can be written to; ALREADY_EXISTS: a part of it is registered; RESOURCE_EXHAUSTED: more than may be
// locked; UNAVAILABLE: the device is gone.
absl::Status RegisterMemory(Client* client, std::span<char> memory);

// What was registered from `memory` on, as a whole. NOT_FOUND: nothing was. FAILED_PRECONDITION: operations in flight
// use it, or the server may still pull from it for a put that ended by its deadline: try again when it has answered.
absl::Status UnregisterMemory(Client* client, const char* memory);

}  // namespace farlook

#endif  // FARLOOK_MEMORY_H_
