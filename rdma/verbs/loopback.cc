#include "rdma/verbs/loopback.h"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rdma/clock.h"
#include "rdma/verbs/device/diagnosis.h"
#include "rdma/verbs/device/wc_status.h"
#include "rdma/verbs/handshake/limits.h"
#include "rdma/verbs/handshake/negotiation.h"

namespace farlook::rdma::verbs {
namespace {

// Ranks the port's addresses for reaching itself: RoCE v2 before v1, and a routable one before a link-local one.
int Rank(const ibv_gid_entry& entry) {
  const bool link_local = entry.gid.raw[0] == 0xfe && (entry.gid.raw[1] & 0xc0) == 0x80;
  return (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0) + (link_local ? 0 : 1);
}

// On Ethernet a path needs an address; on InfiniBand the port's LID suffices.
absl::StatusOr<ibv_ah_attr> PathToItself(const Device& device, const ibv_port_attr& port) {
  ibv_ah_attr path = {};
  path.port_num = device.port();
  path.dlid = port.lid;
  if (port.link_layer != IBV_LINK_LAYER_ETHERNET && port.lid != 0) return path;
  std::vector<ibv_gid_entry> entries(static_cast<size_t>(port.gid_tbl_len));
  const ssize_t count = ibv_query_gid_table(device.context(), entries.data(), entries.size(), /*flags=*/0);
  const ibv_gid_entry* best = nullptr;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.port_num == device.port() && (best == nullptr || Rank(entry) > Rank(*best))) best = &entry;
  }
  if (best == nullptr) {
    return absl::UnavailableError(absl::StrCat("port ", device.port(), " of ", device.name(), " has no address"));
  }
  path.is_global = 1;
  path.grh.dgid = best->gid;
  path.grh.sgid_index = static_cast<uint8_t>(best->gid_index);
  path.grh.hop_limit = 1;
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerbsLoopback>> VerbsLoopback::Create(std::shared_ptr<Offers> offers,
                                                                     const RemoteRange& range) {
  std::unique_ptr<VerbsLoopback> loopback(new VerbsLoopback(std::move(offers), range.rkey));
  absl::StatusOr<Mapping> buffer = MapAnonymous(sizeof(uint64_t));
  if (!buffer.ok()) return buffer.status();
  loopback->buffer_ = *std::move(buffer);
  absl::StatusOr<MemoryRegion> region =
      Register(*loopback->offers_->device, loopback->buffer_.data(), sizeof(uint64_t), 0, "a word for atomics");
  if (!region.ok()) return region.status();
  loopback->buffer_region_ = *std::move(region);
  loopback->events_.sink = loopback.get();
  uint64_t ignored;
  if (absl::Status status = loopback->Read(range.address, &ignored); !status.ok()) return status;
  return loopback;
}

absl::Status VerbsLoopback::Open() {
  const Device& device = *offers_->device;
  ibv_port_attr port = {};
  if (const int error = ibv_query_port(device.context(), device.port(), &port); error != 0) {
    return CannotOpen(device.name(), error);
  }
  absl::StatusOr<ibv_ah_attr> path = PathToItself(device, port);
  if (!path.ok()) return path.status();
  AsyncSink* const sink = this;
  completions_.reset(ibv_create_cq(device.context(), /*cqe=*/2, sink, /*channel=*/nullptr, /*comp_vector=*/0));
  if (completions_ == nullptr) return CannotCreate("a completion queue", device.name(), errno);
  QueuePlan plan;
  plan.hardware_depth = 1;
  QueuePair::Queues queues;
  queues.completions = completions_.get();
  queues.receives = 1;  // none is ever posted; some devices require room for one
  absl::StatusOr<QueuePair> pair = QueuePair::Create(device, plan, queues, &events_);
  if (!pair.ok()) return pair.status();
  pair_ = *std::move(pair);
  absl::Status status = pair_.ConnectToItself(*path, port.active_mtu);
  if (!status.ok()) Close();
  return status;
}

// Afterwards the device changes nothing any more.
void VerbsLoopback::Close() {
  pair_.reset();
  completions_.reset();
}

absl::Status VerbsLoopback::Read(uint64_t remote_address, uint64_t* value) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = remote_address;
  request.wr.rdma.rkey = rkey_;
  return Execute(&request, value);
}

absl::Status VerbsLoopback::FetchAdd(uint64_t remote_address, uint64_t delta, uint64_t* old_value) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic.remote_addr = remote_address;
  request.wr.atomic.rkey = rkey_;
  request.wr.atomic.compare_add = delta;
  return Execute(&request, old_value);
}

absl::Status VerbsLoopback::CompareSwap(uint64_t remote_address, uint64_t expected, uint64_t desired,
                                        uint64_t* old_value) {
  ibv_send_wr request = {};
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic.remote_addr = remote_address;
  request.wr.atomic.rkey = rkey_;
  request.wr.atomic.compare_add = expected;
  request.wr.atomic.swap = desired;
  return Execute(&request, old_value);
}

absl::Status VerbsLoopback::Execute(ibv_send_wr* request, uint64_t* result) {
  ibv_sge buffer = {reinterpret_cast<uintptr_t>(buffer_.data()), sizeof(uint64_t), buffer_region_->lkey};
  request->sg_list = &buffer;
  request->num_sge = 1;
  request->send_flags = IBV_SEND_SIGNALED;
  absl::MutexLock lock(&mutex_);
  absl::Status status;
  if (!pair_.ok()) {
    if (!failure_.ok() && Clock::Real().NowNs() - failed_ns_ < kLoopbackPauseNs) return failure_;
    status = Open();
  }
  if (status.ok()) {
    ibv_send_wr* refused = nullptr;
    const int error = ibv_post_send(pair_.get(), request, &refused);
    status = error == 0 ? Await()
                        : absl::UnavailableError(
                              absl::StrCat(offers_->device->name(), " does not take a request: ", strerror(error)));
  }
  if (!status.ok()) {
    Close();
    failure_ = status;
    failed_ns_ = Clock::Real().NowNs();
    return status;
  }
  memcpy(result, buffer_.data(), sizeof(uint64_t));
  return absl::OkStatus();
}

// Waits for the completion of the one request.
absl::Status VerbsLoopback::Await() {
  const std::string& device = offers_->device->name();
  int64_t deadline_ns = 0;
  for (uint32_t polls = 1;; ++polls) {
    ibv_wc done = {};
    const int count = ibv_poll_cq(completions_.get(), 1, &done);
    if (count > 0 && done.status == IBV_WC_SUCCESS) return absl::OkStatus();
    if (count > 0) {
      const std::string trouble = offers_->device->PortTrouble();
      return absl::UnavailableError(absl::StrCat(device, " to itself: ", WcSentence(done.status),
                                                 trouble.empty() ? "" : " (", trouble, trouble.empty() ? "" : ")"));
    }
    if (count < 0) return absl::UnavailableError(absl::StrCat("a completion queue of ", device, " failed"));
    if (polls % kLoopbackPolls != 0) continue;
    const int64_t now_ns = Clock::Real().NowNs();
    if (deadline_ns == 0) deadline_ns = now_ns + kLoopbackTimeoutNs;
    if (now_ns > deadline_ns) return absl::UnavailableError(absl::StrCat(device, " does not answer itself"));
    sched_yield();
  }
}

}  // namespace farlook::rdma::verbs
