#include "client/testing/fake_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace farlook::client {

FakeNetwork::FakeNetwork() {
  capabilities.max_outstanding_reads = 16;
  capabilities.send_queue_depth = 64;
  capabilities.max_read_sges = 4;
  capabilities.max_read_bytes = 1 << 30;
}

std::unique_ptr<rdma::Endpoint> FakeNetwork::CreateEndpoint() {
  auto endpoint = std::make_unique<rdma::FakeEndpoint>(&memory_);
  endpoint->on_connect = [this](rdma::FakeEndpoint* from, absl::string_view hello) { return Connect(from, hello); };
  return endpoint;
}

std::unique_ptr<rdma::Connection> FakeNetwork::Connect(rdma::FakeEndpoint* endpoint, absl::string_view hello) {
  ++connects;
  dialled.push_back(endpoint->dialled);
  if (when_dialled) when_dialled();
  rdma::FakePeer& peer = peers_.emplace_back();
  peer.endpoint = endpoint;
  peer.connected = false;
  peer.send_room_at = &send_room;
  peer.read_room_at = &read_room;
  peer.permits = [this, granted = capabilities](const Read& read) { return Permits(read, granted); };
  peer.on_send = [this](const std::string& message) { Post(message); };
  peer.on_ring = [this] { Rung(); };
  peer.mapped = [this](uint64_t address, uint64_t bytes, uint32_t key) -> const char* {
    return key == rkey && maps ? Memory(address, bytes, key) : nullptr;
  };
  peer.alive = [this] {
    if (when_asked) when_asked();
    return server_alive;
  };
  auto connection = std::make_unique<rdma::FakeConnection>(&peer, capabilities);
  const auto refuses = rejects.find(endpoint->dialled);
  if (refuses != rejects.end()) {
    peer.status = refuses->second;
    peer.Break();
  } else if (silent.contains(endpoint->dialled)) {
    waiting_.push_back({endpoint->dialled, std::string(hello), &peer});
  } else {
    held_requests_.clear();
    session_ = 0;
    present_ = &peer;
    if (accepting) Answer(hello, &peer);
  }
  return connection;
}

void FakeNetwork::Answer(absl::string_view hello, rdma::FakePeer* peer) {
  peer->status = server == nullptr ? absl::NotFoundError("no server listens there") : reject;
  if (peer->status.ok()) {
    const kv::ServerRange cells{kCellsAddress, server->cells().size(), kCellsRkey};
    auto accept = server->Accept(hello, {0, server->region().size(), rkey}, cells);
    if (accept.ok()) {
      peer->welcome = *std::move(accept);
      return peer->Connected();
    }
    peer->status = absl::PermissionDeniedError(accept.status().message());
  }
  peer->Break();
}

void FakeNetwork::AnswerAt(absl::string_view address) {
  for (const Waiting& one : waiting_) {
    if (one.address != address || one.peer->connection == nullptr) continue;
    held_requests_.clear();
    session_ = 0;
    present_ = one.peer;
    return Answer(one.hello, one.peer);
  }
}

size_t FakeNetwork::connections() const {
  return static_cast<size_t>(std::count_if(peers_.begin(), peers_.end(),
                                           [](const rdma::FakePeer& peer) { return peer.connection != nullptr; }));
}

// Returns the memory that a peer's address and key name, or null if access is not allowed.
char* FakeNetwork::Memory(uint64_t address, uint64_t bytes, uint32_t key) const {
  absl::Span<char> region;
  if (key == rkey) region = server->region();
  if (key == kCellsRkey && address >= kCellsAddress) {
    region = server->cells();
    address -= kCellsAddress;
  }
  return address < region.size() && bytes <= region.size() - address ? region.data() + address : nullptr;
}

// Checks an access, and counts it.
bool FakeNetwork::Permits(const Read& read, const rdma::Capabilities& granted) {
  const bool atomic = read.opcode != rdma::Opcode::kRead;
  bool good = read.to.size() <= granted.max_read_sges && read.remote_address % 8 == 0 && read.bytes > 0 &&
              read.bytes <= granted.max_read_bytes && Memory(read.remote_address, read.bytes, read.rkey) != nullptr &&
              (!atomic || read.rkey == kCellsRkey);
  for (const rdma::Sge& piece : read.to) {
    good &= (granted.any_local_memory && !atomic) || memory_.Registered(piece);
  }
  if (!good) return false;
  (atomic ? atomics : reads) += 1;
  if (!atomic) read_pieces += read.to.size();
  return true;
}

void FakeNetwork::Post(const std::string& message) {
  server->Watch(session_, message);
  if (session_ != 0) sent.push_back(message);
  held_requests_.push_back(message);
}

void FakeNetwork::Rung() {
  ++rings;
  present().sent.clear();
  if (!hold_reads) ReleaseReads();
  if (!hold_requests) ReleaseRequests();
}

void FakeNetwork::Run(const Read& read) {
  char* from = Memory(read.remote_address, read.bytes, read.rkey);
  if (read.opcode == rdma::Opcode::kRead) {
    for (const rdma::Sge& piece : read.to) {
      std::memcpy(piece.data, from, piece.bytes);
      from += piece.bytes;
    }
  } else {
    uint64_t old;
    std::memcpy(&old, from, sizeof old);
    uint64_t value = old;
    if (read.opcode == rdma::Opcode::kFetchAdd) value += read.operand;
    if (read.opcode == rdma::Opcode::kCompareSwap && old == read.operand) value = read.desired;
    std::memcpy(from, &value, sizeof value);
    std::memcpy(read.to[0].data, &old, sizeof old);
  }
  present().Complete(read);
}

void FakeNetwork::ReleaseReads(bool newest_first) {
  if (present_ == nullptr) return;
  std::deque<Read> held = std::exchange(present().reads, {});
  if (newest_first) std::reverse(held.begin(), held.end());
  for (const Read& read : held) Run(read);
}

void FakeNetwork::Serve(const std::string& message) {
  const auto pull = [this](const kv::ValueSource& source, uint32_t bytes) {
    const absl::Span<char> offered = memory_.Offered(source.rkey);
    if (source.address + bytes > offered.size()) return std::string();
    return std::string(offered.data() + source.address, bytes);
  };
  const std::string reply = server->Answer(&session_, message, pull);
  if (!lose_replies && !reply.empty()) present().Send(reply);
}

void FakeNetwork::ReleaseRequests(std::vector<size_t> which) {
  if (!connected()) return held_requests_.clear();
  if (which.empty()) {
    for (size_t i = 0; i < held_requests_.size(); ++i) which.push_back(i);
  }
  for (size_t i : which) Serve(held_requests_[i]);
  std::sort(which.rbegin(), which.rend());
  for (size_t i : which) held_requests_.erase(held_requests_.begin() + static_cast<std::ptrdiff_t>(i));
}

void FakeNetwork::Break() {
  if (!connected()) return;
  held_requests_.clear();
  present().status = absl::UnavailableError("the link broke");
  present().connected = false;
  present().Break();
}

}  // namespace farlook::client
