#include "cluster/http.h"

#include <curl/curl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/steady_time.h"

namespace farlook::cluster {
namespace {

// The state of one request's callback.
struct ReplyBuffer {
  std::string* bytes;
  size_t most_bytes;
  const absl::FunctionRef<bool(absl::string_view)>* take;  // may be null
  bool enough = false;
};

// libcurl's write callback: returning another number than the bytes received ends the request.
size_t Land(char* bytes, size_t size, size_t count, void* to) {
  auto* const buffer = static_cast<ReplyBuffer*>(to);
  const size_t got = size * count;
  if (buffer->bytes->size() + got > buffer->most_bytes) return 0;
  buffer->bytes->append(bytes, got);
  if (buffer->take == nullptr) return got;
  size_t begin = 0;
  for (size_t end; (end = buffer->bytes->find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (!(*buffer->take)(absl::string_view(*buffer->bytes).substr(begin, end - begin))) {
      buffer->enough = true;
      return 0;
    }
  }
  buffer->bytes->erase(0, begin);
  return got;
}

// Only this initializes libcurl, and never cleans it up.
bool InitializeOnce() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

// A resolver's answer is cached for this time. Then it is asked again. While it does not answer, the address at which a
// host was last reached is used, and the resolver is not asked for a while.
constexpr long kResolveAgainS = 5;
constexpr absl::Duration kResolverPause = absl::Seconds(30);

// "host:port" of a URL; empty: it is no URL.
std::string HostAndPort(const std::string& url) {
  std::string result;
  CURLU* const parsed = curl_url();
  char *host = nullptr, *port = nullptr;
  if (parsed != nullptr && curl_url_set(parsed, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      curl_url_get(parsed, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
    result = absl::StrCat(host, ":", port);
  }
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(parsed);
  return result;
}

}  // namespace

struct Http::Handle {
  // The last working address of a host.
  struct Reached {
    std::string address;
    absl::Time use_until = absl::InfinitePast();  // instead of the resolver's answer
  };

  CURL* curl = InitializeOnce() ? curl_easy_init() : nullptr;
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  // etcd: end a watch of a member that has lost the leader. Not on other requests: reads that may be old would be
  // refused too.
  curl_slist* listening_headers =
      curl_slist_append(curl_slist_append(nullptr, "Content-Type: application/json"), "Grpc-Metadata-hasleader: true");

  std::map<std::string, Reached> reached;  // by host and port

  absl::Mutex mutex;
  bool is_interrupted ABSL_GUARDED_BY(mutex) = false;
  std::set<curl_socket_t> listening ABSL_GUARDED_BY(mutex);  // the sockets of PostAndListen()

  static curl_socket_t OpenSocket(void* self, curlsocktype /*purpose*/, curl_sockaddr* address) {
    auto* const handle = static_cast<Handle*>(self);
    absl::MutexLock lock(&handle->mutex);
    if (handle->is_interrupted) return CURL_SOCKET_BAD;
    const curl_socket_t opened = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (opened != CURL_SOCKET_BAD) handle->listening.insert(opened);
    return opened;
  }
  static int CloseSocket(void* self, curl_socket_t opened) {
    auto* const handle = static_cast<Handle*>(self);
    absl::MutexLock lock(&handle->mutex);
    handle->listening.erase(opened);
    return close(opened);
  }

  ~Handle() {
    curl_easy_cleanup(curl);
    curl_slist_free_all(listening_headers);
    curl_slist_free_all(headers);
  }

  // For CURLOPT_RESOLVE: the host's last working address, while the resolver does not answer. Otherwise null.
  curl_slist* Known(const std::string& host) const {
    const auto found = reached.find(host);
    if (found == reached.end() || SteadyNow() >= found->second.use_until) return nullptr;
    return curl_slist_append(nullptr, absl::StrCat("+", host, ":", found->second.address).c_str());
  }

  void Learn(const std::string& host, CURLcode code) {
    if (host.empty()) return;
    char* address = nullptr;
    curl_off_t resolved_us = 0;
    curl_easy_getinfo(curl, CURLINFO_PRIMARY_IP, &address);
    curl_easy_getinfo(curl, CURLINFO_NAMELOOKUP_TIME_T, &resolved_us);
    if (code == CURLE_OK && address != nullptr && *address != '\0') {
      const bool is_v6 = absl::StrContains(address, ':');
      reached[host].address = is_v6 ? absl::StrCat("[", address, "]") : std::string(address);
    } else if (code == CURLE_COULDNT_RESOLVE_HOST || (code == CURLE_OPERATION_TIMEDOUT && resolved_us == 0)) {
      const auto found = reached.find(host);
      if (found != reached.end()) found->second.use_until = SteadyNow() + kResolverPause;
    }
  }

  HttpReply Run(absl::string_view url, absl::string_view json, absl::Duration timeout, ReplyBuffer buffer) {
    HttpReply reply;
    if (curl == nullptr) {
      reply.sent = HttpReply::Sent::kNo;
      reply.error = "libcurl could not be initialized";
      return reply;
    }
    char why[CURL_ERROR_SIZE] = "";
    const std::string address(url), body(json);
    const long limit_ms = std::max<int64_t>(absl::ToInt64Milliseconds(timeout), 1);
    buffer.bytes = &reply.body;
    curl_easy_reset(curl);
    // When a reused connection breaks, libcurl sends the request again. A request that was done at first and failed the
    // second time would look as if it had not been done.
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_URL, address.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, limit_ms);
    // Debian's libcurl resolves on a separate thread. Without this it would wait for that thread to end, even after the
    // timeout.
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    curl_easy_setopt(curl, CURLOPT_DNS_CACHE_TIMEOUT, kResolveAgainS);
    const std::string host = HostAndPort(address);
    curl_slist* const known = Known(host);
    curl_easy_setopt(curl, CURLOPT_RESOLVE, known);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, buffer.take == nullptr ? headers : listening_headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Land);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &buffer);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    if (buffer.take != nullptr) {
      curl_easy_setopt(curl, CURLOPT_OPENSOCKETFUNCTION, &OpenSocket);
      curl_easy_setopt(curl, CURLOPT_OPENSOCKETDATA, this);
      curl_easy_setopt(curl, CURLOPT_CLOSESOCKETFUNCTION, &CloseSocket);
      curl_easy_setopt(curl, CURLOPT_CLOSESOCKETDATA, this);
    }
    const CURLcode code = curl_easy_perform(curl);
    curl_slist_free_all(known);
    Learn(host, code);
    long answer = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
    reply.code = static_cast<int>(answer);
    if (code == CURLE_OK || buffer.enough) {
      reply.sent = HttpReply::Sent::kAnswered;
      return reply;
    }
    long sent_bytes = 0;
    curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent_bytes);
    reply.sent = sent_bytes == 0 ? HttpReply::Sent::kNo : HttpReply::Sent::kMaybe;
    reply.error = absl::StrCat(address, ": ", why[0] != '\0' ? why : curl_easy_strerror(code));
    return reply;
  }
};

Http::Http() : handle_(std::make_unique<Handle>()) {}
Http::~Http() = default;

HttpReply Http::Post(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes) {
  return handle_->Run(url, json, timeout, {.bytes = nullptr, .most_bytes = most_bytes, .take = nullptr});
}

HttpReply Http::PostAndListen(absl::string_view url, absl::string_view json, absl::Duration timeout, size_t most_bytes,
                              absl::FunctionRef<bool(absl::string_view line)> take) {
  return handle_->Run(url, json, timeout, {.bytes = nullptr, .most_bytes = most_bytes, .take = &take});
}

void Http::Interrupt() {
  absl::MutexLock lock(&handle_->mutex);
  handle_->is_interrupted = true;
  for (const curl_socket_t opened : handle_->listening) shutdown(opened, SHUT_RDWR);
}

bool Http::TakeInterrupt() {
  absl::MutexLock lock(&handle_->mutex);
  return std::exchange(handle_->is_interrupted, false);
}

}  // namespace farlook::cluster
