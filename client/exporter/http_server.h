// Serves pages over HTTP, with libmicrohttpd, within bounds that hold against hostile clients. A slow caller does not
// block others: if there are too many connections, the one that was idle longest is closed.
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
  // Maximum number of connections, in total and from one address. One more closes the connection that was idle longest
  // (since it opened or its last reply), of that address or of the address with most connections.
  static constexpr unsigned kMaxConnections = 64;
  static constexpr unsigned kMaxConnectionsOfAddress = 16;
  // Seconds without a byte until a connection is closed.
  static constexpr unsigned kIdleSeconds = 10;
  // Memory of a connection, which bounds the length of a request's head.
  static constexpr size_t kConnectionBytes = 16 << 10;
  // A longer body closes its connection. All bodies are ignored.
  static constexpr size_t kMaxBodyBytes = 1 << 20;

  // `address` is HOST:PORT, with a numeric HOST; port 0: any. `page` is called for the path of each GET, on the one
  // thread of this server. INVALID_ARGUMENT: no such address; UNAVAILABLE: listening failed.
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
