// The part of rdma/doctor.h that is about verbs.
#ifndef FARLOOK_RDMA_VERBS_DOCTOR_H_
#define FARLOOK_RDMA_VERBS_DOCTOR_H_

#include <cstdint>

#include "rdma/address.h"
#include "rdma/finding.h"

namespace farlook::rdma::verbs {

// Device files, devices, ports, addresses (GIDs), MTUs, and whether a client's memory can be registered.
Findings ExamineHost();

// Whether this process may register so many bytes.
Finding ExamineLockedMemory(uint64_t bytes);

// Resolves address and route as connecting does, and says over which device.
Findings ExamineRoute(const Address& address);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DOCTOR_H_
