// The verbs part of rdma/doctor.h.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_DOCTOR_H_
#define FARLOOK_RDMA_VERBS_DEVICE_DOCTOR_H_

#include <cstdint>

#include "rdma/address.h"
#include "rdma/finding.h"

namespace farlook::rdma::verbs {

// Checks device files, devices, ports, addresses (GIDs), MTUs, and whether a client's memory can be registered.
Findings ExamineHost();

// Checks whether this process may register `bytes`, and those of a server's messages.
Finding ExamineLockedMemory(uint64_t bytes);

// Resolves address and route like connecting, and reports the device.
Findings ExamineRoute(const Address& address);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_DOCTOR_H_
