#include "rdma/sim/network.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "rdma/sim/endpoint.h"
#include "rdma/sim/listener.h"
#include "rdma/sim/wire.h"

namespace farlook::rdma::sim {

absl::StatusOr<std::unique_ptr<Listener>> Network::Listen(absl::string_view address, Party party,
                                                          std::function<void()> wake) {
  absl::StatusOr<absl::string_view> name = NameIn(address);
  if (!name.ok()) return name.status();
  if (FindListener(*name) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat(address, " is in use by another server"));
  }
  return std::make_unique<SimListener>(this, *name, party, std::move(wake));
}

std::unique_ptr<Endpoint> Network::CreateEndpoint(Party party, std::function<void()> wake, int side) {
  return std::make_unique<SimEndpoint>(this, party, side, std::move(wake));
}

void Network::Stop(Party party, int64_t ns) {
  if (!options.capabilities.local && !options.served_reads) return;
  stopped_until_ns_[party] = std::max(stopped_until_ns(party), now_ns() + ns);
  for (const auto& [read, reader] : reads_) {
    if (reader == party) read->Stop(now_ns(), ns);
  }
}

void Network::Kill(Party party) {
  stopped_until_ns_.erase(party);
  std::erase_if(wires_, [](const std::weak_ptr<Wire>& wire) { return wire.expired(); });
  for (size_t n = 0; n < wires_.size(); ++n) {
    const std::shared_ptr<Wire> wire = wires_[n].lock();
    for (const int i : {Wire::kClient, Wire::kServer}) {
      if (wire->side(i).endpoint != nullptr && wire->side(i).party == party) {
        wire->Die(i);
      }
    }
  }
}

SimListener* Network::FindListener(absl::string_view name) {
  const auto found = listeners_.find(std::string(name));
  return found == listeners_.end() ? nullptr : found->second;
}

void Network::Register(absl::string_view name, SimListener* listener) { listeners_[std::string(name)] = listener; }

void Network::Unregister(SimListener* listener) {
  std::erase_if(listeners_, [listener](const auto& entry) { return entry.second == listener; });
}

const RemoteRange& Network::Offer(const Region& region) {
  const uint32_t rkey = ++last_rkey_;
  Region& kept = regions_[rkey] = region;
  // Not the pointer, which differs in each process.
  kept.remote = {uint64_t{rkey} << 32, region.bytes, rkey};
  return kept.remote;
}

const Region* Network::FindRegion(uint32_t rkey) const {
  const auto found = regions_.find(rkey);
  return found == regions_.end() ? nullptr : &found->second;
}

void Network::Withdraw(uint32_t rkey) { regions_.erase(rkey); }

// The reader may be stopped once, before, while or after the words are fetched. Only once, since a call makes many such
// copies, and a party that is stopped for long is given up. Its own CPU fetches them, from memory that stays mapped
// whatever happens to the peer.
void Network::ReadMapped(Party reader, char* to, const char* from, uint64_t bytes) {
  constexpr int64_t kNsPerRead = 10;
  enum Place : uint8_t { kBefore, kWithin, kAfter, kPlaces };
  const auto place = static_cast<Place>(random().Below(kPlaces));
  const int64_t pause_ns = DrawPause(kClient);
  if (place == kBefore) scheduler_->RunUntil(scheduler_->now_ns() + pause_ns);
  const int64_t start_ns = now_ns();
  WordRead read(from, bytes, start_ns, start_ns + (place == kWithin ? pause_ns : 0) + kNsPerRead, &random());
  Begin(&read, reader);
  // Longer if the reader is stopped meanwhile.
  while (now_ns() < read.end_ns()) scheduler_->RunUntil(read.end_ns());
  read.Finish(to);
  End(&read);
  if (place == kAfter) scheduler_->RunUntil(scheduler_->now_ns() + pause_ns);
}

void Network::End(WordRead* read) {
  std::erase_if(reads_, [read](const auto& entry) { return entry.first == read; });
}

bool Network::Happens(NetworkFault fault, int side) {
  const size_t site = SiteOf(fault, side);
  if (!random().PerMillion(options.chances[site])) return false;
  occurred |= uint64_t{1} << site;
  return true;
}

int64_t Network::DrawDelay() { return random().Between(options.min_delay_ns, options.max_delay_ns); }

int64_t Network::DrawDelay(NetworkFault slow, int side) {
  const int64_t delay_ns = DrawDelay();
  return Happens(slow, side) ? delay_ns + random().Between(0, options.slow_ns) : delay_ns;
}

int64_t Network::DrawPause(int side) {
  if (Happens(NetworkFault::kSlowRead, side)) return random().Between(0, options.slow_ns);
  return random().OneIn(4) ? random().Between(0, options.max_delay_ns) : 0;
}

int64_t Network::DrawNotice(int side) {
  const int64_t delay_ns = DrawDelay();
  return Happens(NetworkFault::kLateNotice, side) ? delay_ns + random().Between(0, options.max_notice_ns) : delay_ns;
}

}  // namespace farlook::rdma::sim
