// Faults of verbs on this host, and their remedies: sentences for errors at run time and for `kv_cli doctor`.
//
// Each gives the fact first, then the command. They touch no device unless their comment says so.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_DIAGNOSIS_H_
#define FARLOOK_RDMA_VERBS_DEVICE_DIAGNOSIS_H_

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farlook::rdma::verbs {

// Returns the names of the RDMA devices of this host. Empty also if /dev/infiniband is missing.
std::vector<std::string> DeviceNames();

// FAILED_PRECONDITION: this host has no RDMA device, or none that this process can use, and the reason.
// PERMISSION_DENIED.
absl::Status NoDevice();

// FAILED_PRECONDITION: the file by which programs use a device is missing.
absl::Status NoFile(absl::string_view path);

// After opening /dev/infiniband/* failed with `error` (errno). PERMISSION_DENIED, or NoDevice() if there is none.
absl::Status CannotOpen(absl::string_view what, int error);

// After binding or resolving `address` of this host failed with `error`. Checks which devices exist.
absl::Status NoDeviceAt(absl::string_view address, int error);

// FAILED_PRECONDITION: the address is one of 127.0.0.0/8, or ::1.
absl::Status IsLoopback(absl::string_view address);

// The port of `device` is not active.
std::string PortDown(absl::string_view device, ibv_port_state state);

// After ibv_reg_mr of `bytes` failed with `error`. RESOURCE_EXHAUSTED that names the memlock limit; INVALID_ARGUMENT.
absl::Status CannotRegister(absl::string_view what, uint64_t bytes, int error);

// After creating a queue pair, a completion queue or a similar object failed with `error`.
absl::Status CannotCreate(absl::string_view what, absl::string_view device, int error);

// UNAVAILABLE: the device was removed, or failed. Connections use it again when it is back.
absl::Status DeviceGone(absl::string_view device);

// After listening at `address` failed with `error`. ALREADY_EXISTS, PERMISSION_DENIED, or as NoDeviceAt.
absl::Status CannotListen(absl::string_view address, int error);

// The reason why a client was not connected to `address`: the event of rdma_cm and its status (a negative errno, or a
// reason of the connection manager for RDMA_CM_EVENT_REJECTED). UNAVAILABLE.
absl::Status CannotConnect(absl::string_view address, rdma_cm_event_type event, int status);

// No answer arrived from `address` within the time. UNAVAILABLE.
absl::Status ConnectTimedOut(absl::string_view address, int64_t timeout_ms);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_DIAGNOSIS_H_
