// The memory of one connection: two rings. The server creates and seals it; both sides map it for writing.
//
//     offset       bytes
//          0          64  (and its pair) client to server: ConsumerLine, written by the server
//        128         ...  client to server: ProducerLine, written by the client
//        256              server to client: ConsumerLine, written by the client
//        384              server to client: ProducerLine, written by the server
//        512         256  AtomicGate
//       4096     262,144  client to server: cells
//    266,240     131,072  server to client: cells
//    397,312              end
#ifndef FARLOOK_RDMA_SHM_SEGMENT_H_
#define FARLOOK_RDMA_SHM_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rdma/host/sealed_memory.h"
#include "rdma/host/unique_fd.h"
#include "rdma/shm/atomic_gate.h"
#include "rdma/shm/limits.h"
#include "rdma/shm/ring.h"

namespace farlook::rdma::shm {

struct SegmentLayout {
  ConsumerLine to_server_consumer;
  ProducerLine to_server_producer;
  ConsumerLine to_client_consumer;
  ProducerLine to_client_producer;
  AtomicGate gate;
  alignas(4096) Cell to_server[kClientToServerCells];
  Cell to_client[kServerToClientCells];
};
static_assert(offsetof(SegmentLayout, to_server_producer) == 128);
static_assert(offsetof(SegmentLayout, to_client_consumer) == 256);
static_assert(offsetof(SegmentLayout, to_client_producer) == 384);
static_assert(offsetof(SegmentLayout, gate) == 512);
static_assert(offsetof(SegmentLayout, to_server) == 4096);
static_assert(offsetof(SegmentLayout, to_client) == 266240);
static_assert(sizeof(SegmentLayout) % 4096 == 0 && sizeof(SegmentLayout) < 512 * 1024);

enum class Side : uint8_t { kClient, kServer };

// One side's mapping of the segment.
class Segment {
 public:
  Segment() = default;

  // For the server. `*fd` receives the sealed descriptor for the client. RESOURCE_EXHAUSTED.
  static absl::StatusOr<Segment> Create(UniqueFd* fd) {
    absl::StatusOr<UniqueFd> created = CreateSealable("farlook-rings", sizeof(SegmentLayout));
    if (!created.ok()) return created.status();
    if (absl::Status status = Seal(created->get(), Sealing::kFixedSize); !status.ok()) return status;
    *fd = *std::move(created);
    return Open(fd->get());
  }

  // For the client. INVALID_ARGUMENT if it is not what it should be.
  static absl::StatusOr<Segment> Open(int fd) {
    if (absl::Status s = CheckSealed(fd, Sealing::kFixedSize, sizeof(SegmentLayout)); !s.ok()) return s;
    absl::StatusOr<Mapping> mapping = Map(fd, sizeof(SegmentLayout), /*writable=*/true);
    if (!mapping.ok()) return mapping.status();
    return Segment(*std::move(mapping));
  }

  RingProducer producer(Side side) const {
    SegmentLayout* const s = layout();
    return side == Side::kClient
               ? RingProducer(s->to_server, kClientToServerCells, &s->to_server_consumer, &s->to_server_producer)
               : RingProducer(s->to_client, kServerToClientCells, &s->to_client_consumer, &s->to_client_producer);
  }
  RingConsumer consumer(Side side) const {
    SegmentLayout* const s = layout();
    return side == Side::kClient
               ? RingConsumer(s->to_client, kServerToClientCells, &s->to_client_consumer, &s->to_client_producer)
               : RingConsumer(s->to_server, kClientToServerCells, &s->to_server_consumer, &s->to_server_producer);
  }

  AtomicGate* gate() const { return &layout()->gate; }

  bool ok() const { return mapping_.ok(); }
  // Gives up the mapping.
  Mapping Release() { return std::move(mapping_); }

  // Touches the pages that are used first, so that their first user causes no page fault.
  void Touch() const {
    layout()->to_server_consumer.head.store(0, std::memory_order_relaxed);
    layout()->to_server[0].tag.store(0, std::memory_order_relaxed);
    layout()->to_client[0].tag.store(0, std::memory_order_relaxed);
  }

 private:
  explicit Segment(Mapping mapping) : mapping_(std::move(mapping)) {}
  SegmentLayout* layout() const { return static_cast<SegmentLayout*>(static_cast<void*>(mapping_.data())); }

  Mapping mapping_;
};

}  // namespace farlook::rdma::shm

#endif  // FARLOOK_RDMA_SHM_SEGMENT_H_
