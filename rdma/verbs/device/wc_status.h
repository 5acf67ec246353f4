// The meaning of a work completion's status.
#ifndef FARLOOK_RDMA_VERBS_DEVICE_WC_STATUS_H_
#define FARLOOK_RDMA_VERBS_DEVICE_WC_STATUS_H_

#include <infiniband/verbs.h>

#include "absl/strings/string_view.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// Returns the status for users.
WcStatus WcStatusOf(ibv_wc_status status);

// Returns a sentence without its end, for Connection::status(): the event in terms of the connection.
absl::string_view WcSentence(ibv_wc_status status);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_DEVICE_WC_STATUS_H_
