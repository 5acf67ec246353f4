#include "client/exporter/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <list>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farlook::exporter {
namespace {

// Returns a socket that listens at the address.
absl::StatusOr<int> Listen(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  if (colon == absl::string_view::npos || host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no HOST:PORT, such as 127.0.0.1:9560"));
  }
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const std::string port(address.substr(colon + 1));
  // getaddrinfo() would use the lower half of a larger number.
  if (uint32_t number; !absl::SimpleAtoi(port, &number) || number > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\": a port is a number to 65535"));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", address, "\" is no HOST:PORT in numbers, such as 127.0.0.1:9560: ", gai_strerror(error)));
  }
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  const bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                    bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, /*backlog=*/64) == 0;
  const int failed = errno;
  freeaddrinfo(found);
  if (good) return fd;
  if (fd >= 0) close(fd);
  return absl::UnavailableError(absl::StrCat("cannot listen at ", address, ": ", strerror(failed)));
}

// Connections that are being closed to make room.
constexpr unsigned kClosing = 64;

std::string HostOf(const sockaddr& address) {
  char host[NI_MAXHOST] = "";
  const socklen_t bytes = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  getnameinfo(&address, bytes, host, sizeof(host), nullptr, 0, NI_NUMERICHOST);
  return host;
}

// Returns the path of a request's target, which may be a whole URL.
absl::string_view PathOf(absl::string_view target) {
  if (!absl::StartsWithIgnoreCase(target, "http://")) return target;
  const size_t path = target.find('/', strlen("http://"));
  return path == absl::string_view::npos ? "/" : target.substr(path);
}

}  // namespace

// All callbacks run on the daemon's thread.
struct HttpServer::Daemon {
  // A connection. `callers` begins with the one that was idle longest.
  struct Caller {
    std::string address;
    int fd;
    size_t body_bytes = 0;  // of the current request
    std::list<Caller*>::iterator place;
  };

  std::function<HttpPage(absl::string_view)> page;
  MHD_Daemon* daemon = nullptr;
  uint16_t port = 0;
  std::list<Caller*> callers;
  std::map<std::string, unsigned> callers_of;  // by address

  void Come(Caller* caller) {
    caller->place = callers.insert(callers.end(), caller);
    if (++callers_of[caller->address] > kMaxConnectionsOfAddress) return MakeRoom(caller->address);
    if (callers.size() <= kMaxConnections) return;
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    MakeRoom(std::max_element(callers_of.begin(), callers_of.end(), fewer)->first);
  }
  void Go(Caller* caller) {
    if (caller->fd < 0) return;
    caller->fd = -1;
    callers.erase(caller->place);
    if (const auto of = callers_of.find(caller->address); --of->second == 0) callers_of.erase(of);
  }
  // Shuts down the first connection of that address; the daemon sees the end of its input, and closes it.
  void MakeRoom(const std::string& address) {
    Caller* const first =
        *std::find_if(callers.begin(), callers.end(), [&](const Caller* one) { return one->address == address; });
    shutdown(first->fd, SHUT_RDWR);
    Go(first);
  }

  static void OnConnection(void* self, MHD_Connection* connection, void** context,
                           MHD_ConnectionNotificationCode what) {
    auto* const daemon = static_cast<Daemon*>(self);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
      const std::unique_ptr<Caller> caller(static_cast<Caller*>(*context));
      if (caller != nullptr) daemon->Go(caller.get());
      return;
    }
    const auto* const fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const auto* const address = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    auto caller = std::make_unique<Caller>();
    caller->fd = fd->connect_fd;
    caller->address = HostOf(*address->client_addr);
    daemon->Come(caller.get());
    *context = caller.release();
  }

  static MHD_Result Answer(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                           const char*, size_t* body_bytes, void** seen) {
    auto* const daemon = static_cast<Daemon*>(self);
    auto* const caller =
        static_cast<Caller*>(MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
    // Called first with the head, then with each piece of a body, then at the end.
    if (std::exchange(*seen, caller) == nullptr) {
      caller->body_bytes = 0;
      return MHD_YES;
    }
    caller->body_bytes += *body_bytes;
    if (caller->body_bytes > kMaxBodyBytes) return MHD_NO;  // closes the connection
    if (std::exchange(*body_bytes, 0) != 0) return MHD_YES;
    if (caller->fd >= 0) daemon->callers.splice(daemon->callers.end(), daemon->callers, caller->place);
    HttpPage page;
    const bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    if (reads) {
      page = daemon->page(PathOf(url));
    } else {
      page.status = MHD_HTTP_METHOD_NOT_ALLOWED;
      page.text = "only GET\n";
    }
    MHD_Response* const response =
        MHD_create_response_from_buffer(page.text.size(), page.text.data(), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page.type.c_str());
    if (!reads) MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const MHD_Result result = MHD_queue_response(connection, page.status, response);
    MHD_destroy_response(response);
    return result;
  }
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(absl::string_view address,
                                                              std::function<HttpPage(absl::string_view)> page) {
  const absl::StatusOr<int> fd = Listen(address);
  if (!fd.ok()) return fd.status();
  auto daemon = std::make_unique<Daemon>();
  daemon->page = std::move(page);
  sockaddr_storage bound = {};
  socklen_t bytes = sizeof(bound);
  if (getsockname(*fd, reinterpret_cast<sockaddr*>(&bound), &bytes) == 0) {
    daemon->port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&bound)->sin6_port
                                                     : reinterpret_cast<sockaddr_in*>(&bound)->sin_port);
  }
  daemon->daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, /*port=*/0, nullptr, nullptr, &Daemon::Answer, daemon.get(),
                       MHD_OPTION_LISTEN_SOCKET, *fd, MHD_OPTION_CONNECTION_LIMIT, kMaxConnections + kClosing,
                       MHD_OPTION_NOTIFY_CONNECTION, &Daemon::OnConnection, daemon.get(), MHD_OPTION_CONNECTION_TIMEOUT,
                       kIdleSeconds, MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_END);
  if (daemon->daemon == nullptr) {
    close(*fd);
    return absl::UnavailableError(
        absl::StrCat("cannot serve HTTP at ", address, " (threads or descriptors are short)"));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(daemon)));
}

HttpServer::HttpServer(std::unique_ptr<Daemon> daemon) : daemon_(std::move(daemon)) {}
HttpServer::~HttpServer() { MHD_stop_daemon(daemon_->daemon); }
uint16_t HttpServer::port() const { return daemon_->port; }

}  // namespace farlook::exporter
