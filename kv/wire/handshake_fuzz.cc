// Runs any bytes through every decoder of the handshake; decoded messages are encoded again and must be equal.
#include <cstdlib>
#include <string>

#include "kv/wire/handshake.h"

namespace farlook::kv {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

template <typename T, typename Encode>
void Fuzz(absl::string_view bytes, Encode encode) {
  const auto message = T::Decode(bytes);
  if (!message.ok()) {
    Check(!message.status().message().empty());
    Check(absl::IsInvalidArgument(message.status()) || absl::IsFailedPrecondition(message.status()));
    return;
  }
  const std::string encoded = encode(*message);
  const auto again = T::Decode(encoded);
  Check(again.ok() && encode(*again) == encoded);
}

}  // namespace
}  // namespace farlook::kv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace kv = farlook::kv;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto encode = [](const auto& message) { return message.Encode(); };
  kv::Fuzz<kv::ConnectData>(bytes, encode);
  kv::Fuzz<kv::AcceptData>(bytes, encode);
  kv::Fuzz<kv::RejectData>(bytes, [](const auto& reject) { return reject.Encode(144); });
  kv::Fuzz<kv::Hello>(bytes, encode);
  kv::Fuzz<kv::Welcome>(bytes, encode);
  kv::Fuzz<kv::Refusal>(bytes, encode);
  kv::Fuzz<kv::Challenge>(bytes, encode);
  kv::Fuzz<kv::Proof>(bytes, encode);
  kv::Fuzz<kv::Follow>(bytes, encode);
  return 0;
}
