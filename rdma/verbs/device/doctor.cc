#include "rdma/verbs/device/doctor.h"

#include <infiniband/verbs.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "rdma/address.h"
#include "rdma/host/resolver.h"
#include "rdma/verbs/device/cm.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/device/numa_node.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {
namespace {

// Approximate bytes that a client registers: with one connection, and with several.
constexpr uint64_t kLeastClientBytes = 1 << 20;
constexpr uint64_t kClientBytes = 8 << 20;
constexpr uint64_t kServerMessageBytes = 1 << 20;  // of a server with few clients, approximately
constexpr int kResolveMs = 3000;
constexpr int kCapIpcLock = 14;  // linux/capability.h

struct ListFree {
  void operator()(ibv_device** list) const { ibv_free_device_list(list); }
};
struct ContextClose {
  void operator()(ibv_context* context) const { ibv_close_device(context); }
};

int MtuBytes(ibv_mtu mtu) { return 128 << static_cast<int>(mtu); }

bool LinkLocal(const ibv_gid& gid) { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

std::string InterfaceName(uint32_t index) {
  char name[IF_NAMESIZE];
  return if_indextoname(index, name) == nullptr ? "" : name;
}

// Returns whether this process is exempt from limits of locked memory.
bool MayLockAll() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    absl::string_view rest = line;
    uint64_t bits;
    if (absl::StartsWith(rest, "CapEff:") && absl::SimpleHexAtoi(rest.substr(7), &bits)) {
      return (bits >> kCapIpcLock & 1) != 0;
    }
  }
  return false;
}

Finding ExamineConnectionManager() {
  constexpr char kPath[] = "/dev/infiniband/rdma_cm";
  if (access(kPath, R_OK | W_OK) == 0) return Good("the connection manager (rdma_cm) is there");
  const int error = errno;
  if (error == ENOENT) return Trouble(absl::StrCat(kPath, " is missing: modprobe rdma_ucm"));
  return Trouble(CannotOpen(kPath, error));
}

// RoCE and iWARP take their addresses from network interfaces.
void ExamineAddresses(ibv_context* context, const std::string& name, Findings* findings) {
  std::vector<ibv_gid_entry> gids(256);
  const ssize_t count = ibv_query_gid_table(context, gids.data(), gids.size(), 0);
  bool routable = false;
  std::string interface;
  for (ssize_t i = 0; i < count; ++i) {
    if (gids[static_cast<size_t>(i)].ndev_ifindex != 0) {
      interface = InterfaceName(gids[static_cast<size_t>(i)].ndev_ifindex);
    }
    routable = routable || !LinkLocal(gids[static_cast<size_t>(i)].gid);
  }
  if (interface.empty()) interface = "INTERFACE";
  if (!routable) {
    findings->push_back(
        Trouble(absl::StrCat(name,
                             " has no address but a link-local one, which no other host can reach: ip address "
                             "add 10.0.0.1/24 dev ",
                             interface)));
    return;
  }
  findings->push_back(
      Good(absl::StrCat(name, " has the addresses of ", interface, " (ip address show dev ", interface, ")")));
}

void ExaminePort(ibv_context* context, const std::string& name, uint8_t number, Findings* findings) {
  ibv_port_attr port = {};
  if (const int error = ibv_query_port(context, number, &port); error != 0) {
    findings->push_back(
        Trouble(absl::StrCat("port ", number, " of ", name, " does not report its state: ", strerror(error))));
    return;
  }
  const std::string full_name = absl::StrCat(name, " port ", number);
  if (port.state != IBV_PORT_ACTIVE) {
    findings->push_back(Trouble(PortDown(name, port.state)));
    return;
  }
  findings->push_back(Good(absl::StrCat(full_name, " is active")));
  const bool iwarp = context->device->transport_type == IBV_TRANSPORT_IWARP;
  if (!iwarp && port.active_mtu < port.max_mtu) {
    findings->push_back(Advice(absl::StrCat(full_name, " sends packets of ", MtuBytes(port.active_mtu),
                                            " bytes and could of ", MtuBytes(port.max_mtu),
                                            ": give the interfaces of both hosts, and switches between, a larger MTU ",
                                            "(ip link set INTERFACE mtu 4200, or 9000); all must agree")));
  }
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET && !iwarp) ExamineAddresses(context, full_name, findings);
}

absl::Status TryRegister(ibv_pd* domain, uint64_t bytes) {
  std::vector<char> memory(bytes);
  const int access = IBV_ACCESS_LOCAL_WRITE;  // a variable, as the macro would mix two enumerations
  ibv_mr* const region = ibv_reg_mr(domain, memory.data(), memory.size(), access);
  if (region == nullptr) return CannotRegister("a client", memory.size(), errno);
  ibv_dereg_mr(region);
  return absl::OkStatus();
}

void ExamineDevice(ibv_device* device, Findings* findings) {
  const std::string name = ibv_get_device_name(device);
  // Checks the file: the errno of ibv_open_device is not informative.
  const std::string file = absl::StrCat("/dev/infiniband/", device->dev_name);
  if (access(file.c_str(), R_OK | W_OK) != 0) {
    findings->push_back(Trouble(errno == ENOENT ? NoFile(file) : CannotOpen(file, errno)));
    return;
  }
  errno = 0;
  const std::unique_ptr<ibv_context, ContextClose> context(ibv_open_device(device));
  if (context == nullptr) {
    findings->push_back(Trouble(CannotOpen(name, errno)));
    return;
  }
  ibv_device_attr attributes = {};
  if (const int error = ibv_query_device(context.get(), &attributes); error != 0) {
    findings->push_back(Trouble(CannotOpen(name, error)));
    return;
  }
  const int node = NumaNodeOf(name);
  findings->push_back(Good(absl::StrCat(
      "device ", name, ": ", device->transport_type == IBV_TRANSPORT_IWARP ? "iWARP" : "RoCE or InfiniBand", ", ",
      attributes.max_qp_rd_atom, " READs at once, ",
      HasAtomics(attributes.atomic_cap) ? "atomics" : "no atomics (counters become messages)",
      node < 0 ? "" : absl::StrCat(", NUMA node ", node))));
  for (uint8_t port = 1; port <= attributes.phys_port_cnt; ++port) ExaminePort(context.get(), name, port, findings);

  // The first steps of a client.
  const std::unique_ptr<ibv_pd, int (*)(ibv_pd*)> domain(ibv_alloc_pd(context.get()),
                                                         [](ibv_pd* pd) { return ibv_dealloc_pd(pd); });
  if (domain == nullptr) return;
  const absl::Status several = TryRegister(domain.get(), kClientBytes);
  if (several.ok()) return findings->push_back(Good(absl::StrCat("memory can be registered with ", name)));
  const absl::Status one = TryRegister(domain.get(), kLeastClientBytes);
  findings->push_back(one.ok() ? Advice(absl::StrCat("a client with one connection can register its memory with ", name,
                                                     "; for one with several: ", several.message()))
                               : Trouble(one));
}

// Checks whether the route to one of a host's addresses leads through a device.
Finding ExamineRouteTo(SocketAddress* remote, const std::string& shown) {
  rdma_cm_id* made = nullptr;
  if (rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP) != 0) {  // without a channel: calls block
    return Trouble(CannotOpen("/dev/infiniband/rdma_cm", errno));
  }
  const CmId id(made);
  if (rdma_resolve_addr(id.get(), nullptr, remote->get(), kResolveMs) != 0) return Trouble(NoDeviceAt(shown, errno));
  if (rdma_resolve_route(id.get(), kResolveMs) != 0) {
    return Trouble(CannotConnect(shown, RDMA_CM_EVENT_ROUTE_ERROR, -errno));
  }
  return Good(absl::StrCat("the way to ", shown, " leads over ", ibv_get_device_name(id->verbs->device)));
}

}  // namespace

Findings ExamineHost() {
  Findings findings;
  int count = 0;
  const std::unique_ptr<ibv_device*, ListFree> devices(ibv_get_device_list(&count));
  if (devices == nullptr || count == 0) return {Trouble(NoDevice())};
  findings.push_back(ExamineConnectionManager());
  for (int i = 0; i < count; ++i) ExamineDevice(devices.get()[i], &findings);
  return findings;
}

Finding ExamineLockedMemory(uint64_t bytes) {
  bytes += kServerMessageBytes;
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes || MayLockAll()) {
    return Good("the limit of locked memory is high enough");
  }
  return Trouble(CannotRegister("table, counters and messages", bytes, ENOMEM));
}

Findings ExamineRoute(const Address& address) {
  absl::StatusOr<SocketAddresses> remotes = ResolveWithin(address, kResolveMs);
  if (!remotes.ok()) return {Trouble(remotes.status())};
  Findings findings;
  const std::string shown = FormatAddress(address);
  for (SocketAddress& remote : *remotes) {
    findings.push_back(remote.is_loopback() ? Trouble(IsLoopback(shown)) : ExamineRouteTo(&remote, shown));
    if (findings.back().level == Finding::Level::kGood) return {findings.back()};
  }
  return findings;
}

}  // namespace farlook::rdma::verbs
