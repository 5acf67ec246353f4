#include "tests/linearizable/host_time.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
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

// Whether something arrives in time.
bool Arrives(int socket) {
  pollfd wanted{socket, POLLIN, 0};
  return poll(&wanted, 1, kPatienceMs) == 1;
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

TimeAsker::TimeAsker(const std::string& ip, int port) : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = AddressOf(ip, port);
  Require(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, "connect");
  thread_ = std::thread([this] { Ask(); });
}

TimeAsker::~TimeAsker() {
  Stop();
  close(socket_);
}

void TimeAsker::Ask() {
  for (int64_t number = 1; !stop_; ++number) {
    Question question{number, 0};
    const int64_t asked_ns = HostNowNs();
    if (send(socket_, &question, sizeof question, 0) != sizeof question) {
      usleep(1'000);  // the interface may be down
      continue;
    }
    // Answers that come too late are of other questions.
    bool answered = false;
    while (!answered && Arrives(socket_)) {
      answered = recv(socket_, &question, sizeof question, 0) == sizeof question && question.number == number;
    }
    if (!answered) continue;
    told_.push_back({asked_ns, question.answer_ns, HostNowNs()});
    last_asked_ns_ = asked_ns;
    usleep(500);
  }
}

bool TimeAsker::AwaitAnswer() const {
  const int64_t now_ns = HostNowNs(), end_ns = now_ns + kMostNs;
  while (last_asked_ns_ < now_ns && HostNowNs() < end_ns) usleep(1'000);
  return last_asked_ns_ >= now_ns;
}

std::vector<TimeTold> TimeAsker::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
  return std::move(told_);
}

int64_t EarliestThere(const std::vector<TimeTold>& told, int64_t here_ns) {
  const auto after = std::upper_bound(told.begin(), told.end(), here_ns,
                                      [](int64_t ns, const TimeTold& t) { return ns < t.answered_ns; });
  if (after == told.begin()) std::abort();
  return std::prev(after)->there_ns;
}

int64_t LatestThere(const std::vector<TimeTold>& told, int64_t here_ns) {
  const auto after = std::lower_bound(told.begin(), told.end(), here_ns,
                                      [](const TimeTold& t, int64_t ns) { return t.asked_ns < ns; });
  if (after == told.end()) std::abort();
  return after->there_ns;
}

}  // namespace farlook
