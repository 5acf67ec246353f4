// The times of two hosts, whose clocks have nothing to do with each other. One answers with its time; the other asks
// all the time, and knows afterwards between which two of the first's times each of its own lies. What clocks drift
// does no harm, and what the network delays makes the bounds wider, not wrong.
#ifndef FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_
#define FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace farlook {

// Answers datagrams with this host's time (HostNowNs()), on a thread of its own.
class TimeServer {
 public:
  explicit TimeServer(const std::string& ip);
  ~TimeServer();
  TimeServer(const TimeServer&) = delete;
  TimeServer& operator=(const TimeServer&) = delete;

  int port() const { return port_; }
  // Waits until somebody asks; false after three minutes.
  bool AwaitQuestion() const;

 private:
  void Serve();

  int socket_;
  int port_ = 0;
  std::atomic<bool> stop_{false}, asked_{false};
  std::thread thread_;
};

// What one answer told: the other host's clock showed `there_ns` at some moment between these two of this host's.
struct TimeTold {
  int64_t asked_ns, there_ns, answered_ns;
};

// Asks a TimeServer, on a thread of its own.
class TimeAsker {
 public:
  TimeAsker(const std::string& ip, int port);
  ~TimeAsker();
  TimeAsker(const TimeAsker&) = delete;
  TimeAsker& operator=(const TimeAsker&) = delete;

  // Waits until something was told that was asked from now on; false after three minutes. Before the first operation,
  // and after the last, so that each lies between two answers.
  bool AwaitAnswer() const;
  // Asks no more. In order of time.
  std::vector<TimeTold> Stop();

 private:
  void Ask();

  int socket_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> last_asked_ns_{0};  // of an answer
  std::vector<TimeTold> told_;
  std::thread thread_;
};

// The other host's time at a moment of the asker's: not before, not after. REQUIRES there is an answer before, or
// behind, it.
int64_t EarliestThere(const std::vector<TimeTold>& told, int64_t here_ns);
int64_t LatestThere(const std::vector<TimeTold>& told, int64_t here_ns);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_
