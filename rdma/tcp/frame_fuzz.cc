// Bytes that a hostile peer can send: each frame is decoded as it was encoded, or not at all.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/string_view.h"
#include "rdma/tcp/bytes.h"
#include "rdma/tcp/frame.h"

namespace farlook::rdma::tcp {
namespace {

void Check(bool holds) {
  if (!holds) std::abort();
}

void Fuzz(absl::string_view bytes) {
  const absl::string_view begin = bytes;
  Frame frame;
  while (NextFrame(&bytes, &frame) == Parsed::kFrame) {
    Check(frame.payload.data() > begin.data() && frame.payload.data() + frame.payload.size() <= bytes.data());
    const absl::Status greeting = CheckGreeting(frame);
    Check(greeting.ok() == (frame.argument == Greeting()));
    if (frame.type == FrameType::kRead) {
      const ReadOrder order = ReadOrderOf(frame);
      Bytes again;
      Check(AppendRead(order, &again) && order.address == frame.argument);
      Check(memcmp(again.data() + kFrameHeadBytes, frame.payload.data(), frame.payload.size()) == 0);
    }
    Bytes again;
    Check(AppendFrame(frame.type, frame.argument, frame.payload, "", &again));
    absl::string_view copy = again.view();
    Frame same;
    Check(NextFrame(&copy, &same) == Parsed::kFrame && copy.empty() && same.payload == frame.payload);
  }
}

}  // namespace
}  // namespace farlook::rdma::tcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  // A copy: aligned like received bytes, and with nothing after the end.
  const auto words = std::make_unique<uint64_t[]>(bytes / sizeof(uint64_t) + 1);
  auto* const copy = reinterpret_cast<char*>(words.get());
  if (bytes > 0) memcpy(copy, data, bytes);
  farlook::rdma::tcp::Fuzz(absl::string_view(copy, bytes));
  return 0;
}
