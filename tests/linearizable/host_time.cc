#include "tests/linearizable/host_time.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "tests/linearizable/board.h"

namespace farlook {
namespace {

constexpr int kPatienceMs = 50;  // the link may be cut
constexpr int64_t kMostNs = 180'000'000'000;

struct Question {
  int64_t number, answer_ns;
};

sockaddr_in AddressOf(const std::string& ip, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (inet_pton(AF_INET, ip.c_str(), &address.sin_addr) != 1) std::abort();
  return address;
}

void Require(bool fine, const char* what) {
  if (fine) return;
  std::perror(what);
  std::abort();
}

// Returns whether something arrives in time.
bool Arrives(int socket) {
  pollfd wanted{socket, POLLIN, 0};
  return poll(&wanted, 1, kPatienceMs) == 1;
}

// A descriptor that the last owner closes.
std::shared_ptr<const int> Owned(int fd) {
  return {new int(fd), [](const int* owned) {
            close(*owned);
            delete owned;
          }};
}

// Nothing: the link is cut, or the interface down.
TimeAsker::Question OfServer(const std::string& ip, int port) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = AddressOf(ip, port);
  Require(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
  return [socket = Owned(fd), number = int64_t{0}]() mutable -> std::optional<int64_t> {
    Question question{++number, 0};
    if (send(*socket, &question, sizeof question, 0) != sizeof question) return std::nullopt;
    // Answers that arrive too late belong to other questions.
    while (Arrives(*socket)) {
      if (recv(*socket, &question, sizeof question, 0) == sizeof question && question.number == number) {
        return question.answer_ns;
      }
    }
    return std::nullopt;
  };
}

}  // namespace

TimeServer::TimeServer(const std::string& ip) : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = AddressOf(ip, 0);
  Require(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
  socklen_t bytes = sizeof address;
  Require(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Serve(); });
}

TimeServer::~TimeServer() {
  stop_ = true;
  thread_.join();
  close(socket_);
}

bool TimeServer::AwaitQuestion() const {
  for (const int64_t end_ns = HostNowNs() + kMostNs; !asked_ && HostNowNs() < end_ns;) usleep(1'000);
  return asked_;
}

void TimeServer::Serve() {
  while (!stop_) {
    Question question{};
    sockaddr_in from{};
    socklen_t bytes = sizeof from;
    if (!Arrives(socket_)) continue;
    if (recvfrom(socket_, &question, sizeof question, 0, reinterpret_cast<sockaddr*>(&from), &bytes) !=
        sizeof question) {
      continue;
    }
    asked_ = true;
    question.answer_ns = HostNowNs();
    sendto(socket_, &question, sizeof question, 0, reinterpret_cast<sockaddr*>(&from), bytes);
  }
}

TimeAsker::TimeAsker(const std::string& ip, int port) : TimeAsker(OfServer(ip, port), 500) {}

TimeAsker::TimeAsker(Question question, int pause_us)
    : question_(std::move(question)), pause_us_(pause_us), thread_([this] { Ask(); }) {}

TimeAsker::~TimeAsker() { Stop(); }

void TimeAsker::Ask() {
  for (; !stop_; usleep(static_cast<useconds_t>(pause_us_))) {
    const int64_t asked_ns = HostNowNs();
    const std::optional<int64_t> there_ns = question_();
    if (!there_ns.has_value()) continue;
    samples_.push_back({asked_ns, *there_ns, HostNowNs()});
    last_asked_ns_ = asked_ns;
  }
}

bool TimeAsker::AwaitAnswer() const {
  const int64_t now_ns = HostNowNs(), end_ns = now_ns + kMostNs;
  while (last_asked_ns_ < now_ns && HostNowNs() < end_ns) usleep(1'000);
  return last_asked_ns_ >= now_ns;
}

std::vector<TimeSample> TimeAsker::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return std::move(samples_);
}

TimeAsker::Question MachineTime(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  Require(fd >= 0, path.c_str());
  // The machine's kernel reads its clock when it writes the byte. If it does so in ticks of some milliseconds, moments
  // become equal, but none are reordered.
  return [file = Owned(fd)]() -> std::optional<int64_t> {
    struct stat status {};
    if (pwrite(*file, "x", 1, 0) != 1 || fstat(*file, &status) != 0) return std::nullopt;
    return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  };
}

bool WriteSamples(const std::vector<TimeSample>& samples, const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) return false;
  const bool written = std::fwrite(samples.data(), sizeof(TimeSample), samples.size(), file) == samples.size();
  return std::fclose(file) == 0 && written;
}

std::vector<TimeSample> ReadSamples(const std::string& path) {
  std::vector<TimeSample> samples;
  if (std::FILE* file = std::fopen(path.c_str(), "r"); file != nullptr) {
    TimeSample one;
    while (std::fread(&one, sizeof one, 1, file) == 1) samples.push_back(one);
    std::fclose(file);
  }
  return samples;
}

int64_t EarliestThere(const std::vector<TimeSample>& samples, int64_t here_ns) {
  const auto after = std::upper_bound(samples.begin(), samples.end(), here_ns,
                                      [](int64_t ns, const TimeSample& t) { return ns < t.answered_ns; });
  if (after == samples.begin()) std::abort();
  return std::prev(after)->there_ns;
}

int64_t LatestThere(const std::vector<TimeSample>& samples, int64_t here_ns) {
  const auto after = std::lower_bound(samples.begin(), samples.end(), here_ns,
                                      [](const TimeSample& t, int64_t ns) { return t.asked_ns < ns; });
  if (after == samples.end()) std::abort();
  return after->there_ns;
}

}  // namespace farlook
