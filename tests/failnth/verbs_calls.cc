// The calls of libibverbs and librdmacm that the product makes, each with errors that it may return. Not here, as their
// failure changes nothing: closing, destroying, acknowledging.
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>

#include "tests/failnth/calls.h"

namespace {

using farlook::failnth::Fails;
using farlook::failnth::Kind;

}  // namespace

// Returns `failed`, which may be made of `error`; errno is set too.
#define FAILABLE(result, failed, name, parameters, arguments, ...)                           \
  extern "C" result __real_##name parameters;                                                \
  extern "C" result __wrap_##name parameters;                                                \
  result __wrap_##name parameters {                                                          \
    static constexpr int kErrors[] = {__VA_ARGS__};                                          \
    if (Fails(Kind::kVerbsCall, #name, __builtin_return_address(0), kErrors)) return failed; \
    return __real_##name arguments;                                                          \
  }

FAILABLE(ibv_device**, nullptr, ibv_get_device_list, (int* count), (count), ENOMEM)
FAILABLE(ibv_pd*, nullptr, ibv_alloc_pd, (ibv_context * context), (context), ENOMEM)
FAILABLE(ibv_comp_channel*, nullptr, ibv_create_comp_channel, (ibv_context * context), (context), EMFILE)
FAILABLE(ibv_cq*, nullptr, ibv_create_cq,
         (ibv_context * context, int entries, void* with, ibv_comp_channel* channel, int vector),
         (context, entries, with, channel, vector), ENOMEM)
FAILABLE(ibv_srq*, nullptr, ibv_create_srq, (ibv_pd * domain, ibv_srq_init_attr* wanted), (domain, wanted), ENOMEM)
FAILABLE(ibv_qp*, nullptr, ibv_create_qp, (ibv_pd * domain, ibv_qp_init_attr* wanted), (domain, wanted), ENOMEM, EPERM)
FAILABLE(ibv_mr*, nullptr, ibv_reg_mr, (ibv_pd * domain, void* at, size_t bytes, int access),
         (domain, at, bytes, access), ENOMEM)
FAILABLE(ibv_mr*, nullptr, ibv_reg_mr_iova2,
         (ibv_pd * domain, void* at, size_t bytes, uint64_t address, unsigned access),
         (domain, at, bytes, address, access), ENOMEM)
FAILABLE(int, errno, ibv_query_device, (ibv_context * context, ibv_device_attr* to), (context, to), ENOMEM)
FAILABLE(int, errno, ibv_modify_qp, (ibv_qp * pair, ibv_qp_attr* to, int mask), (pair, to, mask), ENOMEM)
FAILABLE(int, -1, ibv_get_cq_event, (ibv_comp_channel * channel, ibv_cq** queue, void** with), (channel, queue, with),
         EINTR)

FAILABLE(rdma_event_channel*, nullptr, rdma_create_event_channel, (), (), EMFILE)
FAILABLE(int, -1, rdma_create_id, (rdma_event_channel * channel, rdma_cm_id** id, void* with, rdma_port_space space),
         (channel, id, with, space), ENOMEM)
FAILABLE(int, -1, rdma_bind_addr, (rdma_cm_id * id, sockaddr* address), (id, address), EADDRINUSE)
FAILABLE(int, -1, rdma_listen, (rdma_cm_id * id, int backlog), (id, backlog), EADDRINUSE)
FAILABLE(int, -1, rdma_resolve_addr, (rdma_cm_id * id, sockaddr* from, sockaddr* to, int timeout_ms),
         (id, from, to, timeout_ms), ENOMEM)
FAILABLE(int, -1, rdma_resolve_route, (rdma_cm_id * id, int timeout_ms), (id, timeout_ms), ENOMEM)
FAILABLE(int, -1, rdma_connect, (rdma_cm_id * id, rdma_conn_param* with), (id, with), ENOMEM)
FAILABLE(int, -1, rdma_accept, (rdma_cm_id * id, rdma_conn_param* with), (id, with), ENOMEM, ENOTCONN)
FAILABLE(int, -1, rdma_establish, (rdma_cm_id * id), (id), ENOMEM)
FAILABLE(int, -1, rdma_init_qp_attr, (rdma_cm_id * id, ibv_qp_attr* to, int* mask), (id, to, mask), EINVAL)
FAILABLE(int, -1, rdma_migrate_id, (rdma_cm_id * id, rdma_event_channel* to), (id, to), ENOMEM)
FAILABLE(int, -1, rdma_get_cm_event, (rdma_event_channel * channel, rdma_cm_event** to), (channel, to), EINTR)
FAILABLE(int, -1, rdma_disconnect, (rdma_cm_id * id), (id), EINVAL)

// Functions that verbs.h calls through the tables of an opened device.
namespace {

ibv_context_ops real_ops;
int (*real_query_port)(ibv_context*, uint8_t, ibv_port_attr*, size_t);

#define FAILS_WITH(name, ...)                     \
  static constexpr int kErrors[] = {__VA_ARGS__}; \
  if (Fails(Kind::kVerbsCall, name, __builtin_return_address(0), kErrors))

int PollQueue(ibv_cq* queue, int most, ibv_wc* to) {
  FAILS_WITH("ibv_poll_cq", EIO) return -EIO;
  return real_ops.poll_cq(queue, most, to);
}

int AskForEvent(ibv_cq* queue, int solicited) {
  FAILS_WITH("ibv_req_notify_cq", ENOMEM) return ENOMEM;
  return real_ops.req_notify_cq(queue, solicited);
}

int PostSend(ibv_qp* pair, ibv_send_wr* wr, ibv_send_wr** bad) {
  FAILS_WITH("ibv_post_send", ENOMEM) {
    *bad = wr;
    return ENOMEM;
  }
  return real_ops.post_send(pair, wr, bad);
}

int PostReceive(ibv_qp* pair, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FAILS_WITH("ibv_post_recv", ENOMEM) {
    *bad = wr;
    return ENOMEM;
  }
  return real_ops.post_recv(pair, wr, bad);
}

int PostSharedReceive(ibv_srq* queue, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FAILS_WITH("ibv_post_srq_recv", ENOMEM) {
    *bad = wr;
    return ENOMEM;
  }
  return real_ops.post_srq_recv(queue, wr, bad);
}

int QueryPort(ibv_context* context, uint8_t port, ibv_port_attr* to, size_t bytes) {
  FAILS_WITH("ibv_query_port", ENOMEM) return ENOMEM;
  return real_query_port(context, port, to, bytes);
}

}  // namespace

extern "C" ibv_context* __real_ibv_open_device(ibv_device* device);
extern "C" ibv_context* __wrap_ibv_open_device(ibv_device* device);
ibv_context* __wrap_ibv_open_device(ibv_device* device) {
  FAILS_WITH("ibv_open_device", EMFILE) return nullptr;
  ibv_context* const context = __real_ibv_open_device(device);
  if (context == nullptr) return nullptr;
  real_ops = context->ops;  // of one driver, so always the same
  context->ops.poll_cq = PollQueue;
  context->ops.req_notify_cq = AskForEvent;
  context->ops.post_send = PostSend;
  context->ops.post_recv = PostReceive;
  context->ops.post_srq_recv = PostSharedReceive;
  verbs_context* const more = verbs_get_ctx_op(context, query_port);
  if (more != nullptr) {
    real_query_port = more->query_port;
    more->query_port = QueryPort;
  }
  return context;
}
