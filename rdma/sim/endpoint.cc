#include "rdma/sim/endpoint.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rdma/sim/listener.h"

namespace farlook::rdma::sim {
namespace {

constexpr size_t kPageBytes = 4096;
constexpr size_t kMaxBufferBytes = size_t{1} << 30;

class SimBuffer : public Buffer {
 public:
  SimBuffer(Network* network, char* memory, size_t bytes) : network_(network), memory_(memory) {
    bytes_ = {memory, bytes};
  }
  ~SimBuffer() override {
    if (remote_.rkey != 0) network_->Withdraw(remote_.rkey);
    std::free(memory_);
  }
  void Offer(const SimEndpoint* endpoint) {
    remote_ = network_->Offer({memory_, bytes_.size(), Access::kRemoteRead, endpoint->party(), endpoint, {}});
  }

 private:
  Network* const network_;
  char* const memory_;
};

}  // namespace

absl::StatusOr<absl::string_view> NameIn(absl::string_view address) {
  absl::string_view name = address;
  if (!absl::ConsumePrefix(&name, "sim://") || name.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", address, "\" is not of the form sim://name"));
  }
  return name;
}

absl::StatusOr<std::unique_ptr<Connection>> SimEndpoint::Connect(absl::string_view address, absl::string_view hello,
                                                                 int64_t timeout_ms) {
  absl::StatusOr<absl::string_view> name = NameIn(address);
  if (!name.ok()) return name.status();
  if (hello.size() > kMaxHelloBytes) return absl::InvalidArgumentError("the hello is too long");
  auto wire = std::make_shared<Wire>(network_);
  auto connection = std::make_unique<SimConnection>(wire, Wire::kClient);
  network_->Add(wire);
  Wire::Side& side = wire->side(Wire::kClient);
  side.party = party_;
  side.endpoint = this;
  side.connection = connection.get();
  side.receives = network_->options.receives[kClient];
  network_->scheduler().After(timeout_ms * 1'000'000, [wire] {
    if (wire->side(Wire::kClient).state != Wire::State::kConnecting) return;
    wire->End(Wire::kClient, absl::UnavailableError("no answer in time"));
  });
  if (network_->Happens(NetworkFault::kLostConnect, kClient)) return connection;
  network_->scheduler().After(network_->DrawDelay(NetworkFault::kSlowConnect, kClient),
                              [wire, network = network_, name = std::string(*name), hello = std::string(hello)] {
                                if (wire->side(Wire::kClient).state != Wire::State::kConnecting) return;
                                SimListener* listener = network->FindListener(name);
                                if (listener == nullptr) {
                                  wire->End(Wire::kClient, absl::UnavailableError("no server listens there"));
                                } else {
                                  listener->Arrive(wire, hello);
                                }
                              });
  return connection;
}

absl::StatusOr<std::unique_ptr<Buffer>> SimEndpoint::Allocate(size_t bytes, bool readable_by_peers) {
  if (bytes == 0) return absl::InvalidArgumentError("a buffer of no bytes");
  if (bytes > kMaxBufferBytes || network_->Happens(NetworkFault::kNoMemory, side_)) {
    return absl::ResourceExhaustedError("no memory left (simulated)");
  }
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  char* memory = static_cast<char*>(std::aligned_alloc(kPageBytes, bytes));
  if (memory == nullptr) return absl::ResourceExhaustedError("no memory left");
  std::memset(memory, 0, bytes);
  auto buffer = std::make_unique<SimBuffer>(network_, memory, bytes);
  if (readable_by_peers) buffer->Offer(this);
  return buffer;
}

void SimEndpoint::Push(Completion completion, absl::string_view message) {
  Message copy;
  copy.bytes = message.size();
  copy.words.resize((message.size() + 7) / 8);
  if (!message.empty()) std::memcpy(copy.words.data(), message.data(), message.size());
  ready_.push_back({completion, std::move(copy)});
  Wake();
}

size_t SimEndpoint::Poll(absl::Span<Completion> out) {
  for (const auto& [wire, side] : std::exchange(posted_, {})) wire->Ring(side);
  for (SimConnection* connection : std::exchange(held_, {})) connection->wire().Received(connection->side());
  delivered_.clear();
  delivered_.reserve(std::min(out.size(), ready_.size()));
  size_t count = 0;
  std::vector<SimConnection*> received;
  for (auto next = ready_.begin(); count < out.size() && next != ready_.end();) {
    if (IsKeptBack(*next)) {
      ++next;
      continue;
    }
    Completion& completion = out[count++];
    completion = next->completion;
    Message message = std::move(next->message);
    next = ready_.erase(next);
    if (completion.opcode == Opcode::kDisconnected) {
      const auto lost = [&](const Ready& ready) { return ready.completion.connection == completion.connection; };
      ready_.erase(std::remove_if(ready_.begin(), ready_.end(), lost), ready_.end());
      next = ready_.begin();  // all entries before it are kept back
    }
    if (completion.opcode != Opcode::kReceive) continue;
    delivered_.push_back(std::move(message));
    const Message& kept = delivered_.back();
    completion.message = {reinterpret_cast<const char*>(kept.words.data()), kept.bytes};
    received.push_back(static_cast<SimConnection*>(completion.connection));
  }
  if (network_->options.held_receives) {
    held_ = std::move(received);
  } else {
    for (SimConnection* connection : received) connection->wire().Received(connection->side());
  }
  return count;
}

bool SimEndpoint::TakeRead(const Connection* connection, uint64_t wr_id) {
  if (ready_.empty()) return false;
  const Completion& next = ready_.front().completion;
  if (next.connection != connection || next.opcode != Opcode::kRead || next.wr_id != wr_id ||
      next.status != WcStatus::kSuccess) {
    return false;
  }
  ready_.pop_front();
  return true;
}

bool SimEndpoint::IsKeptBack(const Ready& ready) {
  return ready.completion.opcode == Opcode::kReceive &&
         !static_cast<const SimConnection*>(ready.completion.connection)->receiving();
}

size_t SimEndpoint::KeptBack() const {
  return static_cast<size_t>(std::count_if(ready_.begin(), ready_.end(), IsKeptBack));
}

void SimEndpoint::Forget(const Connection* connection) {
  std::erase_if(ready_, [connection](const Ready& ready) { return ready.completion.connection == connection; });
  std::erase(held_, connection);
}

SimConnection::~SimConnection() {
  Wire::Side& side = wire_->side(side_);
  const bool was_up = side.state == Wire::State::kUp;
  side.connection = nullptr;
  if (was_up) {
    wire_->Leave(side_, absl::UnavailableError("destroyed"));
  } else {
    wire_->End(side_, absl::UnavailableError("destroyed"));
  }
  side.endpoint->Forget(this);
}

bool SimConnection::Post(Work work) {
  if (!wire_->HasRoom(side_)) return false;
  Wire::Side& side = wire_->side(side_);
  if (side.posted.empty()) side.endpoint->Posted(wire_, side_);
  side.posted.push_back(std::make_shared<Work>(std::move(work)));
  return true;
}

bool SimConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  if (!wire_->HasRoom(side_)) return false;
  Work work;
  work.wr_id = wr_id;
  work.to.assign(to.begin(), to.end());
  work.address = remote_address;
  work.rkey = rkey;
  for (const Sge& piece : to) work.bytes += piece.bytes;
  return Post(std::move(work));
}

// Runs everything else for a while.
AtOnce SimConnection::ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey,
                                 uint32_t /*looks*/) {
  const Wire::Side& side = wire_->side(side_);
  const bool is_idle = side.posted.empty() && side.running.empty() && side.endpoint->quiet();
  if (!capabilities().reads_at_once || !is_idle || !PostRead(wr_id, {&to, 1}, remote_address, rkey)) return AtOnce::kNo;
  Ring();
  Network& network = wire_->network();
  network.scheduler().RunUntil(network.now_ns() + network.random().Between(0, 2 * network.options.max_delay_ns));
  while (network.stopped_until_ns(side.party) > network.now_ns()) {
    network.scheduler().RunUntil(network.stopped_until_ns(side.party));
  }
  return side.endpoint->TakeRead(this, wr_id) ? AtOnce::kDone : AtOnce::kPosted;
}

bool SimConnection::PostSend(absl::string_view head, absl::string_view body) {
  const size_t bytes = head.size() + body.size();
  if (bytes == 0 || bytes > kMaxMessageBytes || !wire_->HasRoom(side_)) return false;
  Work work;
  work.opcode = Opcode::kReceive;
  work.message = absl::StrCat(head, body);
  return Post(std::move(work));
}

bool SimConnection::PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                 uint64_t delta) {
  Work work;
  work.opcode = Opcode::kFetchAdd;
  work.wr_id = wr_id;
  work.old_value = old_value;
  work.address = remote_address;
  work.rkey = rkey;
  work.bytes = 8;
  work.operand = delta;
  return Post(std::move(work));
}

bool SimConnection::PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                    uint64_t expected, uint64_t desired) {
  Work work;
  work.opcode = Opcode::kCompareSwap;
  work.wr_id = wr_id;
  work.old_value = old_value;
  work.address = remote_address;
  work.rkey = rkey;
  work.bytes = 8;
  work.expected = expected;
  work.operand = desired;
  return Post(std::move(work));
}

void SimConnection::SetReceiving(bool receiving) {
  receiving_ = receiving;
  if (receiving) wire_->side(side_).endpoint->Wake();
}

void SimConnection::Disconnect() {
  if (wire_->side(side_).state == Wire::State::kDown) return;
  wire_->Leave(side_, absl::UnavailableError("disconnected by this side"));
}

bool SimConnection::alive() const {
  if (wire_->side(side_).state != Wire::State::kUp) return false;
  // On one host a process detects another's death at once.
  return !capabilities().local || wire_->side(1 - side_).state != Wire::State::kDown;
}

std::string SimConnection::peer() const { return absl::StrCat("party ", wire_->side(1 - side_).party); }

}  // namespace farlook::rdma::sim
