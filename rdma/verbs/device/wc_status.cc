#include "rdma/verbs/device/wc_status.h"

namespace farlook::rdma::verbs {

WcStatus WcStatusOf(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return WcStatus::kSuccess;
    // The peer's device refused: the key, the range, the access, the alignment or the operation.
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return WcStatus::kRemoteAccess;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return WcStatus::kRetryExceeded;
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_MW_BIND_ERR:
      return WcStatus::kLocalError;
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_BAD_RESP_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
    case IBV_WC_FATAL_ERR:
    case IBV_WC_GENERAL_ERR:
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return WcStatus::kFlushed;
  }
  return WcStatus::kFlushed;
}

absl::string_view WcSentence(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS:
      return "a request succeeded";
    case IBV_WC_LOC_LEN_ERR:
      return "a message or READ was longer than the memory for it";
    case IBV_WC_LOC_QP_OP_ERR:
      return "the device refused a request of this side as malformed";
    case IBV_WC_LOC_PROT_ERR:
      return "a request of this side named local memory that is not registered for it";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair broke";
    case IBV_WC_MW_BIND_ERR:
      return "a memory window could not be bound";
    case IBV_WC_BAD_RESP_ERR:
      return "the peer's device answered with nonsense";
    case IBV_WC_LOC_ACCESS_ERR:
      return "the peer tried to write where it may not";
    case IBV_WC_REM_INV_REQ_ERR:
      return "the peer's device refused a request as invalid";
    case IBV_WC_REM_ACCESS_ERR:
      return "this side posted a request for memory that the peer did not grant";
    case IBV_WC_REM_OP_ERR:
      return "the peer's device could not complete a request";
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer does not answer: its host or its process is gone, or the link is cut";
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return "the peer had no receive buffer for a message, in all tries";
    case IBV_WC_LOC_RDD_VIOL_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
      return "the device found a violation of a reliable datagram domain";
    case IBV_WC_REM_ABORT_ERR:
      return "the peer's device aborted a request";
    case IBV_WC_LOC_EEC_OP_ERR:
    case IBV_WC_INV_EECN_ERR:
    case IBV_WC_INV_EEC_STATE_ERR:
      return "the device found an error in an end-to-end context";
    case IBV_WC_FATAL_ERR:
      return "the device failed";
    case IBV_WC_RESP_TIMEOUT_ERR:
      return "the peer's device did not answer in time";
    case IBV_WC_GENERAL_ERR:
      return "the device reports an error that it does not name";
    case IBV_WC_TM_ERR:
    case IBV_WC_TM_RNDV_INCOMPLETE:
      return "the device reports an error of tag matching";
  }
  return "the device reports an error that is unknown here";
}

}  // namespace farlook::rdma::verbs
