#include "rdma/sim/wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rdma/sim/endpoint.h"

namespace farlook::rdma::sim {

bool Wire::HasRoom(int i) {
  const Side& s = side(i);
  if (s.state != State::kUp) return false;
  if (s.posted.size() + s.running.size() + s.sends < network_->options.capabilities.send_queue_depth) return true;
  network_->FoundFull(Network::kFullSends);
  return false;
}

void Wire::Ring(int i) {
  Side& s = side(i);
  if (s.state != State::kUp || s.posted.empty()) return;
  if (network_->Happens(NetworkFault::kBroken, i)) Break();
  while (!s.posted.empty()) {
    std::shared_ptr<Work> work = std::move(s.posted.front());
    s.posted.pop_front();
    if (work->opcode == Opcode::kReceive) {
      Send(i, std::move(work->message));
    } else {
      s.running.push_back(std::move(work));
    }
  }
  StartReads(i);
}

// ---- Messages.

void Wire::Send(int i, std::string message) {
  Side& s = side(i);
  ++s.sends;
  s.last_arrival_ns =
      std::max(s.last_arrival_ns + 1, network_->now_ns() + network_->DrawDelay(NetworkFault::kSlowMessage, i));
  network_->scheduler().At(s.last_arrival_ns, [self = shared_from_this(), i, message = std::move(message)]() mutable {
    if (!self->side(i).cut) self->Arrive(1 - i, std::move(message));
  });
}

void Wire::Arrive(int to, std::string message) {
  Side& s = side(to);
  if (s.state != State::kUp) return;
  if (s.receives == 0 || !s.stalled.empty()) {
    network_->FoundFull(Network::kFullReceives + static_cast<size_t>(to));
    s.stalled.push_back(std::move(message));
    return;
  }
  --s.receives;
  if (to == kClient && !std::exchange(spoken_to_, true) && network_->on_first_message) {
    network_->on_first_message(s.party, message);
  }
  s.endpoint->Push({0, s.connection, Opcode::kReceive, WcStatus::kSuccess, {}}, message);
  // The sender's place is free once the acknowledgement has returned.
  const int64_t ack_ns = network_->Happens(NetworkFault::kSlowAcknowledgement, 1 - to)
                             ? network_->random().Between(0, network_->options.max_ack_ns)
                             : 0;
  network_->scheduler().After(ack_ns, [self = shared_from_this(), to] {
    Side& sender = self->side(1 - to);
    if (sender.sends > 0) --sender.sends;
    if (sender.state == State::kUp) sender.endpoint->Wake();
  });
}

void Wire::Received(int i) {
  Side& s = side(i);
  ++s.receives;
  if (s.stalled.empty()) return;
  std::string message = std::move(s.stalled.front());
  s.stalled.pop_front();
  std::deque<std::string> later;
  later.swap(s.stalled);  // Arrive() would queue the message behind the stalled ones
  Arrive(i, std::move(message));
  s.stalled = std::move(later);
}

// ---- READs and atomics.

const Region* Wire::Resolve(int i, Opcode opcode, uint64_t address, uint64_t bytes, uint32_t rkey) const {
  const Region* region = network_->FindRegion(rkey);
  if (region == nullptr) return nullptr;
  const Side& peer = sides_[static_cast<size_t>(1 - i)];
  if (region->endpoint != nullptr ? region->endpoint != peer.endpoint
                                  : std::find(granted.begin(), granted.end(), rkey) == granted.end()) {
    return nullptr;
  }
  if (address < region->remote.address || address - region->remote.address > region->bytes) return nullptr;
  if (bytes > region->bytes - (address - region->remote.address) || address % 8 != 0) return nullptr;
  if (opcode != Opcode::kRead && region->access != Access::kRemoteReadAtomic) return nullptr;
  return region;
}

const char* Wire::Mapped(int i, uint64_t remote_address, uint64_t bytes, uint32_t rkey) {
  if (!network_->options.capabilities.local || side(i).state != State::kUp) return nullptr;
  const Region* region = Resolve(i, Opcode::kRead, remote_address, bytes, rkey);
  if (region == nullptr) return nullptr;
  return region->base + (remote_address - region->remote.address);
}

void Wire::StartReads(int i) {
  Side& s = side(i);
  for (const std::shared_ptr<Work>& work : s.running) {
    if (work->started) continue;
    if (s.reading >= network_->options.capabilities.max_outstanding_reads) return;
    work->started = true;
    ++s.reading;
    int64_t start_ns = network_->now_ns() + network_->random().Between(0, network_->options.min_delay_ns);
    const Party reader = network_->options.served_reads ? side(1 - i).party : s.party;
    if (network_->options.served_reads) start_ns = std::max(start_ns, network_->stopped_until_ns(reader));
    const NetworkFault slow = work->opcode == Opcode::kRead ? NetworkFault::kSlowRead : NetworkFault::kSlowAtomic;
    const int64_t end_ns = start_ns + network_->DrawDelay(slow, i);
    const auto execute = [self = shared_from_this(), i, work] { self->Execute(i, work); };
    const Region* region = Resolve(i, *work);
    if (work->opcode == Opcode::kRead && region != nullptr) {
      work->read = std::make_unique<WordRead>(region->base + (work->address - region->remote.address), work->bytes,
                                              start_ns, end_ns, &network_->random());
      network_->Begin(work->read.get(), reader);
    } else if (region != nullptr) {
      network_->LookedAt(region->base + (work->address - region->remote.address), work->bytes);
    }
    network_->scheduler().At(end_ns, execute);
  }
}

// The READ has fetched its words, or the atomic takes effect.
void Wire::Execute(int i, const std::shared_ptr<Work>& work) {
  if (work->opcode != Opcode::kRead) return ExecuteAtomic(i, work);
  Side& s = side(i);
  if (s.state != State::kUp) return;                                         // flushed
  if (work->read != nullptr && work->read->end_ns() > network_->now_ns()) {  // the fetching party was stopped
    network_->scheduler().At(work->read->end_ns(), [self = shared_from_this(), i, work] { self->Execute(i, work); });
    return;
  }
  if (side(i).cut) return;  // the request never arrived
  const Region* region = Resolve(i, *work);
  if (side(1 - i).state == State::kDown && !StillMapped(region)) return;  // the peer no longer answers
  if (region == nullptr) work->status = WcStatus::kRemoteAccess;
  if (side(1 - i).cut) return;  // the answer is lost
  work->done = true;
  Complete(i);
}

// Returns whether the client's own CPU can still read memory of a server that has ended the connection.
bool Wire::StillMapped(const Region* region) const {
  return network_->options.capabilities.local && region != nullptr &&
         !(gate_closed_ && region->access == Access::kRemoteReadAtomic);
}

// Returns whether an atomic that is due takes effect.
bool Wire::AtomicArrives(int i, const Work& work) const {
  const Side& s = sides_[static_cast<size_t>(i)];
  const Side& peer = sides_[static_cast<size_t>(1 - i)];
  if (network_->options.capabilities.local) {
    // The client's own CPU executes it, as long as the client lives and the gate is open: a dead server left it open.
    return work.inside ? inside_.get() == &work : s.state == State::kUp && !gate_closed_;
  }
  // Requests sent before this side ended are still under way; nothing reaches a destroyed queue pair.
  return !s.cut && peer.state == State::kUp;
}

// One event: no store can intervene.
void Wire::ExecuteAtomic(int i, const std::shared_ptr<Work>& work) {
  Side& s = side(i);
  if (network_->options.capabilities.local && network_->stopped_until_ns(s.party) > network_->now_ns()) {
    network_->scheduler().At(network_->stopped_until_ns(s.party),
                             [self = shared_from_this(), i, work] { self->ExecuteAtomic(i, work); });
    return;
  }
  if (!AtomicArrives(i, *work)) return;  // flushed, or will be
  if (inside_ == work) inside_ = nullptr;
  work->effected = true;
  const Region* region = Resolve(i, *work);
  if (region == nullptr) {
    work->status = WcStatus::kRemoteAccess;
  } else {
    char* at = region->base + (work->address - region->remote.address);
    network_->BeforeStore(at);
    std::memcpy(&work->bytes, at, 8);
    const uint64_t desired = work->opcode == Opcode::kFetchAdd ? work->bytes + work->operand
                             : work->bytes == work->expected   ? work->operand
                                                               : work->bytes;
    std::memcpy(at, &desired, 8);
  }
  if (s.state != State::kUp || side(1 - i).cut) return;  // its completion is not delivered
  work->done = true;
  Complete(i);
}

// A client that is stopped now may be within an atomic.
void Wire::CloseGate() {
  gate_closed_ = true;
  const Side& client = side(kClient);
  if (!network_->options.capabilities.local || client.state != State::kUp ||
      network_->stopped_until_ns(client.party) <= network_->now_ns() || network_->random().OneIn(2)) {
    return;
  }
  for (const std::shared_ptr<Work>& work : client.running) {
    if (work->opcode == Opcode::kRead || !work->started || work->effected) continue;
    work->inside = true;
    inside_ = work;
    return;
  }
}

void Wire::Land(const Work& work) {
  if (work.opcode != Opcode::kRead) {
    *work.old_value = work.bytes;
    return;
  }
  std::vector<uint64_t> bytes((work.bytes + 7) / 8);
  char* from = reinterpret_cast<char*>(bytes.data());
  work.read->Finish(from);
  for (const Sge& piece : work.to) {
    // The piece may itself be in memory that others READ.
    network_->BeforeStore(piece.data, piece.bytes);
    std::memcpy(piece.data, from, piece.bytes);
    from += piece.bytes;
  }
}

// Reports finished work, in order.
void Wire::Complete(int i) {
  Side& s = side(i);
  while (!s.running.empty() && s.running.front()->done && s.state == State::kUp) {
    const std::shared_ptr<Work> work = std::move(s.running.front());
    s.running.pop_front();
    --s.reading;
    if (work->status == WcStatus::kSuccess) Land(*work);
    if (work->read != nullptr) network_->End(work->read.get());
    s.endpoint->Push({work->wr_id, s.connection, work->opcode, work->status, {}});
    if (work->status != WcStatus::kSuccess) {
      faulty_ = true;
      End(i, absl::UnavailableError("the peer's memory does not allow it"));
    }
  }
  if (s.state == State::kUp) StartReads(i);
}

// ---- The end.

void Wire::End(int i, absl::Status status) {
  Side& s = side(i);
  if (s.state == State::kDown) return;
  s.state = State::kDown;
  if (i == kServer && !gate_left_open_) CloseGate();
  s.status = std::move(status);
  s.stalled.clear();
  for (auto* queue : {&s.running, &s.posted}) {
    for (const std::shared_ptr<Work>& work : *queue) {
      if (work->opcode == Opcode::kReceive) continue;
      if (work->read != nullptr) {
        // Some of it may have been written.
        if (s.connection != nullptr && network_->random().OneIn(4) && Resolve(i, *work) != nullptr) Land(*work);
        network_->End(work->read.get());
      }
      if (s.connection != nullptr) s.endpoint->Push({work->wr_id, s.connection, work->opcode, WcStatus::kFlushed, {}});
    }
    queue->clear();
  }
  if (s.connection != nullptr) s.endpoint->Push({0, s.connection, Opcode::kDisconnected, WcStatus::kSuccess, {}});
  if (side(1 - i).state != State::kUp) return;
  // Messages under way to the peer may still arrive, or not.
  if (network_->options.ends_lose_messages && network_->random().OneIn(2)) s.cut = true;
  const int64_t notice_ns =
      std::max(network_->now_ns() + network_->DrawNotice(1 - i), s.cut ? 0 : s.last_arrival_ns + 1);
  network_->scheduler().At(notice_ns, [self = shared_from_this(), i] {
    self->End(1 - i, absl::UnavailableError("the peer has disconnected"));
  });
}

void Wire::Leave(int i, absl::Status status) {
  if (!faulty_ && side(0).state == State::kUp && side(1).state == State::kUp && network_->on_healthy_end) {
    network_->on_healthy_end(side(i).party, i == kServer, side(1 - i).party);
  }
  End(i, std::move(status));
}

void Wire::Die(int i) {
  (i == kServer ? gate_left_open_ : gate_closed_) = true;
  if (i == kClient) inside_ = nullptr;  // the system reports its death
  End(i, absl::UnavailableError("the process is dead"));
}

void Wire::Break() {
  faulty_ = true;
  if (network_->trace) network_->trace(absl::StrCat("connection of ", sides_[0].party, " breaks"));
  const int64_t spread_ns = 4 * network_->options.max_delay_ns;
  for (int i = 0; i < 2; ++i) {
    network_->scheduler().After(network_->random().Between(0, spread_ns),
                                [self = shared_from_this(), i] { self->side(i).cut = true; });
    network_->scheduler().After(spread_ns + network_->DrawNotice(i), [self = shared_from_this(), i] {
      self->End(i, absl::UnavailableError("the connection broke"));
    });
  }
}

}  // namespace farlook::rdma::sim
