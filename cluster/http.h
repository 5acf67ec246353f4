// One HTTP POST after the other, each sent once at most and over a connection of its own, by libcurl.
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
    kNo,     // the peer has nothing of the request, and never will
    kMaybe,  // the connection broke, or no answer came in time
    kAnswered,
  };
  Sent sent = Sent::kMaybe;
  int code = 0;       // HTTP's; kAnswered only
  std::string body;   // kAnswered: whole
  std::string error;  // else: what happened
};

// Thread safety: used by one thread at a time. Proxies of the environment are not used.
class Http {
 public:
  Http();
  ~Http();
  Http(const Http&) = delete;
  Http& operator=(const Http&) = delete;

  // Posts JSON. A longer answer than `most_bytes` is an error.
  HttpReply Post(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes);

  // Posts JSON, and hands over each line of an answer that does not end, until `take` returns false (kAnswered),
  // `timeout` is over or the connection breaks (kMaybe).
  HttpReply PostAndListen(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes,
                          absl::FunctionRef<bool(absl::string_view line)> take);

 private:
  struct Handle;
  const std::unique_ptr<Handle> handle_;
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_HTTP_H_
