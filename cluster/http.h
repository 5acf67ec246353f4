// Sequential HTTP POSTs, each sent at most once and over a separate connection, by libcurl.
#ifndef FARLOOK_CLUSTER_HTTP_H_
#define FARLOOK_CLUSTER_HTTP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace farlook::cluster {

struct HttpReply {
  enum class Sent : uint8_t {
    kNo,     // the peer has not received the request, and never will
    kMaybe,  // the connection broke, or no answer came in time
    kAnswered,
  };
  Sent sent = Sent::kMaybe;
  int code = 0;       // HTTP's; only for kAnswered
  std::string body;   // kAnswered: complete
  std::string error;  // otherwise: what happened
};

// Thread safety: used by one thread at a time, but for Interrupt(). Proxies of the environment are not used.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Posts JSON. An answer longer than `most_bytes` is an error.
  HttpReply Post(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes);

  // Posts JSON, and passes each line of an unending answer to `take` until it returns false (kAnswered), the `timeout`
  // expires or the connection breaks (kMaybe).
  HttpReply PostAndListen(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes,
                          absl::FunctionRef<bool(absl::string_view line)> take);

  // Ends one PostAndListen(), the one under way or the next, like a connection that breaks. Any thread.
  void Interrupt();
  // Returns whether Interrupt() was called since the last call of this.
  bool TakeInterrupt();

 private:
  struct Handle;
  const std::unique_ptr<Handle> handle_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_HTTP_H_
