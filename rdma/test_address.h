// For tests that run on any backend: where their servers may listen.
#ifndef FARLOOK_RDMA_TEST_ADDRESS_H_
#define FARLOOK_RDMA_TEST_ADDRESS_H_

#include <string>

namespace farlook::rdma {

// An address where nobody listens, another one at each call. On the RDMA device of FARLOOK_RDMA_ADDRESS where that is
// set, as it is for the tests of tests/vm/verbs_test.bzl; over TCP at FARLOOK_TCP_ADDRESS, as for those of tests/tcp;
// else in shared memory, below /tmp.
std::string UnusedTestAddress();

// Whether that is on an RDMA device. As a rule it is an emulated one, some 30 times slower than shared memory: tests
// that repeat something very often do it less often then.
bool TestsUseRdma();

// Whether that is over TCP, where READs take the server's processor, and gets are messages unless they are asked for.
bool TestsUseTcp();

}  // namespace farlook::rdma

#endif  // FARLOOK_RDMA_TEST_ADDRESS_H_
