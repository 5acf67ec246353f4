#include "client/exporter/http_server.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farlook::exporter {
namespace {

// A socket that listens there.
absl::StatusOr<int> Listen(absl::string_view address) {
  const size_t colon = address.rfind(':');
  absl::string_view host = address.substr(0, colon);
  if (colon == absl::string_view::npos || host.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is no HOST:PORT, such as 127.0.0.1:9560"));
  }
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  const std::string port(address.substr(colon + 1));
  // getaddrinfo() takes the lower half of a longer one.
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

}  // namespace

struct HttpServer::Daemon {
  std::function<HttpPage(absl::string_view)> page;
  MHD_Daemon* daemon = nullptr;
  uint16_t port = 0;

  static MHD_Result Answer(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                           const char*, size_t* body_bytes, void** seen) {
    // Called with the head first, then with each piece of a body, then at the end.
    static char head;
    if (*seen == nullptr) {
      *seen = &head;
      return MHD_YES;
    }
    if (*body_bytes != 0) return MHD_NO;  // closes the connection
    HttpPage page;
    if (strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0) {
      page = static_cast<Daemon*>(self)->page(url);
    } else {
      page.status = MHD_HTTP_METHOD_NOT_ALLOWED;
      page.text = "only GET\n";
    }
    MHD_Response* const response =
        MHD_create_response_from_buffer(page.text.size(), page.text.data(), MHD_RESPMEM_MUST_COPY);
    if (response == nullptr) return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, page.type.c_str());
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
                       MHD_OPTION_LISTEN_SOCKET, *fd, MHD_OPTION_CONNECTION_LIMIT, kMaxConnections,
                       MHD_OPTION_PER_IP_CONNECTION_LIMIT, kMaxConnectionsOfAddress, MHD_OPTION_CONNECTION_TIMEOUT,
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
