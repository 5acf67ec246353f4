// The times of several hosts, whose clocks have nothing to do with each other. Somebody answers with his time; a host
// asks all the while, and knows afterwards between which two of the other's times each of its own lies. What clocks
// drift does no harm, and what delays questions and answers makes the bounds wider, not wrong. Nor does it harm that a
// guest stands still, with its clock: all that is used is that a time was read between question and answer, and that no
// clock goes back. Moments of a host that has no answers, as it is cut off from who answers, are not told apart,
// though; so where links are cut for longer than something takes that must be seen, guests ask the machine that they
// run on.
#ifndef FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_
#define FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
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

// Asks, on a thread of its own.
class TimeAsker {
 public:
  // What the other clock shows at some moment between call and return; nothing: there was no answer.
  using Question = std::function<std::optional<int64_t>()>;

  // Of a TimeServer.
  TimeAsker(const std::string& ip, int port);
  // Begins the next question so long after an answer, or none.
  TimeAsker(Question question, int pause_us);
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

  const Question question_;
  const int pause_us_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> last_asked_ns_{0};  // of an answer
  std::vector<TimeTold> told_;
  std::thread thread_;
};

// Asks the machine that guests run on (tests/vm): it notes the time in a file at each write. All guests see the same
// clock so, whatever becomes of their network, and it goes on while they stand still. `path`: a file in /run/vm, of
// this guest's own.
TimeAsker::Question MachineTime(const std::string& path);

// What was told, as a file: for another host.
bool WriteTold(const std::vector<TimeTold>& told, const std::string& path);
std::vector<TimeTold> ReadTold(const std::string& path);

// The other host's time at a moment of the asker's: not before, not after. REQUIRES there is an answer before, or
// behind, it.
int64_t EarliestThere(const std::vector<TimeTold>& told, int64_t here_ns);
int64_t LatestThere(const std::vector<TimeTold>& told, int64_t here_ns);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_
