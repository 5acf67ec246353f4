// Which agent changes the cells of a server's counters, and which listeners' clients get the key to them.
//
// An RDMA atomic need not be atomic with a CPU's, nor with those of another device. So one agent changes the cells: of
// the listeners, the first whose clients have atomics tells which. See "One atomic domain" in docs/design-notes.md.
#ifndef FARLOOK_SERVER_CELL_DOMAIN_H_
#define FARLOOK_SERVER_CELL_DOMAIN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rdma/transport.h"
#include "server/cell_writer.h"

namespace farlook::server {

struct CellDomain {
  std::vector<rdma::RemoteRange> ranges;  // of the cells, at each listener; rkey 0: not offered there
  std::unique_ptr<CellWriter> writer;     // the server's own, of the same domain
  std::string name;                       // for the log: "cpu", or the address of the listener whose device it is
};

// Offers `cells`, at listeners of the domain alone. Where no client has atomics the domain is the CPU, and nobody gets
// a key. Errors as of Listener::Offer and Listener::ConnectToItself.
absl::StatusOr<CellDomain> OfferCells(const std::vector<std::unique_ptr<rdma::Listener>>& listeners,
                                      const rdma::SharedRange& cells);

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_CELL_DOMAIN_H_
