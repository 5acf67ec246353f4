#include "rdma/shm/packet.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace farlook::rdma::shm {
namespace {

template <typename Packet>
absl::Status Copy(absl::string_view bytes, Packet* packet) {
  static_assert(std::is_trivially_copyable_v<Packet>);
  if (bytes.size() != sizeof(*packet)) {
    return absl::InvalidArgumentError(absl::StrCat("packet of ", bytes.size(), " bytes, not ", sizeof(*packet)));
  }
  memcpy(static_cast<void*>(packet), bytes.data(), sizeof(*packet));
  return absl::OkStatus();
}

absl::Status CheckVersion(uint16_t version) {
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the other side speaks version ", version, " of the shm protocol, this side ", kProtocolVersion));
}

}  // namespace

absl::Status DecodeHello(absl::string_view bytes, HelloPacket* hello) {
  // Magic and version come first in every version, whatever the length.
  HelloPacket head;
  constexpr size_t kHeadBytes = offsetof(HelloPacket, hello_bytes);
  if (bytes.size() < kHeadBytes) return absl::InvalidArgumentError("packet too short for a hello");
  memcpy(static_cast<void*>(&head), bytes.data(), kHeadBytes);
  if (head.magic != kMagic) return absl::InvalidArgumentError("wrong magic in a hello");
  if (absl::Status status = CheckVersion(head.version); !status.ok()) return status;
  if (absl::Status status = Copy(bytes, hello); !status.ok()) return status;
  if (hello->hello_bytes > kMaxHelloBytes) return absl::InvalidArgumentError("a hello longer than its packet");
  return absl::OkStatus();
}

absl::Status DecodeAnswer(absl::string_view bytes, size_t fds, AnswerPacket* answer) {
  if (absl::Status status = Copy(bytes, answer); !status.ok()) return status;
  if (answer->magic != kMagic) return absl::InvalidArgumentError("wrong magic in an answer");
  if (absl::Status status = CheckVersion(answer->version); !status.ok()) return status;
  if (answer->text_bytes > (answer->accepted ? kMaxWelcomeBytes : kMaxRejectBytes)) {
    return absl::InvalidArgumentError("an answer longer than its packet");
  }
  if (answer->ranges > kMaxOffers) return absl::InvalidArgumentError("an answer with too many ranges");
  if (answer->accepted && fds != kFirstRangeFd + answer->ranges) {
    return absl::InvalidArgumentError("an answer with ranges and descriptors that do not match");
  }
  return absl::OkStatus();
}

absl::Status DecodeNotice(absl::string_view bytes, size_t fds, NoticePacket* notice) {
  if (absl::Status status = Copy(bytes, notice); !status.ok()) return status;
  switch (notice->notice) {
    case Notice::kWake:
    case Notice::kWithdraw:
    case Notice::kOffer:
      break;
    default:
      return absl::InvalidArgumentError("unknown notice");
  }
  if (fds != (notice->notice == Notice::kOffer ? 1 : 0)) {
    return absl::InvalidArgumentError("a notice with the wrong number of descriptors");
  }
  return absl::OkStatus();
}

}  // namespace farlook::rdma::shm
