// The private data of a handshake: passes any bytes through its decoders; decoded data is encoded again and must be
// equal.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "rdma/verbs/handshake/envelope.h"

namespace farlook::rdma::verbs {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

// The kernel may pad the data with zeros.
bool BeginsWith(absl::string_view bytes, absl::string_view encoded) {
  return bytes.substr(0, encoded.size()) == encoded;
}

void FuzzEnvelope(absl::string_view bytes) {
  absl::string_view user;
  const auto envelope = DecodeEnvelope(bytes, &user);
  if (!envelope.ok()) {
    Check(!envelope.status().message().empty());
    return;
  }
  Check(envelope->window > 0 && envelope->probe_address % kProbeAlignment == 0);
  std::string canonical(bytes);
  canonical[5] &= 3;  // unknown flags are ignored
  Check(user.size() > kMaxWelcomeBytes || BeginsWith(canonical, EncodeEnvelope(*envelope, user)));
}

void FuzzReject(absl::string_view bytes) {
  const auto reason = DecodeReject(bytes);
  if (!reason.ok()) {
    Check(!reason.status().message().empty());
    return;
  }
  Check(reason->size() > kMaxRejectBytes || BeginsWith(bytes, EncodeReject(*reason)));
}

}  // namespace
}  // namespace farlook::rdma::verbs

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  farlook::rdma::verbs::FuzzEnvelope(bytes);
  farlook::rdma::verbs::FuzzReject(bytes);
  return 0;
}
