// TCP connections on this host that can be cut: bytes that arrive at one port are sent on to another, unless the link
// is cut.
#ifndef FARLOOK_TESTS_LINEARIZABLE_RELAY_H_
#define FARLOOK_TESTS_LINEARIZABLE_RELAY_H_

#include <atomic>
#include <list>
#include <string>
#include <thread>

namespace farlook {

// Thread safety: any thread.
class Relay {
 public:
  // `to`: "127.0.0.1:port". Ends the test program when it cannot listen.
  explicit Relay(const std::string& to);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // The address to connect to, "127.0.0.1:port".
  const std::string& address() const { return address_; }
  // While the link is cut no bytes move, and no side is notified: as where packets are lost.
  void Cut(bool cut) { cut_ = cut; }

 private:
  struct Pair {
    int near = -1, far = -1;
  };

  void Run();
  void Accept();

  const int to_port_;
  int listener_ = -1;
  std::string address_;
  std::list<Pair> pairs_;  // of the thread
  std::atomic<bool> cut_{false}, over_{false};
  std::thread thread_;
};

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_RELAY_H_
