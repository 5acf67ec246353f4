// Chooses the agent that changes the cells of a server's counters, and the listeners whose clients get the key to them.
//
// An RDMA atomic need not be atomic with a CPU's, nor with those of another device. So only one agent changes the
// cells: that of the first listener whose clients have atomics. See "One atomic domain" in docs/design-notes.md.
#ifndef FARLOOK_SERVER_COUNTERS_CELL_DOMAIN_H_
#define FARLOOK_SERVER_COUNTERS_CELL_DOMAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "server/counters/cell_writer.h"

namespace farlook::server {

struct CellDomain {
  std::vector<rdma::RemoteRange> ranges;  // of the cells, at each listener; rkey 0: not offered there
  std::unique_ptr<CellWriter> writer;     // the server's own, of the same domain
  std::string name;                       // for the log: "cpu", or the address of the listener whose device it is
};

// Offers `cells`, only at listeners of the domain. If no client has atomics, the domain is the CPU, and no client gets
// a key. The same if the domain is the CPU and `sealed` is false: a client that may write to memory without seals could
// cut it short, which ends this process. Errors as for Listener::Offer and Listener::ConnectToItself.
absl::StatusOr<CellDomain> OfferCells(const std::vector<std::unique_ptr<rdma::Listener>>& listeners,
                                      const rdma::SharedRange& cells, bool sealed = true);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_COUNTERS_CELL_DOMAIN_H_
