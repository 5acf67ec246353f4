// Serves pages over HTTP, with libmicrohttpd, within bounds that a hostile client cannot leave.
#ifndef FARLOOK_CLIENT_EXPORTER_HTTP_SERVER_H_
#define FARLOOK_CLIENT_EXPORTER_HTTP_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farlook::exporter {

struct HttpPage {
  unsigned status = 200;
  std::string text;
  std::string type = "text/plain; charset=utf-8";
};

class HttpServer {
 public:
  // Connections at once, of all clients and of one address; more are closed. Seconds without a byte until one is
  // closed. Memory of each, which bounds the length of a request's head; bodies are refused.
  static constexpr unsigned kMaxConnections = 64;
  static constexpr unsigned kMaxConnectionsOfAddress = 16;
  static constexpr unsigned kIdleSeconds = 10;
  static constexpr size_t kConnectionBytes = 16 << 10;

  // `address` is HOST:PORT, HOST in numbers; port 0: any. `page` is asked for the path of each GET, on the one thread
  // of this server. INVALID_ARGUMENT: no such address; UNAVAILABLE: it cannot be listened at.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(absl::string_view address,
                                                           std::function<HttpPage(absl::string_view)> page);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;

 private:
  struct Daemon;
  explicit HttpServer(std::unique_ptr<Daemon> daemon);
  std::unique_ptr<Daemon> daemon_;
};

}  // namespace farlook::exporter

#endif  // FARLOOK_CLIENT_EXPORTER_HTTP_SERVER_H_
