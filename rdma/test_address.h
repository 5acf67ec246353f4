// Addresses for the servers of tests that run on any backend.
#ifndef FARLOOK_RDMA_TEST_ADDRESS_H_
#define FARLOOK_RDMA_TEST_ADDRESS_H_

#include <string>

namespace farlook::rdma {

// Returns an unused address, another one at each call. It is on the RDMA device of FARLOOK_RDMA_ADDRESS if that is set,
// as for the tests of tests/vm/verbs_test.bzl. Otherwise it is over TCP at FARLOOK_TCP_ADDRESS, as for those of
// tests/tcp, or else in shared memory, below /tmp.
std::string UnusedTestAddress();

// Returns whether that is on an RDMA device. Usually it is an emulated one, some 30 times slower than shared memory:
// tests with very many repetitions then reduce them.
bool TestsUseRdma();

// Returns whether that is over TCP, where READs take the server's processor, and gets are messages by default.
bool TestsUseTcp();

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_TEST_ADDRESS_H_
