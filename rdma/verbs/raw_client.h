// A client that uses verbs directly and follows no rule, for tests.
#ifndef FARLOOK_RDMA_VERBS_RAW_CLIENT_H_
#define FARLOOK_RDMA_VERBS_RAW_CLIENT_H_

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace farlook::rdma::verbs {

inline std::string TestHost() {
  const char* const host = std::getenv("FARLOOK_RDMA_ADDRESS");
  return host != nullptr ? host : "10.0.0.1";
}

// Blocking, on librdmacm's own event channel. Another thread must serve the server.
class RawClient {
 public:
  static constexpr size_t kBytes = 4096;

  explicit RawClient(int port) {
    rdma_addrinfo hints = {};
    hints.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(TestHost().c_str(), std::to_string(port).c_str(), &hints, &found), 0);
    ibv_qp_init_attr attributes = {};
    attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 256;
    attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
    attributes.sq_sig_all = 1;
    EXPECT_EQ(rdma_create_ep(&id_, found, nullptr, &attributes), 0) << strerror(errno);
    rdma_freeaddrinfo(found);
    memory_ = static_cast<char*>(aligned_alloc(4096, kBytes));
    memset(memory_, 0x5a, kBytes);
    region_ = ibv_reg_mr(id_->pd, memory_, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  }
  ~RawClient() {
    ibv_dereg_mr(region_);
    if (connected_) rdma_disconnect(id_);
    rdma_destroy_ep(id_);
    free(memory_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  // Returns whether it was accepted.
  bool Connect(absl::string_view private_data) {
    rdma_conn_param parameters = {};
    parameters.private_data = private_data.data();
    parameters.private_data_len = static_cast<uint8_t>(private_data.size());
    parameters.responder_resources = parameters.initiator_depth = 4;
    parameters.retry_count = 6;
    for (int i = 0; i < 200; ++i) rdma_post_recv(id_, nullptr, memory_ + 2048, 2048, region_);
    connected_ = rdma_connect(id_, &parameters) == 0;
    return connected_;
  }

  // Returns the result of a request for the 8 bytes at `address`.
  ibv_wc_status Try(ibv_wr_opcode opcode, uint64_t address, uint32_t rkey) {
    ibv_sge piece = {reinterpret_cast<uintptr_t>(memory_), 8, region_->lkey};
    ibv_send_wr request = {};
    request.opcode = opcode;
    request.sg_list = &piece;
    request.num_sge = 1;
    if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE) {
      request.wr.rdma.remote_addr = address;
      request.wr.rdma.rkey = rkey;
    } else {
      request.wr.atomic.remote_addr = address;
      request.wr.atomic.rkey = rkey;
      request.wr.atomic.compare_add = 1;
      request.wr.atomic.swap = 2;
    }
    ibv_send_wr* refused = nullptr;
    if (ibv_post_send(id_->qp, &request, &refused) != 0) return IBV_WC_LOC_QP_OP_ERR;
    return Wait();
  }

  // Sends `bytes` from the start of the memory; does not wait.
  bool Send(absl::string_view bytes) {
    memcpy(memory_, bytes.data(), bytes.size());
    return rdma_post_send(id_, nullptr, memory_, bytes.size(), region_, 0) == 0;
  }

  // Blocks until a message arrives. REQUIRES that one will.
  bool AwaitMessage() {
    ibv_wc wc = {};
    return rdma_get_recv_comp(id_, &wc) == 1 && wc.status == IBV_WC_SUCCESS;
  }

  ibv_wc_status Wait() {
    ibv_wc wc = {};
    return rdma_get_send_comp(id_, &wc) == 1 ? wc.status : IBV_WC_GENERAL_ERR;
  }

  uint64_t address() const { return reinterpret_cast<uintptr_t>(memory_); }
  uint32_t rkey() const { return region_->rkey; }

 private:
  rdma_cm_id* id_ = nullptr;
  char* memory_ = nullptr;
  ibv_mr* region_ = nullptr;
  bool connected_ = false;
};

}  // namespace farlook::rdma::verbs

#endif  // FARLOOK_RDMA_VERBS_RAW_CLIENT_H_
