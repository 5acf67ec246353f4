#include "rdma/host/candidates.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farlook::rdma {

Candidates::Candidates(std::shared_ptr<const Lookup> lookup, Address address)
    : lookup_(std::move(lookup)), address_(std::move(address)), shown_(FormatAddress(address_)) {}

absl::StatusOr<bool> Candidates::Find(int64_t now_ns) {
  if (!found_.empty()) return true;
  std::optional<absl::StatusOr<SocketAddresses>> addresses = lookup_->Addresses(now_ns);
  if (!addresses.has_value()) return false;
  if (!addresses->ok()) return addresses->status();
  found_ = **std::move(addresses);
  for (SocketAddress& found : found_) found.set_port(address_.port);
  is_name_ = found_.size() != 1 || Shown(found_[0]) != shown_;
  return true;
}

SocketAddress Candidates::Next() { return found_[tried_++]; }

void Candidates::Failed(const SocketAddress& address, absl::string_view why) {
  failed_.push_back(absl::StrCat(ToText(address.get()), ": ", why));
}

std::string Candidates::Tried() const { return absl::StrJoin(failed_, ", "); }

std::string Candidates::Shown(const SocketAddress& candidate) const {
  const absl::string_view scheme = absl::string_view(shown_).substr(0, shown_.find("//") + 2);
  return absl::StrCat(scheme, ToText(candidate.get()));
}

}  // namespace farlook::rdma
