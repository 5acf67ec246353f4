#include "cluster/http.h"

#include <curl/curl.h>

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farlook::cluster {
namespace {

// What the callback of one request works on.
struct Landing {
  std::string* bytes;
  size_t most_bytes;
  const absl::FunctionRef<bool(absl::string_view)>* take;  // or null
  bool enough = false;
};

// libcurl's interface: any other number than what came ends the request.
size_t Land(char* bytes, size_t size, size_t count, void* to) {
  auto* const landing = static_cast<Landing*>(to);
  const size_t got = size * count;
  if (landing->bytes->size() + got > landing->most_bytes) return 0;
  landing->bytes->append(bytes, got);
  if (landing->take == nullptr) return got;
  size_t begin = 0;
  for (size_t end; (end = landing->bytes->find('\n', begin)) != std::string::npos; begin = end + 1) {
    if (!(*landing->take)(absl::string_view(*landing->bytes).substr(begin, end - begin))) {
      landing->enough = true;
      return 0;
    }
  }
  landing->bytes->erase(0, begin);
  return got;
}

// Nobody but this initializes libcurl, and it never ends.
bool InitializeOnce() {
  static const bool done = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return done;
}

}  // namespace

struct Http::Handle {
  CURL* curl = InitializeOnce() ? curl_easy_init() : nullptr;
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/json");
  // etcd: end a watch of a member that has lost the leader. Not on other requests: reads that may be old would be
  // refused too.
  curl_slist* listening_headers =
      curl_slist_append(curl_slist_append(nullptr, "Content-Type: application/json"), "Grpc-Metadata-hasleader: true");

  ~Handle() {
    curl_easy_cleanup(curl);
    curl_slist_free_all(listening_headers);
    curl_slist_free_all(headers);
  }

  HttpReply Run(absl::string_view url, absl::string_view json, absl::Duration timeout, Landing landing) {
    HttpReply reply;
    if (curl == nullptr) {
      reply.sent = HttpReply::Sent::kNo;
      reply.error = "libcurl could not be initialized";
      return reply;
    }
    char why[CURL_ERROR_SIZE] = "";
    const std::string address(url), body(json);
    const long limit_ms = std::max<int64_t>(absl::ToInt64Milliseconds(timeout), 1);
    landing.bytes = &reply.body;
    curl_easy_reset(curl);
    // When a connection that was used before breaks, libcurl sends the request again: what was done twice, and failed
    // the second time, would look as if it had not been done.
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
    curl_easy_setopt(curl, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(curl, CURLOPT_URL, address.c_str());
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, limit_ms);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, landing.take == nullptr ? headers : listening_headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &Land);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &landing);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    const CURLcode code = curl_easy_perform(curl);
    long answer = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer);
    reply.code = static_cast<int>(answer);
    if (code == CURLE_OK || landing.enough) {
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

}  // namespace farlook::cluster
