// The send queue of one connection: what was posted, and how far it got.
//
//     retired <= issued <= queued        issued - retired <= hardware depth
//
// Posting writes an entry into a ring in memory. Issuing hands entries to the device, many with one doorbell, as far as
// its queue has room and the process has credits (read_credits.h). The device completes in order; the completion of an
// entry retires all before it, most of which were SENDs that asked for none (signalling.h). Soft iWARP alone completes
// SENDs before READs that were posted earlier: see "Soft iWARP completes out of order" in docs/design-notes.md.
//
// Thread safety: none. Invariants:
//   * every READ and atomic that was queued is reported exactly once: by Complete(), or by FlushNext();
//   * the memory of a message is free when its entry is retired, or when its bytes went inline.
#ifndef FARLOOK_RDMA_VERBS_SEND_QUEUE_H_
#define FARLOOK_RDMA_VERBS_SEND_QUEUE_H_

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rdma/transport.h"
#include "rdma/verbs/bounce.h"
#include "rdma/verbs/flow_control.h"
#include "rdma/verbs/limits.h"
#include "rdma/verbs/local_memory.h"
#include "rdma/verbs/message_pool.h"
#include "rdma/verbs/negotiation.h"
#include "rdma/verbs/read_credits.h"
#include "rdma/verbs/signalling.h"

namespace farlook::rdma::verbs {

// What the connections of an endpoint share.
struct SendResources {
  const Device* device;
  LocalMemory* memory;
  MessagePool* messages;
  ReadCredits* credits;
  ibv_sge probe_landing;  // for the word that a probe READs
};

class SendQueue {
 public:
  // Without a completion of its own towards the user: kSend, kProbe.
  enum class Kind : uint8_t { kRead, kFetchAdd, kCompareSwap, kSend, kProbe };

  // `tag` comes back in the upper half of the completions' wr_id.
  SendQueue(const SendResources& resources, const QueuePlan& plan, uint32_t inline_bytes, uint32_t tag);
  ~SendQueue();
  SendQueue(const SendQueue&) = delete;
  SendQueue& operator=(const SendQueue&) = delete;

  // ---- Posting. False: no room. A request that makes no sense is queued, and fails when its turn comes.

  bool Read(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey);
  bool Atomic(Kind kind, uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t operand,
              uint64_t desired);
  // Copies the bytes.
  bool Send(const MessageHeader& header, absl::string_view head, absl::string_view body);
  bool Probe(uint64_t remote_address, uint32_t rkey);
  // Whether Send() has room now.
  bool CanSend(size_t message_bytes);

  // ---- Issuing.

  enum class Issued : uint8_t {
    kAll,
    kPart,      // the rest waits for completions, or makes no sense
    kNotTaken,  // the device would not take it
  };
  // Hands to the device what can be handed to it.
  Issued Issue(ibv_qp* pair);
  bool all_issued() const { return issued_ == queued_; }
  // The next entry makes no sense, and all before it have completed.
  bool refused() const { return !all_issued() && At(issued_).status != WcStatus::kSuccess && in_flight_ == 0; }

  // ---- A READ into one piece that nothing else is under way with, and that is looked for at once. It has an entry
  // only if it takes longer; else it retires none, and counts for no signal.

  // Hands it to the device. False: it is one for Read(), and nothing was done.
  bool ReadAlone(ibv_qp* pair, const Sge& to, uint64_t remote_address, uint32_t rkey);
  // The device completed what bears this wr_id; true: that was it, successfully.
  bool CompleteAlone(uint64_t id) {
    if (ABSL_PREDICT_FALSE(id != next_id())) return false;
    resources_.credits->Return();
    return true;
  }
  // Instead: from now on it is as if it had been posted and issued.
  void RecordAlone(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey);

  // ---- Completing.

  // The device completed the entry with the number that the lower half of wr_id names. True: `*done` is for the user.
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
  // Issued entries that will be completed by the device: READs, atomics, probes, signalled SENDs.
  uint32_t in_flight() const { return in_flight_; }

  // After the queue pair is destroyed: the next READ or atomic that the device did not complete. False: none is left.
  bool FlushNext(Completion* done);
  bool empty() const { return retired_ == queued_; }

 private:
  // The first line holds what all requests need, the second where a READ lands, or a short message.
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
    WcStatus status;  // other than kSuccess: it made no sense when it was posted
    bool bounces;
    bool signalled;
    bool plain;  // a READ of one piece that makes sense and does not bounce: most entries are
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
  std::unique_ptr<Entry[]> ring_;  // from the first post on: a server with many clients pulls from few
  const uint64_t mask_;
  uint64_t retired_ = 0;
  uint64_t issued_ = 0;
  uint64_t queued_ = 0;
  uint64_t overtaken_until_ = 0;  // SENDs before it are done, though the oldest entry is not; 0: none overtook
  uint32_t reads_ = 0;            // READs and atomics of the user, not completed
  uint32_t max_reads_ = 0;        // of them; 0 while there is no ring
  uint32_t in_flight_ = 0;
  Signalling signalling_;
  Bounce bounce_;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_SEND_QUEUE_H_
