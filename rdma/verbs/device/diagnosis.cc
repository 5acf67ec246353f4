#include "rdma/verbs/device/diagnosis.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::rdma::verbs {
namespace {

// Reject reasons of the connection manager of InfiniBand and RoCE (ib_cm_rej_reason).
constexpr int kNoServerListens = 8;  // IB_CM_REJ_INVALID_SERVICE_ID
constexpr int kByTheServer = 28;     // IB_CM_REJ_CONSUMER_DEFINED
constexpr int kStaleConnection = 10;

constexpr char kNoServerListensText[] = "refused: no server listens there";

std::string MemlockLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return limit.rlim_cur == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit.rlim_cur, " bytes");
}

constexpr char kFiles[] = "/dev/infiniband";

// Returns the names in a directory, without hidden ones.
std::vector<std::string> Entries(const char* path) {
  std::vector<std::string> names;
  DIR* const directory = opendir(path);
  if (directory == nullptr) return names;
  while (const dirent* entry = readdir(directory)) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  closedir(directory);
  return names;
}

// Returns a file that verbs need and this process may not open; empty if there is none. The errno of the libraries is
// not informative.
std::string ForbiddenFile() {
  for (const std::string& name : Entries(kFiles)) {
    if (name != "rdma_cm" && !absl::StartsWith(name, "uverbs")) continue;
    std::string path = absl::StrCat(kFiles, "/", name);
    if (access(path.c_str(), R_OK | W_OK) != 0 && (errno == EACCES || errno == EPERM)) return path;
  }
  return "";
}

absl::Status MayNotOpen(absl::string_view what) {
  return absl::PermissionDeniedError(
      absl::StrCat("may not open ", what,
                   ": give this user access to /dev/infiniband/uverbs* and /dev/infiniband/rdma_cm (with "
                   "udev, or its group; in a container: --device=/dev/infiniband)"));
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
  if (Entries("/sys/class/infiniband").empty()) {
    return absl::FailedPreconditionError(
        "this host has no RDMA device (ibv_devices lists none). Load the driver of the adapter; or make a software "
        "device on an Ethernet interface: modprobe rdma_rxe && rdma link add rxe0 type rxe netdev eth0");
  }
  const std::vector<std::string> offered = Entries("/sys/class/infiniband_verbs");
  bool any = false;
  for (const std::string& name : offered) {
    if (!absl::StartsWith(name, "uverbs")) continue;
    any = true;
    const std::string path = absl::StrCat(kFiles, "/", name);
    if (access(path.c_str(), F_OK) != 0) return NoFile(path);
  }
  if (!any) {
    return absl::FailedPreconditionError(
        "the kernel has RDMA devices and offers them to no program: modprobe ib_uverbs");
  }
  if (const std::string forbidden = ForbiddenFile(); !forbidden.empty()) return MayNotOpen(forbidden);
  return absl::FailedPreconditionError(
      "the kernel has RDMA devices, for which no driver library is installed: apt install ibverbs-providers");
}

absl::Status NoFile(absl::string_view path) {
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   " is missing, by which programs use an RDMA device: let udev make it; in a container: "
                   "--device=/dev/infiniband"));
}

absl::Status CannotOpen(absl::string_view what, int error) {
  if (error == EACCES || error == EPERM) return MayNotOpen(what);
  if (error == ENODEV || error == ENOENT || error == ENXIO) {
    if (DeviceNames().empty()) return NoDevice();
    if (const std::string forbidden = ForbiddenFile(); !forbidden.empty()) return MayNotOpen(forbidden);
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
    if (const std::string forbidden = ForbiddenFile(); !forbidden.empty()) return MayNotOpen(forbidden);
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

absl::Status IsLoopback(absl::string_view address) {
  return absl::FailedPreconditionError(
      absl::StrCat(address,
                   ": a loopback address belongs to no RDMA device; write the address of an interface with one "
                   "(rdma link, ip address), or use shm:// or tcp:// on one host"));
}

absl::Status DeviceGone(absl::string_view device) {
  return absl::UnavailableError(
      absl::StrCat("the RDMA device ", device, " is gone: removed or failed; rdma link lists the present devices"));
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
        absl::StrCat(address, " is in use, by another server or another address of this one; choose another port"));
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
      if (status == kNoServerListens || status == -ECONNREFUSED || status == ECONNREFUSED) {
        what = kNoServerListensText;
      } else if (status == kByTheServer) {
        what =
            "rejected: nothing listens at this address of the device, though perhaps at another one, or it is not a "
            "Farlook server";
      } else if (status == kStaleConnection) {
        what = "rejected: the host still holds an older connection with these numbers; it expires by itself; try again";
      } else {
        what = absl::StrCat("rejected by the host's connection manager, reason ", status);
      }
      break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      if (error == ECONNREFUSED) {  // iWARP's connections are TCP's
        what = kNoServerListensText;
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
