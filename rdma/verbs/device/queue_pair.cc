#include "rdma/verbs/device/queue_pair.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/handshake/limits.h"

namespace farlook::rdma::verbs {
namespace {

absl::Status CannotMove(absl::string_view to, int error) {
  return absl::UnavailableError(absl::StrCat("the queue pair could not be made ", to, ": ", strerror(error)));
}

// Gets the attributes for the next state of a queue pair, as far as the connection manager knows them.
absl::Status Ask(rdma_cm_id* id, absl::string_view to, ibv_qp_attr* attributes, int* mask) {
  if (rdma_init_qp_attr(id, attributes, mask) == 0) return absl::OkStatus();
  // No handshake is under way. Mostly the client timed out before the server processed its request.
  if (errno == EINVAL) return absl::UnavailableError("the other side gave up while the handshake was under way");
  return CannotMove(to, errno);
}

}  // namespace

absl::StatusOr<QueuePair> QueuePair::Create(const Device& device, const QueuePlan& plan, const Queues& queues,
                                            QueuePairEvents* events) {
  ibv_qp_init_attr wanted = {};
  wanted.qp_context = events;
  wanted.send_cq = queues.completions;
  wanted.recv_cq = queues.completions;
  wanted.srq = queues.shared_receives;
  wanted.qp_type = IBV_QPT_RC;
  wanted.sq_sig_all = 0;
  wanted.cap.max_send_wr = plan.hardware_depth;
  wanted.cap.max_recv_wr = queues.receives;
  wanted.cap.max_send_sge = plan.send_sges;
  wanted.cap.max_recv_sge = 1;
  // No device reports how much it sends inline: reduce the request until it agrees.
  for (uint32_t inline_bytes = kInlineBytes;; inline_bytes /= 2) {
    ibv_qp_init_attr attributes = wanted;
    attributes.cap.max_inline_data = inline_bytes;
    QueuePair pair;
    pair.handle_.reset(ibv_create_qp(device.queue_pair_domain(), &attributes));
    if (pair.handle_ != nullptr) {
      pair.inline_bytes_ = attributes.cap.max_inline_data;
      pair.iwarp_ = device.traits().iwarp;
      return pair;
    }
    if (inline_bytes == 0 || (errno != EINVAL && errno != ENOMEM)) {
      return CannotCreate("a queue pair", device.name(), errno);
    }
  }
}

unsigned QueuePair::AccessFlags(const PeerRights& rights) const {
  unsigned flags = 0;
  if (rights.reads) flags |= IBV_ACCESS_REMOTE_READ;
  if (rights.atomics) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  // On iWARP the answer to a READ is a write, which the queue pair must allow; each memory region still decides.
  if (iwarp_) flags |= IBV_ACCESS_REMOTE_WRITE;
  return flags;
}

absl::Status QueuePair::Grant(const PeerRights& rights) {
  ibv_qp_attr attributes = {};
  attributes.qp_access_flags = AccessFlags(rights);
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, IBV_QP_ACCESS_FLAGS); error != 0) {
    return CannotMove("readable", error);
  }
  return absl::OkStatus();
}

absl::Status QueuePair::Initialize(rdma_cm_id* id, const PeerRights& rights) {
  ibv_qp_attr attributes = {};
  int mask = 0;
  attributes.qp_state = IBV_QPS_INIT;
  if (absl::Status status = Ask(id, "ready", &attributes, &mask); !status.ok()) return status;
  attributes.qp_access_flags = AccessFlags(rights);
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask); error != 0) return CannotMove("ready", error);
  return absl::OkStatus();
}

absl::Status QueuePair::Start(rdma_cm_id* id, const ReadDepths& depths) {
  // On iWARP the kernel does it once the stream exists.
  if (iwarp_) return absl::OkStatus();
  ibv_qp_attr attributes = {};
  int mask = 0;
  // Path, MTU and packet numbers are the connection manager's.
  attributes.qp_state = IBV_QPS_RTR;
  if (absl::Status status = Ask(id, "receive", &attributes, &mask); !status.ok()) return status;
  attributes.max_dest_rd_atomic = depths.serve;
  attributes.min_rnr_timer = kMinRnrTimer;
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask | IBV_QP_MIN_RNR_TIMER); error != 0) {
    return CannotMove("receive", error);
  }
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  if (absl::Status status = Ask(id, "send", &attributes, &mask); !status.ok()) return status;
  attributes.max_rd_atomic = depths.ask;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRnrRetries;
  mask |= IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask); error != 0) return CannotMove("send", error);
  return absl::OkStatus();
}

absl::Status QueuePair::ConnectToItself(const ibv_ah_attr& path, ibv_mtu mtu) {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = 0;
  attributes.port_num = path.port_num;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask); error != 0) return CannotMove("ready", error);
  attributes.qp_state = IBV_QPS_RTR;
  attributes.ah_attr = path;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = number();
  attributes.rq_psn = 0;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = kMinRnrTimer;
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
         IBV_QP_MIN_RNR_TIMER;
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask); error != 0)
    return CannotMove("receive", error);
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = 0;
  attributes.max_rd_atomic = 1;
  attributes.timeout = kAckTimeout;
  attributes.retry_cnt = kRetries;
  attributes.rnr_retry = kRnrRetries;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
  if (const int error = ibv_modify_qp(handle_.get(), &attributes, mask); error != 0) return CannotMove("send", error);
  return absl::OkStatus();
}

void QueuePair::Fail() {
  if (handle_ == nullptr) return;
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_ERR;
  // It may be in that state already, or never have started: then there is nothing to flush.
  ibv_modify_qp(handle_.get(), &attributes, IBV_QP_STATE);
}

}  // namespace farlook::rdma::verbs
