#include "rdma/fake/fake_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace farlook::rdma {

// ---- The other side.

void FakePeer::Connected() {
  connected = true;
  Completion completion;
  completion.opcode = Opcode::kConnected;
  endpoint->Push(this, completion);
}

void FakePeer::Send(absl::string_view message) {
  if (disconnecting) return;
  Completion completion;
  completion.opcode = Opcode::kReceive;
  endpoint->Push(this, completion, message);
}

void FakePeer::Complete(const Read& read, WcStatus why) {
  Completion completion;
  completion.wr_id = read.wr_id;
  completion.opcode = read.opcode;
  completion.status = why;
  endpoint->Push(this, completion);
}

void FakePeer::CompleteRead(absl::string_view data) {
  const Read read = reads.front();
  reads.pop_front();
  for (const Sge& piece : read.to) {
    std::memcpy(piece.data, data.data(), piece.bytes);
    data.remove_prefix(piece.bytes);
  }
  Complete(read);
}

void FakePeer::FailRead(WcStatus why) {
  const Read read = reads.front();
  reads.pop_front();
  for (const Sge& piece : read.to) std::memset(piece.data, 0xee, piece.bytes);
  Complete(read, why);
}

void FakePeer::Break() {
  if (disconnecting) return;
  disconnecting = true;
  if (!hold_disconnected) Release();
}

void FakePeer::Release() {
  reads.insert(reads.end(), unrung_reads.begin(), unrung_reads.end());
  unrung_reads.clear();
  while (!reads.empty()) FailRead(WcStatus::kFlushed);
  Completion completion;
  completion.opcode = Opcode::kDisconnected;
  endpoint->Push(this, completion);
}

// ---- Memory.

class FakeMemory::FakeBuffer final : public Buffer {
 public:
  FakeBuffer(FakeMemory* memory, size_t bytes, bool readable_by_peers)
      : FakeBuffer(memory, std::make_unique<uint64_t[]>((bytes + 7) / 8), {}, bytes, readable_by_peers) {}
  // A buffer of memory that belongs to the user.
  FakeBuffer(FakeMemory* memory, absl::Span<char> bytes)
      : FakeBuffer(memory, nullptr, bytes, bytes.size(), /*readable_by_peers=*/true) {}
  ~FakeBuffer() override {
    memory_->registered_.erase(bytes_.data());
    memory_->offered_.erase(remote_.rkey);
    std::erase(memory_->readable_, this);
  }

  void ChangeKey() {
    memory_->offered_.erase(remote_.rkey);
    remote_ = {0, bytes_.size(), memory_->next_rkey_++};
    memory_->offered_.emplace(remote_.rkey, bytes_);
  }

 private:
  FakeBuffer(FakeMemory* memory, std::unique_ptr<uint64_t[]> words, absl::Span<char> users, size_t bytes,
             bool readable_by_peers)
      : memory_(memory), words_(std::move(words)) {
    bytes_ = words_ == nullptr ? users : absl::MakeSpan(static_cast<char*>(static_cast<void*>(words_.get())), bytes);
    memory_->registered_.emplace(bytes_.data(), bytes);
    if (!readable_by_peers) return;
    memory_->readable_.push_back(this);
    ChangeKey();
  }

  FakeMemory* const memory_;
  const std::unique_ptr<uint64_t[]> words_;
};

bool FakeMemory::Registered(const Sge& piece) const {
  auto after = registered_.upper_bound(piece.data);
  if (after == registered_.begin()) return false;
  const auto& [start, bytes] = *--after;
  return piece.data + piece.bytes <= start + bytes;
}

absl::Span<char> FakeMemory::Offered(uint32_t rkey) const {
  const auto found = offered_.find(rkey);
  return found == offered_.end() ? absl::Span<char>() : found->second;
}

void FakeMemory::ChangeKeys() {
  for (FakeBuffer* buffer : readable_) buffer->ChangeKey();
}

std::unique_ptr<Buffer> FakeMemory::Allocate(size_t bytes, bool readable_by_peers) {
  return std::make_unique<FakeBuffer>(this, bytes, readable_by_peers);
}

std::unique_ptr<Buffer> FakeMemory::Register(absl::Span<char> memory) {
  return std::make_unique<FakeBuffer>(this, memory);
}

// ---- Endpoints.

absl::StatusOr<std::unique_ptr<Connection>> FakeEndpoint::Connect(absl::string_view address, absl::string_view hello,
                                                                  int64_t) {
  dialled = std::string(address);
  if (!on_connect) return absl::UnimplementedError("a server does not connect");
  return on_connect(this, hello);
}

absl::StatusOr<std::unique_ptr<Buffer>> FakeEndpoint::Allocate(size_t bytes, bool readable_by_peers) {
  if (memory_ == nullptr) return absl::UnimplementedError("this endpoint allocates none");
  if (bytes > memory_->most_bytes) return absl::ResourceExhaustedError("no buffer is that long");
  return memory_->Allocate(bytes, readable_by_peers);
}

absl::StatusOr<std::unique_ptr<Buffer>> FakeEndpoint::Register(absl::Span<char> memory) {
  if (memory_ == nullptr) return std::unique_ptr<Buffer>();
  return memory_->Register(memory);
}

size_t FakeEndpoint::Poll(absl::Span<Completion> out) {
  delivered_.clear();
  size_t n = 0;
  for (; n < out.size() && n < max_batch; ++n) {
    const auto next = Next();
    if (next == events_.end()) break;
    const Event event = std::move(*next);
    events_.erase(next);
    out[n] = event.completion;
    if (event.completion.opcode == Opcode::kReceive) {
      auto copy = std::make_unique<char[]>(event.message.size());
      std::memcpy(copy.get(), event.message.data(), event.message.size());
      out[n].message = absl::MakeConstSpan(copy.get(), event.message.size());
      delivered_.push_back(std::move(copy));
    } else if (event.completion.opcode == Opcode::kDisconnected) {
      event.peer->disconnected = true;
      Forget(event.peer);  // what was kept back
    }
  }
  if (on_polled) on_polled();
  return n;
}

std::deque<FakeEndpoint::Event>::iterator FakeEndpoint::Next() {
  return std::find_if(events_.begin(), events_.end(), [](const Event& event) {
    return event.completion.opcode != Opcode::kReceive || event.peer->receiving;
  });
}

void FakeEndpoint::Push(FakePeer* peer, Completion completion, absl::string_view message) {
  completion.connection = peer->connection;
  events_.push_back({peer, completion, std::string(message)});
}

bool FakeEndpoint::TakeRead(const FakePeer* peer, uint64_t wr_id) {
  if (events_.empty()) return false;
  const Completion& next = events_.front().completion;
  if (events_.front().peer != peer || next.opcode != Opcode::kRead || next.wr_id != wr_id ||
      next.status != WcStatus::kSuccess) {
    return false;
  }
  events_.pop_front();
  return true;
}

void FakeEndpoint::Forget(const FakePeer* peer) {
  std::erase_if(events_, [peer](const Event& event) { return event.peer == peer; });
}

// ---- Connections.

FakeConnection::~FakeConnection() {
  peer_->destroyed_early = !peer_->disconnected;
  peer_->connection = nullptr;
  peer_->reads.clear();
  if (peer_->endpoint != nullptr) peer_->endpoint->Forget(peer_);
}

bool FakeConnection::Post(FakePeer::Read read) {
  if (!peer_->connected || peer_->disconnecting || *peer_->read_room_at == 0) return false;
  --*peer_->read_room_at;
  if (peer_->permits && !peer_->permits(read)) {
    peer_->Complete(read, WcStatus::kRemoteAccess);
  } else {
    peer_->unrung_reads.push_back(std::move(read));
  }
  return true;
}

bool FakeConnection::PostRead(uint64_t wr_id, absl::Span<const Sge> to, uint64_t remote_address, uint32_t rkey) {
  FakePeer::Read read{wr_id, {to.begin(), to.end()}, 0, remote_address, rkey};
  for (const Sge& piece : to) read.bytes += piece.bytes;
  return Post(std::move(read));
}

AtOnce FakeConnection::ReadAtOnce(uint64_t wr_id, const Sge& to, uint64_t remote_address, uint32_t rkey,
                                  uint32_t looks) {
  const bool is_idle = peer_->reads.empty() && peer_->unrung_reads.empty() && peer_->endpoint->empty();
  if (!capabilities_.reads_at_once || !is_idle || !PostRead(wr_id, {&to, 1}, remote_address, rkey)) return AtOnce::kNo;
  peer_->looks = looks;
  Ring();
  return peer_->endpoint->TakeRead(peer_, wr_id) ? AtOnce::kDone : AtOnce::kPosted;
}

const char* FakeConnection::Mapped(uint64_t remote_address, uint64_t bytes, uint32_t rkey) {
  if (!capabilities_.local || !peer_->connected || peer_->disconnecting || !peer_->mapped) return nullptr;
  return peer_->mapped(remote_address, bytes, rkey);
}

bool FakeConnection::PostSend(absl::string_view head, absl::string_view body) {
  // A break by the other side is not known here before its completion is polled.
  if (!peer_->connected || peer_->closed_here || *peer_->send_room_at == 0) {
    ++peer_->refused_sends;
    return false;
  }
  --*peer_->send_room_at;
  peer_->unrung.push_back(std::string(head) + std::string(body));
  if (peer_->on_send) peer_->on_send(peer_->unrung.back());
  return true;
}

bool FakeConnection::PostSendAndRing(absl::string_view head, absl::string_view body) {
  const bool posted = Connection::PostSendAndRing(head, body);
  peer_->sends_with_ring += posted ? 1 : 0;
  return posted;
}

bool FakeConnection::PostFetchAdd(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                  uint64_t delta) {
  if (!capabilities_.atomics) return false;
  const Sge to = {static_cast<char*>(static_cast<void*>(old_value)), sizeof *old_value};
  return Post({wr_id, {to}, to.bytes, remote_address, rkey, Opcode::kFetchAdd, delta, 0});
}

bool FakeConnection::PostCompareSwap(uint64_t wr_id, uint64_t* old_value, uint64_t remote_address, uint32_t rkey,
                                     uint64_t expected, uint64_t desired) {
  if (!capabilities_.atomics) return false;
  const Sge to = {static_cast<char*>(static_cast<void*>(old_value)), sizeof *old_value};
  return Post({wr_id, {to}, to.bytes, remote_address, rkey, Opcode::kCompareSwap, expected, desired});
}

void FakeConnection::Ring() {
  ++peer_->rings;
  peer_->reads.insert(peer_->reads.end(), peer_->unrung_reads.begin(), peer_->unrung_reads.end());
  peer_->unrung_reads.clear();
  for (std::string& message : peer_->unrung) {
    if (peer_->first.empty()) {
      peer_->first = std::move(message);
    } else {
      peer_->sent.push_back(std::move(message));
    }
  }
  peer_->unrung.clear();
  if (peer_->on_ring) peer_->on_ring();
}

void FakeConnection::Disconnect() {
  peer_->closed_here = true;
  peer_->Break();
}

absl::Status FakeConnection::status() const {
  if (!peer_->status.ok()) return peer_->status;
  return peer_->disconnecting ? absl::UnavailableError("gone") : absl::OkStatus();
}

// ---- Requests to connect.

absl::StatusOr<std::unique_ptr<Connection>> FakeRequest::Accept(Endpoint* endpoint, absl::string_view welcome,
                                                                absl::Span<const uint32_t> rkeys) {
  if (!call_->accept_status.ok()) return call_->accept_status;
  call_->accepted = true;
  call_->welcome = std::string(welcome);
  call_->rkeys.assign(rkeys.begin(), rkeys.end());
  call_->peer.endpoint = static_cast<FakeEndpoint*>(endpoint);
  auto connection = std::make_unique<FakeConnection>(&call_->peer, call_->capabilities);
  if (!call_->first.empty()) call_->peer.Send(call_->first);
  return connection;
}

std::unique_ptr<ConnectionRequest> FakeListener::Next() {
  if (calls.empty()) return nullptr;
  auto request = std::make_unique<FakeRequest>(calls.front());
  calls.pop_front();
  return request;
}

}  // namespace farlook::rdma
