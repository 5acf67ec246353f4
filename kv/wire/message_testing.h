#ifndef FARLOOK_KV_WIRE_MESSAGE_TESTING_H_
#define FARLOOK_KV_WIRE_MESSAGE_TESTING_H_

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "kv/layout/words.h"
#include "kv/wire/message.h"

namespace farlook::kv {

// The bytes of docs/protocol.md.
inline constexpr char kPut[] =
    "01030500050000002a00000000000000"  // kPut, kVersion, 5 + 5 bytes, number 42
    "070000000000000040420f0000000000"  // version 7, deadline 1,000,000 µs
    "0000000000000000"                  // no options, no flags
    "757365723168656c6c6f";             // "user1", "hello"
inline constexpr char kPlainPut[] =
    "01000500050000002a00000000000000"  // kPut, kAlways, 5 + 5 bytes, number 42
    "000000000000000040420f0000000000"  // no version, deadline 1,000,000 µs
    "0000000000000000"                  // no options, no flags
    "757365723168656c6c6f";             // "user1", "hello"
inline constexpr char kPutPulled[] =
    "02010500000010002a00000000000000"   // kPutPulled, kAbsent, 5 + 1 Mi bytes, number 42
    "00000000000000000000000000000000"   // no version, no deadline
    "0000000000000000"                   // no options, no flags
    "7573657231000000"                   // "user1", padding
    "00100000007f0000"                   // the value's address
    "1100ffeeddccbbaa9900000000000000";  // its hash, rkey
inline constexpr char kGetRequest[] =
    "04000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
inline constexpr char kOptions[] =
    "04000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "1000000000000000"                  // 16 bytes of options
    "07000500616263646500000000000000"  // field 7: "abcde", and four bytes that fill up
    "7573657231";
inline constexpr char kStat[] =
    "06000600000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "736572766572";  // "server"
inline constexpr char kCounterAdd[] =
    "08000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231000000"                   // "user1", padding
    "fdffffffffffffff0000000000000000";  // -3
inline constexpr char kCounterSwap[] =
    "09000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231000000"
    "07000000000000000900000000000000";  // 7, 9
inline constexpr char kCounterRead[] =
    "0a000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
inline constexpr char kCellsDropped[] =
    "0c000000000000000000000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "07000000000000000000000000000000";  // sequence 7
inline constexpr char kGoodbye[] =
    "0d000000000000000000000000000000"
    "00000000000000000000000000000000"
    "0000000000000000";
inline constexpr char kPing[] =
    "05000000000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000";
inline constexpr char kTouch[] =
    "0f000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "1000000000000000"                  // 16 bytes of options
    "0180080040420f000000000000000000"  // ttl: 1,000,000 µs, and four bytes that fill up
    "7573657231";
inline constexpr char kPersist[] =
    "0f000500000000002a00000000000000"
    "00000000000000000000000000000000"
    "0000000000000000"
    "7573657231";
inline constexpr char kPutKeepingTtl[] =
    "01030500050000002a00000000000000"
    "070000000000000040420f0000000000"
    "1000000000000000"                  // 16 bytes of options
    "02800000000000000300010001000000"  // keep_ttl, filled up; flags of the item: keep
    "757365723168656c6c6f";
inline constexpr const char* kRequests[] = {kPut,     kPutPulled,  kGetRequest,  kOptions,      kStat,
                                            kPing,    kCounterAdd, kCounterSwap, kCounterRead,  kCellsDropped,
                                            kGoodbye, kTouch,      kPersist,     kPutKeepingTtl};
inline constexpr char kReplyToTtl[] =
    "00000000100000002a00000000000000"  // kOk, 16 bytes of payload, number 42
    "0700000000000000000002000002efbe"
    "40420f0000000000"                   // 1,000,000 µs
    "dc050000000000000100000000000000";  // expires at 1,500 ms; never evicted
inline constexpr char kReply[] =
    "02000000000000002a00000000000000"  // kExists, no payload, number 42
    "0700000000000000"                  // version 7
    "000002000002efbe"                  // slot
    "40420f0000000000";                 // 1,000,000 µs
inline constexpr char kReplyToGet[] =
    "00000000050000002a00000000000000"  // kOk, 5 bytes of payload, number 42
    "0700000000000000000002000002efbe"
    "40420f0000000000"
    "68656c6c6f";  // "hello"
inline constexpr char kReplyToAdd[] =
    "00000000100000002a00000000000000"  // kOk, 16 bytes of payload, number 42
    "00000000000000000000000000000000"
    "40420f0000000000"
    "fdffffffffffffffc002000000000000";  // -3, the cell at 704

inline std::string Bytes(absl::string_view hex) { return absl::HexStringToBytes(hex); }

inline Request ARequest(RequestType type, absl::string_view key) {
  Request request;
  request.type = type;
  request.number = 42;
  request.key = key;
  return request;
}

inline Request APut() {
  Request request = ARequest(RequestType::kPut, "user1");
  request.condition = Condition::kVersion;
  request.version = 7;
  request.deadline_us = 1'000'000;
  request.value = "hello";
  request.value_bytes = 5;
  return request;
}

inline Request APutPulled() {
  Request request = ARequest(RequestType::kPutPulled, "user1");
  request.condition = Condition::kAbsent;
  request.value_bytes = 1 << 20;
  request.source = {0x7f00'0000'1000, 0xaabb'ccdd'eeff'0011, 0x99};
  return request;
}

inline std::string Encode(const Request& request) {
  std::vector<char> head(kMaxRequestHeadBytes, 0x55);
  const size_t bytes = request.EncodeHead(head.data());
  return std::string(head.data(), bytes) + std::string(request.value);
}

inline std::string Encode(const Reply& reply) {
  char head[Reply::kHeaderBytes];
  reply.EncodeHead(head);
  return std::string(head, sizeof head) + std::string(reply.payload);
}

template <typename T>
inline std::string With(std::string bytes, size_t offset, T value) {
  StoreAs(bytes.data() + offset, value);
  return bytes;
}

inline std::string RequestReason(const std::string& bytes) {
  return std::string(Request::Decode(bytes).status().message());
}

}  // namespace farlook::kv

#endif  // FARLOOK_KV_WIRE_MESSAGE_TESTING_H_
