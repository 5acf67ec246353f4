// A client of a simulated run that breaks the protocol. It sends garbage, requests that are cut short or changed,
// numbers beyond its window, and values that cannot be pulled. It READs where it has no right to, does not read its
// answers, acknowledges nothing, and connects and disconnects. It writes only keys of its own.
#ifndef FARLOOK_TESTS_SIM_HOSTILE_H_
#define FARLOOK_TESTS_SIM_HOSTILE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "rdma/sim/network.h"
#include "rdma/transport.h"
#include "tests/sim/world.h"

namespace farlook::sim {

// Thread safety: one thread. Its connection ends before the network does.
class Hostile {
 public:
  // Parties from here on are hostile.
  static constexpr rdma::sim::Party kFirst = 3000;

  Hostile(World* world, int number, std::string address);

  // Takes some more steps.
  void Wake(int acts);
  // It is gone.
  void End();
  // Connections on which a server said something.
  uint64_t accepted() const { return accepted_; }

 private:
  void Act();
  void Come();
  void Look();
  void Greet();
  void SendNext();
  void ReachOut();
  std::string Request();

  World* const world_;
  const std::string address_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;
  std::array<uint64_t, 64> memory_{};
  int acts_left_ = 0;
  uint64_t numbers_ = 0;  // the last request number on this connection
  uint64_t accepted_ = 0;
  bool connected_ = false;
  bool welcome_ = false;          // the server has said something
  bool ignores_replies_ = false;  // does not look at what it is told
  int words_left_ = 0;            // after which it is silent
  bool over_ = false;
};

}  // namespace farlook::sim

#endif  // FARLOOK_TESTS_SIM_HOSTILE_H_
