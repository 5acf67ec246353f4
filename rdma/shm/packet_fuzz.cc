// Bytes that a hostile process can send over a socket or leave in a ring. The first byte selects the kind of the rest.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "absl/strings/string_view.h"
#include "rdma/shm/packet.h"
#include "rdma/shm/ring.h"

namespace farlook::rdma::shm {
namespace {

constexpr size_t kCells = 256;

void Check(bool holds) {
  if (!holds) std::abort();
}

void FuzzHello(absl::string_view bytes) {
  HelloPacket hello;
  const absl::Status status = DecodeHello(bytes, &hello);
  Check(status.ok() || !status.message().empty());
  if (status.ok()) Check(hello.hello_bytes <= kMaxHelloBytes && BytesOf(hello) == bytes);
}

void FuzzAnswer(absl::string_view bytes, size_t fds) {
  AnswerPacket answer;
  const absl::Status status = DecodeAnswer(bytes, fds, &answer);
  Check(status.ok() || !status.message().empty());
  if (!status.ok()) return;
  Check(BytesOf(answer) == bytes && answer.text_bytes <= sizeof(answer.text) && answer.ranges <= kMaxOffers);
  if (answer.accepted != 0) Check(fds == kFirstRangeFd + answer.ranges);
}

void FuzzNotice(absl::string_view bytes, size_t fds) {
  NoticePacket notice;
  const absl::Status status = DecodeNotice(bytes, fds, &notice);
  Check(status.ok() || !status.message().empty());
  if (status.ok()) Check(BytesOf(notice) == bytes && (notice.notice == Notice::kOffer) == (fds == 1));
}

// Writes bytes into cells, lets a consumer read what it can, and writes more: the other side may write at any time.
void FuzzRing(absl::string_view bytes) {
  const auto cells = std::make_unique<Cell[]>(kCells);
  ConsumerLine consumer_line = {};
  ProducerLine producer_line = {};
  RingConsumer consumer(cells.get(), kCells, &consumer_line, &producer_line);
  RingProducer producer(cells.get(), kCells, &consumer_line, &producer_line);
  const auto message = std::make_unique<uint64_t[]>(RingConsumer::RoomFor(kMaxMessageBytes) / sizeof(uint64_t));
  while (bytes.size() >= 2 + sizeof(uint64_t)) {
    const auto op = static_cast<uint8_t>(bytes[0]);
    Cell& cell = cells[static_cast<uint8_t>(bytes[1]) % kCells];
    uint64_t word;
    memcpy(&word, bytes.data() + 2, sizeof(word));
    bytes.remove_prefix(2 + sizeof(word));
    switch (op % 6) {
      case 0:
        cell.tag.store(word);
        break;
      case 1:  // nearly valid: some lap, some length
        cell.tag.store((word & 3) << 32 | (word >> 2 & 0x1fff));
        break;
      case 2:
        cell.payload[word % kCellWords].store(word);
        break;
      case 3:
        consumer_line.head.store(word);
        producer_line.wants_room.store(static_cast<uint32_t>(word));
        consumer_line.sleeping.store(static_cast<uint32_t>(word >> 32));
        break;
      case 4:
        producer.Send(absl::string_view(reinterpret_cast<const char*>(&word), 1 + word % 8), "");
        producer.TakeSleeper();
        producer.AwaitRoom();
        break;
      case 5:
        break;
    }
    size_t message_bytes = 0;
    const Received received = consumer.Receive(reinterpret_cast<char*>(message.get()), &message_bytes);
    if (received == Received::kMalformed) return;  // the connection would be closed
    if (received == Received::kMessage) Check(message_bytes >= 1 && message_bytes <= kMaxMessageBytes);
    consumer.PublishHead();
  }
}

}  // namespace
}  // namespace farlook::rdma::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const size_t fds = data[0] / 4 % (farlook::rdma::shm::kMaxPacketFds + 2);
  switch (data[0] % 4) {
    case 0:
      farlook::rdma::shm::FuzzHello(bytes);
      break;
    case 1:
      farlook::rdma::shm::FuzzAnswer(bytes, fds);
      break;
    case 2:
      farlook::rdma::shm::FuzzNotice(bytes, fds);
      break;
    case 3:
      farlook::rdma::shm::FuzzRing(bytes);
      break;
  }
  return 0;
}
