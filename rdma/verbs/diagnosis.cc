#include "rdma/verbs/diagnosis.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::rdma::verbs {
namespace {

// Reasons with which the connection manager of InfiniBand and RoCE rejects (ib_cm_rej_reason).
constexpr int kNobodyListens = 8;  // IB_CM_REJ_INVALID_SERVICE_ID
constexpr int kByTheServer = 28;   // IB_CM_REJ_CONSUMER_DEFINED
constexpr int kStaleConnection = 10;

constexpr char kNobodyListensText[] = "refused: no server listens there";

std::string MemlockLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur, " bytes");
}

std::string Devices() {
  const std::vector<std::string> names = DeviceNames();
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

}  // namespace

std::vector<std::string> DeviceNames() {
  std::vector<std::string> names;
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (devices == nullptr) return names;
  for (int i = 0; i < count; ++i) names.emplace_back(ibv_get_device_name(devices[i]));
  ibv_free_device_list(devices);
  return names;
}

absl::Status NoDevice() {
  return absl::FailedPreconditionError(
      "this host has no RDMA device (ibv_devices lists none). Load the driver of the adapter; or make a software "
      "device "
      "on an Ethernet interface: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
}

absl::Status CannotOpen(absl::string_view what, int error) {
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(
        absl::StrCat("may not open ", what,
                     ": give this user access to /dev/infiniband/uverbs* and /dev/infiniband/rdma_cm (with "
                     "udev, or its group; in a container: --device=/dev/infiniband)"));
  }
  if (error == ENODEV || error == ENOENT || error == ENXIO) {
    if (DeviceNames().empty()) return NoDevice();
    return absl::FailedPreconditionError(
        absl::StrCat("cannot open ", what, ": ", strerror(error), ". RDMA devices of this host: ", Devices(),
                     ". Load the module of the connection manager: modprobe rdma_ucm"));
  }
  if (error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot open ", what, ": ", strerror(error), " (raise ulimit -n)"));
  }
  return absl::UnavailableError(absl::StrCat("cannot open ", what, ": ", strerror(error)));
}

absl::Status NoDeviceAt(absl::string_view address, int error) {
  if (DeviceNames().empty()) return NoDevice();
  if (error == ENETUNREACH || error == EHOSTUNREACH) {
    return absl::UnavailableError(
        absl::StrCat(address, ": no route there; see: ip route get HOST, and whether the interface is up"));
  }
  if (error == EADDRNOTAVAIL || error == ENODEV) {
    return absl::FailedPreconditionError(absl::StrCat(
        address, ": the address is not one of an interface with an RDMA device. RDMA devices of this host: ", Devices(),
        "; rdma link shows their interfaces, ip address the addresses of these"));
  }
  return absl::UnavailableError(absl::StrCat(address, ": ", strerror(error)));
}

std::string PortDown(absl::string_view device, ibv_port_state state) {
  return absl::StrCat("the port of ", device, " is ", ibv_port_state_str(state),
                      ": connect the cable, ip link set INTERFACE up; on InfiniBand a subnet manager must run");
}

absl::Status CannotRegister(absl::string_view what, uint64_t bytes, int error) {
  if (error == ENOMEM || error == EAGAIN) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cannot register ", bytes, " bytes for ", what, ": RLIMIT_MEMLOCK is ", MemlockLimit(),
        " for all memory that this process registers (or the device or the host has no memory left). Raise it: "
        "ulimit -l unlimited, LimitMEMLOCK=infinity in a systemd unit, --ulimit memlock=-1 for a container"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("cannot register ", bytes, " bytes for ", what, ": ", strerror(error)));
}

absl::Status DeviceGone(absl::string_view device) {
  return absl::UnavailableError(
      absl::StrCat("the RDMA device ", device, " is gone: taken away, or failed; rdma link shows which there are"));
}

absl::Status CannotCreate(absl::string_view what, absl::string_view device, int error) {
  if (error == ENODEV || error == EIO) {
    return absl::UnavailableError(absl::StrCat("the RDMA device ", device, " is gone (no ", what, " could be made)"));
  }
  const absl::string_view advice =
      error == ENOMEM   ? " (memory, the limit of locked memory (ulimit -l), or the device's resources are used up)"
      : error == EMFILE ? " (raise ulimit -n)"
                        : "";
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot make ", what, " on ", device, ": ", strerror(error), advice));
}

absl::Status CannotListen(absl::string_view address, int error) {
  if (error == EADDRINUSE) {
    return absl::AlreadyExistsError(
        absl::StrCat(address, " is in use by another server; stop it, or choose another port"));
  }
  if (error == EACCES || error == EPERM) {
    return absl::PermissionDeniedError(
        absl::StrCat(address, ": this user may not listen at ports below 1024; choose a higher one"));
  }
  return NoDeviceAt(address, error);
}

absl::Status CannotConnect(absl::string_view address, rdma_cm_event_type event, int status) {
  const int error = status < 0 ? -status : status;
  std::string what;
  switch (event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
      what = absl::StrCat("the host's address does not resolve to a path (", strerror(error),
                          "); does ping reach it, over an interface with an RDMA device?");
      break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      what =
          absl::StrCat("no route between the devices (", strerror(error), "); on InfiniBand a subnet manager must run");
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      what = absl::StrCat("the host does not answer (", strerror(error),
                          "); is it up, with an RDMA device of the same kind, and UDP port 4791 (RoCE) open?");
      break;
    case RDMA_CM_EVENT_REJECTED:
      if (status == kNobodyListens || status == -ECONNREFUSED || status == ECONNREFUSED) {
        what = kNobodyListensText;
      } else if (status == kByTheServer) {
        what = "rejected by something that is not a Farlook server";
      } else if (status == kStaleConnection) {
        what = "rejected: the host still holds an older connection with these numbers; it lets go by itself, try again";
      } else {
        what = absl::StrCat("rejected by the host's connection manager, reason ", status);
      }
      break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (error == ECONNREFUSED) {  // of iWARP, whose connections are TCP's
        what = kNobodyListensText;
        break;
      }
      [[fallthrough]];
    default:
      what = absl::StrCat(rdma_event_str(event), ", ", strerror(error));
  }
  return absl::UnavailableError(absl::StrCat(address, ": ", what));
}

absl::Status ConnectTimedOut(absl::string_view address, int64_t timeout_ms) {
  return absl::UnavailableError(
      absl::StrCat(address, ": no answer within ", timeout_ms, " ms; the server is stopped, busy, or not reachable"));
}

}  // namespace farlook::rdma::verbs
