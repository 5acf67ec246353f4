#include "tests/linearizable/host_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/linearizable/board.h"

namespace farlook {
namespace {

// Long packets: each one costs the switch two calls.
constexpr int kMtu = 16'000;

int Must(int result, const char* what) {
  if (result >= 0) return result;
  std::fprintf(stderr,
               "no network of namespaces: %s: %s (run it as root where the kernel permits namespaces and /dev/net/tun, "
               "or in a guest: tests/vm/run)\n",
               what, strerror(errno));
  std::abort();
}

int OpenSpace() { return Must(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), "/proc/thread-self/ns/net"); }

ifreq Named(const char* name) {
  ifreq request{};
  std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
  return request;
}

ifreq WithAddress(const char* name, const char* address) {
  ifreq request = Named(name);
  sockaddr_in in{};
  in.sin_family = AF_INET;
  inet_pton(AF_INET, address, &in.sin_addr);
  std::memcpy(&request.ifr_addr, &in, sizeof in);
  return request;
}

void TurnOn(int socket, const char* name) {
  ifreq request = Named(name);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  Must(ioctl(socket, SIOCSIFFLAGS, &request), name);
}

}  // namespace

HostNetwork::HostNetwork(size_t hosts) : hosts_(hosts), links_(hosts * hosts) {
  const int outside = OpenSpace();
  for (size_t i = 0; i < hosts; ++i) {
    Must(unshare(CLONE_NEWNET), "unshare");
    Open(i);
    Must(setns(outside, CLONE_NEWNET), "setns");
  }
  close(outside);
  thread_ = std::thread([this] { Switch(); });
}

HostNetwork::~HostNetwork() {
  over_ = true;
  thread_.join();
  for (const Host& host : hosts_) {
    close(host.tunnel);
    close(host.space);
  }
}

// In its new namespace.
void HostNetwork::Open(size_t host) {
  constexpr char kName[] = "tun0";
  hosts_[host].space = OpenSpace();
  hosts_[host].tunnel = Must(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC), "/dev/net/tun");
  ifreq tunnel = Named(kName);
  tunnel.ifr_flags = IFF_TUN | IFF_NO_PI;
  Must(ioctl(hosts_[host].tunnel, TUNSETIFF, &tunnel), "TUNSETIFF");
  const int config = Must(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
  ifreq request = WithAddress(kName, address(host).c_str());
  Must(ioctl(config, SIOCSIFADDR, &request), "SIOCSIFADDR");
  request = WithAddress(kName, "255.255.255.0");
  Must(ioctl(config, SIOCSIFNETMASK, &request), "SIOCSIFNETMASK");
  request = Named(kName);
  request.ifr_mtu = kMtu;
  Must(ioctl(config, SIOCSIFMTU, &request), "SIOCSIFMTU");
  TurnOn(config, kName);
  TurnOn(config, "lo");
  close(config);
}

void HostNetwork::Set(size_t from, size_t to, const Link& link) {
  absl::MutexLock lock(&mutex_);
  links_[from * hosts() + to] = link;
}

void HostNetwork::SetBothWays(size_t one, size_t other, const Link& link) {
  Set(one, other, link);
  Set(other, one, link);
}

void HostNetwork::Heal() {
  absl::MutexLock lock(&mutex_);
  std::fill(links_.begin(), links_.end(), Link());
}

// ---- The switch.

void HostNetwork::Switch() {
  std::vector<pollfd> polls;
  for (const Host& host : hosts_) polls.push_back({host.tunnel, POLLIN, 0});
  std::vector<char> packet(kMtu + 1);
  while (!over_) {
    int64_t wait_ns = 50'000'000;
    if (!delayed_.empty()) wait_ns = std::clamp<int64_t>(delayed_.begin()->first - HostNowNs(), 0, wait_ns);
    const timespec wait = {0, static_cast<long>(wait_ns)};
    ppoll(polls.data(), polls.size(), &wait, nullptr);
    for (size_t from = 0; from < hosts(); ++from) {
      // A few of each host in turn.
      for (int i = 0; i < 16; ++i) {
        const ssize_t bytes = read(hosts_[from].tunnel, packet.data(), packet.size());
        if (bytes <= 0) break;
        Take(from, packet.data(), static_cast<size_t>(bytes));
      }
    }
    while (!delayed_.empty() && delayed_.begin()->first <= HostNowNs()) {
      Deliver(delayed_.begin()->second);
      delayed_.erase(delayed_.begin());
    }
  }
}

void HostNetwork::Take(size_t from, const char* packet, size_t bytes) {
  constexpr size_t kDestination = 16;  // of an IPv4 header
  if (bytes < kDestination + 4 || (packet[0] & 0xf0) != 0x40) return;
  const size_t to = static_cast<unsigned char>(packet[kDestination + 3]) - size_t{1};
  if (to >= hosts()) return;
  Link link;
  {
    absl::MutexLock lock(&mutex_);
    link = links_[from * hosts() + to];
  }
  if (link.cut || static_cast<int>(random_() % 1'000) < link.lost_per_mille) {
    ++lost_;
    return;
  }
  Packet taken = {to, std::string(packet, bytes)};
  if (link.delay_us == 0 && link.jitter_us == 0) return Deliver(taken);
  const int64_t more_us = link.jitter_us == 0 ? 0 : static_cast<int64_t>(random_()) % link.jitter_us;
  delayed_.emplace(HostNowNs() + 1'000 * (link.delay_us + more_us), std::move(taken));
}

// A host whose queue is full loses it.
void HostNetwork::Deliver(const Packet& packet) {
  const ssize_t done = write(hosts_[packet.to].tunnel, packet.bytes.data(), packet.bytes.size());
  done < 0 ? ++lost_ : ++passed_;
}

// ---- Hosts.

HostNetwork::Inside::Inside(HostNetwork* network, size_t host) : outside_(OpenSpace()) {
  Must(setns(network->hosts_[host].space, CLONE_NEWNET), "setns");
}

HostNetwork::Inside::~Inside() {
  Must(setns(outside_, CLONE_NEWNET), "setns");
  close(outside_);
}

}  // namespace farlook
