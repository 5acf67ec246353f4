// The send queue of one connection: the posted requests and their progress.
//
//     retired <= issued <= queued        issued - retired <= hardware depth
//
// Posting writes an entry into a ring in memory. Issuing passes entries to the device, many with one doorbell, as far
// as its queue has room and the process has credits (read_credits.h). The device completes in order. The completion of
// an entry retires all before it, most of which were SENDs without a completion (signalling.h). Only soft iWARP
// completes SENDs before READs that were posted earlier: see "Soft iWARP completes out of order" in
// docs/design-notes.md.
//
// Thread safety: none.
// Invariants:
//   * every READ and atomic that was queued is reported exactly once: by Complete(), or by FlushNext();
//   * the memory of a message is free when its entry is retired, or when its bytes were sent inline.
#ifndef FARLOOK_RDMA_VERBS_QUEUES_SEND_QUEUE_H_
#define FARLOOK_RDMA_VERBS_QUEUES_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/device/local_memory.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"
#include "rdma/verbs/queues/bounce.h"
#include "rdma/verbs/queues/flow_control.h"
#include "rdma/verbs/queues/message_pool.h"
#include "rdma/verbs/queues/read_credits.h"
#include "rdma/verbs/queues/signalling.h"

namespace farlook::rdma::verbs {

// Resources that the connections of an endpoint share.
struct SendResources {
  const Device* device;
  LocalMemory* memory;
  MessagePool* messages;
  ReadCredits* credits;
  ibv_sge probe_buffer;  // for the word that a probe READs
};

class SendQueue {
 public:
  // kSend and kProbe have no completion for the user.
  enum class Kind : uint8_t { kRead, kFetchAdd, kCompareSwap, kSend, kProbe };

  // `tag` is returned in the upper half of the completions' wr_id.
  SendQueue(const SendResources& resources, const QueuePlan& plan, uint32_t inline_bytes, uint32_t tag);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // ---- Posting. Returns false if there is no room. An invalid request is queued, and fails when its turn comes.

  bool Read(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey);
  bool Atomic(Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t operand,
              uint64_t desired);
  // Copies the bytes.
  bool Send(const MessageHeader& header, absl::string_view head, absl::string_view body);
  bool Probe(uint64_t remote_address, uint32_t rkey);
  // Returns whether Send() has room now.
  bool CanSend(size_t message_bytes);

  // ---- Issuing.

  enum class Issued : uint8_t {
    kAll,
    kPart,      // the rest waits for completions, or is invalid
    kNotTaken,  // the device refused it
  };
  // Passes to the device all that it can take.
  Issued Issue(ibv_qp* pair);
  bool all_issued() const { return issued_ == queued_; }
  // Returns whether the next entry is invalid, and all before it have completed.
  bool refused() const { return !all_issued() && At(issued_).status != WcStatus::kSuccess && in_flight_ == 0; }

  // ---- A READ into one piece, with nothing else under way, that is polled for at once. It gets an entry only if it
  // takes longer; otherwise it retires none, and does not count for signals.

  // Passes it to the device. Returns false, and does nothing, if Read() must be used.
  bool ReadAlone(ibv_qp* pair, const Sge& to, uint64_t remote_address, uint32_t rkey);
  // The device completed this wr_id successfully. Returns whether it is that READ.
  bool CompleteAlone(uint64_t id) {
    if (ABSL_PREDICT_FALSE(id != next_id())) return false;
    resources_.credits->Return();
    return true;
  }
  // Instead: from now on it counts as posted and issued.
  void RecordAlone(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey);

  // ---- Completing.

  // The device completed the entry with the number in the lower half of wr_id. Returns whether `*done` is for the user.
  // Mostly it is the oldest, and a plain READ; inlined for those.
  bool Complete(uint32_t number, WcStatus status, Completion* done) {
    if (ABSL_PREDICT_FALSE(number != static_cast<uint32_t>(retired_) || retired_ == issued_)) {
      return CompleteAnother(number, status, done);
    }
    Entry& entry = At(retired_);
    if (ABSL_PREDICT_FALSE(!entry.plain)) return CompleteOldest(status, done);
    ++retired_;
    --in_flight_;
    --reads_;
    done->wr_id = entry.wr_id;
    done->opcode = Opcode::kRead;
    done->status = status;
    resources_.credits->Return();
    return true;
  }
  // Issued entries that the device will complete: READs, atomics, probes, signalled SENDs.
  uint32_t in_flight() const { return in_flight_; }

  // After the queue pair is destroyed: returns the next READ or atomic that the device did not complete in `*done`, or
  // false if none is left.
  bool FlushNext(Completion* done);
  bool empty() const { return retired_ == queued_; }

 private:
  // The first line holds what all requests need, the second a READ's destination, or a short message.
  struct alignas(64) Entry {
    uint64_t wr_id;
    uint64_t remote_address;
    uint64_t operand;
    uint64_t desired;
    char* bounce;
    uint32_t rkey;
    uint32_t bytes;  // of a message or READ
    uint32_t slot;   // of a message; kNone: it is in `small`
    Kind kind;
    uint8_t pieces;
    WcStatus status;  // other than kSuccess: it was invalid when posted
    bool bounces;
    bool signalled;
    bool plain;  // a valid READ of one piece that does not bounce: most entries are
    union {
      ibv_sge to[kMaxReadSges];
      char small[64];
    };
  };
  static_assert(sizeof(Entry) == 128);
  static_assert(sizeof(ibv_sge) * kMaxReadSges == 64);

  void MakeRing() {
    if (ring_ != nullptr) return;
    ring_.reset(new Entry[mask_ + 1]);
    max_reads_ = plan_.send_depth;
  }
  Entry& At(uint64_t number) const { return ring_[number & mask_]; }
  // The wr_id of the next that is issued.
  uint64_t next_id() const { return tag_ | static_cast<uint32_t>(issued_); }
  Entry* Next(Kind kind);
  Entry* NextRead(uint64_t wr_id, uint64_t remote_address, uint32_t rkey);
  const LocalMemory::Range* PlainRange(const Sge& piece);
  bool ReadPlain(uint64_t wr_id, const Sge& piece, uint64_t remote_address, uint32_t rkey);
  bool ReadOther(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey);
  void Place(Entry* entry, size_t index, const Sge& piece, const LocalMemory::Range* range);
  uint64_t PlaceAll(Entry* entry, absl::Span<const Sge> to);
  void PrepareRead(Entry& entry, ibv_send_wr* request);
  void PrepareAtomic(Entry& entry, ibv_send_wr* request);
  bool Prepare(Entry& entry, uint64_t number, ibv_send_wr* request, ibv_sge* piece);
  bool PrepareBounce(Entry& entry, ibv_send_wr* request, ibv_sge* piece);
  void PrepareSend(Entry& entry, ibv_send_wr* request, ibv_sge* piece);
  bool Fill(uint64_t number, ibv_send_wr* request, ibv_sge* piece);
  bool Hand(ibv_qp* pair, ibv_send_wr* requests, uint32_t count);
  void Refused(uint32_t count, uint32_t taken);
  Issued IssueOne(ibv_qp* pair);
  Issued IssueMany(ibv_qp* pair);
  Issued HowMuch() const { return all_issued() ? Issued::kAll : Issued::kPart; }
  bool CompleteAnother(uint32_t number, WcStatus status, Completion* done);
  bool CompleteOldest(WcStatus status, Completion* done);
  bool CompleteOvertaken(WcStatus status, Completion* done);
  bool RetireSends(uint64_t end);
  void Overtake(uint64_t number);
  void ReleaseMessage(Entry& entry);
  void PutMessage(Entry& entry);
  void Land(Entry& entry, WcStatus status);
  void LandBounced(Entry& entry, WcStatus status);

  const SendResources resources_;
  const QueuePlan plan_;
  const uint32_t inline_bytes_;
  const uint64_t tag_;
  std::unique_ptr<Entry[]> ring_;  // allocated by the first post: a server with many clients pulls from few
  const uint64_t mask_;
  uint64_t retired_ = 0;
  uint64_t issued_ = 0;
  uint64_t queued_ = 0;
  uint64_t overtaken_until_ = 0;  // SENDs before it are done, though the oldest entry is not; 0: none overtook
  uint32_t reads_ = 0;            // READs and atomics of the user, not completed
  uint32_t max_reads_ = 0;        // limit of reads_; 0 while there is no ring
  uint32_t in_flight_ = 0;
  Signalling signalling_;
  Bounce bounce_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_QUEUES_SEND_QUEUE_H_
