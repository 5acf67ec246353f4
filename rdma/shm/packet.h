// Packets on the Unix socket (SOCK_SEQPACKET) of a connection, in this order:
//
//     client -> server   HelloPacket
//     server -> client   AnswerPacket, and if it accepts the descriptors: life page, rings, one for each range
//     both               NoticePacket, any number; kOffer carries the descriptor of a buffer
//     either             end of file: the connection is closed
//
// Both ends run on one machine, so integers are in its own order. Received packets are untrusted; the decoders return a
// reason.
#ifndef FARLOOK_RDMA_SHM_PACKET_H_
#define FARLOOK_RDMA_SHM_PACKET_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "rdma/shm/limits.h"
#include "rdma/transport.h"

namespace farlook::rdma::shm {

inline constexpr uint32_t kMagic = 0x4d485346;  // "FSHM"

// Changes with anything in packet.h, segment.h, the sizes of the rings, or the requirements on a buffer's memory.
inline constexpr uint16_t kProtocolVersion = 3;

struct HelloPacket {
  uint32_t magic = kMagic;
  uint16_t version = kProtocolVersion;
  uint16_t hello_bytes = 0;
  char hello[kMaxHelloBytes] = {};
};
static_assert(sizeof(HelloPacket) == 48);

struct RangeEntry {
  uint64_t bytes = 0;
  uint32_t rkey = 0;
  uint32_t writable = 0;  // 1: offered as kRemoteReadAtomic
};
static_assert(sizeof(RangeEntry) == 16);

struct AnswerPacket {
  uint32_t magic = kMagic;
  uint16_t version = kProtocolVersion;
  uint8_t accepted = 0;
  uint8_t ranges = 0;
  uint32_t text_bytes = 0;  // of the welcome, or of the reason of a reject
  char text[kMaxWelcomeBytes] = {};
  RangeEntry range[kMaxOffers] = {};
};
static_assert(sizeof(AnswerPacket) == 448);
static_assert(kMaxRejectBytes <= kMaxWelcomeBytes);

// The listener's own reason. The client that reads it reports RESOURCE_EXHAUSTED.
inline constexpr absl::string_view kNoDescriptorsLeft =
    "the server has no file descriptors left for another client: raise its ulimit -n, or LimitNOFILE=";

// Descriptors of an AnswerPacket that accepts; those of the ranges follow.
inline constexpr size_t kLifeFd = 0;
inline constexpr size_t kRingsFd = 1;
inline constexpr size_t kFirstRangeFd = 2;
inline constexpr size_t kMaxPacketFds = kFirstRangeFd + kMaxOffers;

enum class Notice : uint32_t {
  kWake = 1,      // check the rings
  kOffer = 2,     // `rkey` names `bytes` of the attached descriptor
  kWithdraw = 3,  // `rkey` is no longer valid
};

struct NoticePacket {
  Notice notice = Notice::kWake;
  uint32_t rkey = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(NoticePacket) == 16);

inline constexpr size_t kMaxPacketBytes = sizeof(AnswerPacket);

template <typename Packet>
absl::string_view BytesOf(const Packet& packet) {
  static_assert(std::has_unique_object_representations_v<Packet>, "padding would leak memory");
  return absl::string_view(reinterpret_cast<const char*>(&packet), sizeof(packet));
}

// INVALID_ARGUMENT: the peer is no Farlook client. FAILED_PRECONDITION: it is one of another version.
absl::Status DecodeHello(absl::string_view bytes, HelloPacket* hello);
absl::Status DecodeAnswer(absl::string_view bytes, size_t fds, AnswerPacket* answer);
absl::Status DecodeNotice(absl::string_view bytes, size_t fds, NoticePacket* notice);

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_PACKET_H_
