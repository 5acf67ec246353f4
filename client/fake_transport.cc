#include "client/fake_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace farlook::client {

class FakeConnection final : public rdma::Connection {
 public:
  enum class State : uint8_t { kConnecting, kConnected, kBroken };

  explicit FakeConnection(FakeNetwork* network) : network_(network), capabilities_(network->capabilities) {}
  ~FakeConnection() override {
    if (network_->connection_ != this) return;
    network_->connection_ = nullptr;
    network_->events_.clear();
    network_->posted_reads_.clear();
    network_->held_reads_.clear();
    network_->held_requests_.clear();
  }

  bool PostRead(uint64_t wr_id, absl::Span<const rdma::Sge> to, uint64_t remote_address, uint32_t rkey) override {
    if (state_ != State::kConnected || network_->read_room == 0) return false;
    if (network_->read_room != SIZE_MAX) --network_->read_room;
    FakeNetwork::HeldRead read{wr_id, {to.begin(), to.end()}, remote_address};
    uint64_t bytes = 0;
    bool good = to.size() <= capabilities_.max_read_sges && remote_address % 8 == 0;
    for (const rdma::Sge& piece : to) {
      bytes += piece.bytes;
      good &= capabilities_.any_local_memory || network_->Registered(piece);
    }
    good &=
        bytes > 0 && bytes <= capabilities_.max_read_bytes && network_->Memory(remote_address, bytes, rkey) != nullptr;
    if (!good) {
      network_->Complete({wr_id, this, rdma::Opcode::kRead, rdma::WcStatus::kRemoteAccess, {}});
      return true;
    }
    network_->posted_reads_.push_back(std::move(read));
    ++network_->reads;
    network_->read_pieces += to.size();
    return true;
  }

  size_t ReadNow(absl::Span<const rdma::NowRead> reads, uint32_t rkey) override {
    if (!capabilities_.local || state_ != State::kConnected || rkey != network_->rkey) return 0;
    size_t made = 0;
    for (const rdma::NowRead& read : reads) {
      if (network_->now_room == 0) break;
      if (network_->now_room != SIZE_MAX) --network_->now_room;
      const absl::Span<char> region = network_->server->region();
      if (read.bytes > region.size() || read.remote_address > region.size() - read.bytes) break;
      if (network_->before_read_now) network_->before_read_now(read.remote_address, read.bytes);
      std::memcpy(read.to, region.data() + read.remote_address, read.bytes);
      ++network_->reads_now;
      ++made;
    }
    return made;
  }

  bool PostSend(absl::string_view head, absl::string_view body) override {
    if (state_ != State::kConnected || network_->send_room == 0) return false;
    if (network_->send_room != SIZE_MAX) --network_->send_room;
    std::string message(head);
    message.append(body.data(), body.size());
    network_->server->Watch(network_->session_, message);
    if (network_->session_ != 0) network_->sent.push_back(message);
    network_->held_requests_.push_back(std::move(message));
    return true;
  }

  bool PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                    uint64_t delta) override {
    return PostAtomic(rkey, {wr_id, {PieceOf(old_value)}, remote_address, rdma::Opcode::kFetchAdd, delta, 0});
  }
  bool PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey, uint64_t expected,
                       uint64_t desired) override {
    return PostAtomic(rkey,
                      {wr_id, {PieceOf(old_value)}, remote_address, rdma::Opcode::kCompareSwap, expected, desired});
  }

  void Ring() override {
    ++network_->rings;
    auto& held = network_->held_reads_;
    held.insert(held.end(), network_->posted_reads_.begin(), network_->posted_reads_.end());
    network_->posted_reads_.clear();
    if (!network_->hold_reads) network_->ReleaseReads();
    if (!network_->hold_requests) network_->ReleaseRequests();
  }

  void Disconnect() override { network_->Break(); }
  bool alive() const override { return state_ == State::kConnected && network_->server_alive; }
  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  absl::string_view welcome() const override { return welcome_; }
  absl::Status status() const override { return status_; }
  std::string peer() const override { return "fake"; }

  void Accept(std::string welcome) {
    welcome_ = std::move(welcome);
    state_ = State::kConnected;
    network_->Complete({0, this, rdma::Opcode::kConnected, rdma::WcStatus::kSuccess, {}});
  }
  void End(absl::Status why) {
    if (state_ == State::kBroken) return;
    state_ = State::kBroken;
    status_ = std::move(why);
    network_->Complete({0, this, rdma::Opcode::kDisconnected, rdma::WcStatus::kSuccess, {}});
  }

 private:
  static rdma::Sge PieceOf(uint64_t* word) { return {reinterpret_cast<char*>(word), sizeof *word}; }

  bool PostAtomic(uint32_t rkey, FakeNetwork::HeldRead atomic) {
    if (state_ != State::kConnected || network_->read_room == 0) return false;
    if (network_->read_room != SIZE_MAX) --network_->read_room;
    if (!capabilities_.atomics || rkey != FakeNetwork::kCellsRkey || atomic.address % 8 != 0 ||
        network_->Memory(atomic.address, 8, rkey) == nullptr || !network_->Registered(atomic.to[0])) {
      network_->Complete({atomic.wr_id, this, atomic.opcode, rdma::WcStatus::kRemoteAccess, {}});
      return true;
    }
    network_->posted_reads_.push_back(std::move(atomic));
    ++network_->atomics;
    return true;
  }

  FakeNetwork* const network_;
  const rdma::Capabilities capabilities_;
  State state_ = State::kConnecting;
  std::string welcome_;
  absl::Status status_;
};

class FakeBuffer final : public rdma::Buffer {
 public:
  FakeBuffer(FakeNetwork* network, size_t bytes, bool readable_by_peers)
      : network_(network), memory_(new uint64_t[(bytes + 7) / 8]()) {
    bytes_ = absl::MakeSpan(reinterpret_cast<char*>(memory_.get()), bytes);
    network_->registered_.emplace(bytes_.data(), bytes);
    if (!readable_by_peers) return;
    network_->readable_.push_back(this);
    ChangeKey();
  }
  ~FakeBuffer() override {
    network_->registered_.erase(bytes_.data());
    network_->offered_.erase(remote_.rkey);
    std::erase(network_->readable_, this);
  }

  void ChangeKey() {
    network_->offered_.erase(remote_.rkey);
    remote_ = {0, bytes_.size(), network_->next_rkey_++};
    network_->offered_.emplace(remote_.rkey, bytes_);
  }

 private:
  FakeNetwork* const network_;
  const std::unique_ptr<uint64_t[]> memory_;
};

class FakeEndpoint final : public rdma::Endpoint {
 public:
  explicit FakeEndpoint(FakeNetwork* network) : network_(network) {}

  absl::StatusOr<std::unique_ptr<rdma::Connection>> Connect(absl::string_view, absl::string_view hello,
                                                            int64_t) override {
    ++network_->connects;
    auto connection = std::make_unique<FakeConnection>(network_);
    network_->connection_ = connection.get();
    if (!network_->accepting) return connection;
    if (network_->server == nullptr) {
      connection->End(absl::NotFoundError("no server listens there"));
    } else if (!network_->reject.ok()) {
      connection->End(network_->reject);
    } else {
      const kv::ServerRange cells{FakeNetwork::kCellsAddress, network_->server->cells().size(),
                                  FakeNetwork::kCellsRkey};
      auto accept = network_->server->Accept(hello, {0, network_->server->region().size(), network_->rkey}, cells);
      if (accept.ok()) {
        network_->session_ = 0;
        connection->Accept(*std::move(accept));
      } else {
        connection->End(absl::PermissionDeniedError(accept.status().message()));
      }
    }
    return connection;
  }

  absl::StatusOr<std::unique_ptr<rdma::Buffer>> Allocate(size_t bytes, bool readable_by_peers) override {
    return std::make_unique<FakeBuffer>(network_, bytes, readable_by_peers);
  }

  size_t Poll(absl::Span<rdma::Completion> out) override {
    network_->delivered_.clear();
    size_t count = 0;
    while (count < out.size() && !network_->events_.empty()) {
      auto& event = network_->events_.front();
      network_->delivered_.push_back(std::make_unique<std::string>(std::move(event.message)));
      out[count] = event.completion;
      out[count++].message = absl::MakeConstSpan(*network_->delivered_.back());
      network_->events_.pop_front();
    }
    return count;
  }

  bool Arm() override { return network_->events_.empty(); }
  int fd() const override { return -1; }
  void Wake() override {}

 private:
  FakeNetwork* const network_;
};

FakeNetwork::FakeNetwork() {
  capabilities.max_outstanding_reads = 16;
  capabilities.send_queue_depth = 64;
  capabilities.max_read_sges = 4;
  capabilities.max_read_bytes = 1 << 30;
}

std::unique_ptr<rdma::Endpoint> FakeNetwork::CreateEndpoint() { return std::make_unique<FakeEndpoint>(this); }

bool FakeNetwork::Registered(const rdma::Sge& piece) const {
  auto after = registered_.upper_bound(piece.data);
  if (after == registered_.begin()) return false;
  const auto& [start, bytes] = *--after;
  return piece.data + piece.bytes <= start + bytes;
}

void FakeNetwork::Complete(rdma::Completion completion, std::string message) {
  events_.push_back({completion, std::move(message)});
}

// What a peer names so; null if it may not.
char* FakeNetwork::Memory(uint64_t address, uint64_t bytes, uint32_t key) const {
  absl::Span<char> region;
  if (key == rkey) region = server->region();
  if (key == kCellsRkey && address >= kCellsAddress) {
    region = server->cells();
    address -= kCellsAddress;
  }
  return address < region.size() && bytes <= region.size() - address ? region.data() + address : nullptr;
}

void FakeNetwork::Run(const HeldRead& read) {
  const bool cell = read.address >= kCellsAddress;
  char* from = cell ? server->cells().data() + (read.address - kCellsAddress) : server->region().data() + read.address;
  if (read.opcode != rdma::Opcode::kRead) {
    uint64_t old;
    std::memcpy(&old, from, sizeof old);
    uint64_t value = old;
    if (read.opcode == rdma::Opcode::kFetchAdd) value += read.operand;
    if (read.opcode == rdma::Opcode::kCompareSwap && old == read.operand) value = read.desired;
    std::memcpy(from, &value, sizeof value);
    std::memcpy(read.to[0].data, &old, sizeof old);
    Complete({read.wr_id, connection_, read.opcode, rdma::WcStatus::kSuccess, {}});
    return;
  }
  for (const rdma::Sge& piece : read.to) {
    std::memcpy(piece.data, from, piece.bytes);
    from += piece.bytes;
  }
  Complete({read.wr_id, connection_, rdma::Opcode::kRead, rdma::WcStatus::kSuccess, {}});
}

void FakeNetwork::ReleaseReads(bool newest_first) {
  std::vector<HeldRead> held = std::exchange(held_reads_, {});
  if (newest_first) std::reverse(held.begin(), held.end());
  for (const HeldRead& read : held) Run(read);
}

void FakeNetwork::Serve(const std::string& message) {
  const auto pull = [this](const kv::ValueSource& source, uint32_t bytes) {
    const auto offered = offered_.find(source.rkey);
    if (offered == offered_.end() || source.address + bytes > offered->second.size()) return std::string();
    return std::string(offered->second.data() + source.address, bytes);
  };
  std::string reply = server->Answer(&session_, message, pull);
  if (!lose_replies && !reply.empty()) {
    Complete({0, connection_, rdma::Opcode::kReceive, rdma::WcStatus::kSuccess, {}}, std::move(reply));
  }
}

void FakeNetwork::ReleaseRequests(std::vector<size_t> which) {
  if (which.empty()) {
    for (size_t i = 0; i < held_requests_.size(); ++i) which.push_back(i);
  }
  for (size_t i : which) Serve(held_requests_[i]);
  std::sort(which.rbegin(), which.rend());
  for (size_t i : which) held_requests_.erase(held_requests_.begin() + static_cast<std::ptrdiff_t>(i));
}

void FakeNetwork::Inject(absl::string_view message) {
  Complete({0, connection_, rdma::Opcode::kReceive, rdma::WcStatus::kSuccess, {}}, std::string(message));
}

void FakeNetwork::Break() {
  if (connection_ == nullptr) return;
  posted_reads_.insert(posted_reads_.begin(), held_reads_.begin(), held_reads_.end());
  held_reads_.clear();
  for (const HeldRead& read : std::exchange(posted_reads_, {})) {
    Complete({read.wr_id, connection_, read.opcode, rdma::WcStatus::kFlushed, {}});
  }
  held_requests_.clear();
  connection_->End(absl::UnavailableError("the link broke"));
}

void FakeNetwork::ChangeKeys() {
  for (FakeBuffer* buffer : readable_) buffer->ChangeKey();
}

}  // namespace farlook::client
