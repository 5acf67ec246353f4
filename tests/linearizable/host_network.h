// Hosts of a test on one machine: network namespaces of Linux, and a switch between them in this process, which can
// lose packets, delay them, and drop those of one direction.
//
//     HostNetwork network(3);
//     {
//       const HostNetwork::Inside inside(&network, 1);  // sockets and processes of this thread are that host's
//       ServerProcess server(...);                      // listens at network.address(1)
//     }
//     network.Set(1, 2, {.cut = true});                 // nothing that host 1 sends arrives at host 2
//
// A host has an interface without frames (TUN) and the loopback device, and reaches the other hosts only. It needs the
// right to make namespaces (CAP_SYS_ADMIN, CAP_NET_ADMIN) and /dev/net/tun, and none of the machine's `tc` modules.
#ifndef FARLOOK_TESTS_LINEARIZABLE_HOST_NETWORK_H_
#define FARLOOK_TESTS_LINEARIZABLE_HOST_NETWORK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farlook {

// Thread safety: any thread.
class HostNetwork {
 public:
  // The state of one direction between two hosts.
  struct Link {
    bool cut = false;
    int lost_per_mille = 0;
    int delay_us = 0;
    int jitter_us = 0;  // at most this much more; packets then overtake each other
  };

  // Ends the test program, with the reason, where the kernel does not permit it.
  explicit HostNetwork(size_t hosts);
  ~HostNetwork();
  HostNetwork(const HostNetwork&) = delete;
  HostNetwork& operator=(const HostNetwork&) = delete;

  size_t hosts() const { return hosts_.size(); }
  static std::string address(size_t host) { return "10.77.0." + std::to_string(host + 1); }

  void Set(size_t from, size_t to, const Link& link);
  void SetBothWays(size_t one, size_t other, const Link& link);
  // All links are whole again.
  void Heal();

  // While it exists its thread, and threads and processes that it starts, are on that host.
  class Inside {
   public:
    Inside(HostNetwork* network, size_t host);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    const int outside_;
  };

  // Packets so far: that arrived, and that the links lost.
  uint64_t passed() const { return passed_; }
  uint64_t lost() const { return lost_; }

 private:
  struct Host {
    int space = -1, tunnel = -1;
  };
  struct Packet {
    size_t to;
    std::string bytes;
  };

  void Open(size_t host);
  void Switch();
  void Take(size_t from, const char* packet, size_t bytes);
  void Deliver(const Packet& packet);

  std::vector<Host> hosts_;
  absl::Mutex mutex_;
  std::vector<Link> links_ ABSL_GUARDED_BY(mutex_);  // [from * hosts + to]
  // Only the thread uses these two.
  std::multimap<int64_t, Packet> delayed_;  // by the time of arrival
  std::minstd_rand random_{1};
  std::atomic<uint64_t> passed_{0}, lost_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_HOST_NETWORK_H_
