// The times of several hosts, whose clocks are independent. A server answers with its host's time. Another host asks
// continually, and knows afterwards between which two of the other's times each of its own lies. Drift of clocks does
// no harm, and delays of questions and answers make the bounds wider, not wrong. A stopped guest, with its clock, does
// no harm either: the method uses only that a time was read between question and answer, and that no clock goes back.
// But moments of a host that is cut off from the answering host are not distinguished. So where links are cut for
// longer than an event that must be seen, guests ask the machine that they run on.
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

// Answers datagrams with this host's time (HostNowNs()), on a separate thread.
class TimeServer {
 public:
  explicit TimeServer(const std::string& ip);
  ~TimeServer();
  TimeServer(const TimeServer&) = delete;
  TimeServer& operator=(const TimeServer&) = delete;

  int port() const { return port_; }
  // Waits until a question arrives; false after three minutes.
  bool AwaitQuestion() const;

 private:
  void Serve();

  int socket_;
  int port_ = 0;
  std::atomic<bool> stop_{false}, asked_{false};
  std::thread thread_;
};

// The content of one answer: the other host's clock showed `there_ns` at some moment between these two of this host's.
struct TimeSample {
  int64_t asked_ns, there_ns, answered_ns;
};

// Asks, on a separate thread.
class TimeAsker {
 public:
  // Returns what the other clock shows at some moment between call and return; nothing: there was no answer.
  using Question = std::function<std::optional<int64_t>()>;

  // Asks a TimeServer.
  TimeAsker(const std::string& ip, int port);
  // Begins the next question so long after an answer, or none.
  TimeAsker(Question question, int pause_us);
  ~TimeAsker();
  TimeAsker(const TimeAsker&) = delete;
  TimeAsker& operator=(const TimeAsker&) = delete;

  // Waits until an answer arrives to a question that was asked from now on; false after three minutes. Call it before
  // the first operation, and after the last, so that each lies between two answers.
  bool AwaitAnswer() const;
  // Asks no more. In order of time.
  std::vector<TimeSample> Stop();

 private:
  void Ask();

  const Question question_;
  const int pause_us_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> last_asked_ns_{0};  // of an answer
  std::vector<TimeSample> samples_;
  std::thread thread_;
};

// Asks the machine that guests run on (tests/vm): it notes the time in a file at each write. So all guests see the same
// clock, whatever the state of their network, and it continues while they are stopped. `path`: a file in /run/vm, of
// this guest only.
TimeAsker::Question MachineTime(const std::string& path);

// Writes the answers to a file: for another host.
bool WriteSamples(const std::vector<TimeSample>& samples, const std::string& path);
std::vector<TimeSample> ReadSamples(const std::string& path);

// Returns the other host's time at a moment of the asking host: not before, not after. REQUIRES there is an answer
// before, or behind, it.
int64_t EarliestThere(const std::vector<TimeSample>& samples, int64_t here_ns);
int64_t LatestThere(const std::vector<TimeSample>& samples, int64_t here_ns);

}  // namespace farlook

#endif  // FARLOOK_TESTS_LINEARIZABLE_HOST_TIME_H_
