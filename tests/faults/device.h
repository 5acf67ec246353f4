// For tests: the kernel's information about RDMA devices and their users.
#ifndef FARLOOK_TESTS_FAULTS_DEVICE_H_
#define FARLOOK_TESTS_FAULTS_DEVICE_H_

#include <sys/types.h>

#include <cstdint>

namespace farlook {

// The objects of a process, on all devices.
struct DeviceObjects {
  int queue_pairs = 0;
  int completion_queues = 0;
  int memory_regions = 0;
  int connections = 0;  // ids of the connection manager
};
DeviceObjects DeviceObjectsOf(pid_t pid);

// Returns how often a receiver was not ready, counted by all devices of this host, on either side. iWARP has no such
// error: 0. The test fails where a RoCE device does not count it.
uint64_t ReceiverNotReadyErrors();

// Memory that a process has, registered with a device or not.
int64_t ResidentKib(pid_t pid);

}  // namespace farlook

#endif  // FARLOOK_TESTS_FAULTS_DEVICE_H_
