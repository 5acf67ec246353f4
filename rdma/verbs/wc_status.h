// What the status of a work completion means.
#ifndef FARLOOK_RDMA_VERBS_WC_STATUS_H_
#define FARLOOK_RDMA_VERBS_WC_STATUS_H_

#include <infiniband/verbs.h>

#include "absl/strings/string_view.h"
#include "rdma/transport.h"

namespace farlook::rdma::verbs {

// As users see it.
WcStatus WcStatusOf(ibv_wc_status status);

// A sentence without its end, for Connection::status(): what happened, in words of the connection.
absl::string_view WcSentence(ibv_wc_status status);

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_WC_STATUS_H_
