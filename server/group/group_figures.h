// Figures of a group for kv_cli stat and the exporter.
#ifndef FARLOOK_SERVER_GROUP_GROUP_FIGURES_H_
#define FARLOOK_SERVER_GROUP_GROUP_FIGURES_H_

#include <cstdint>

namespace farlook::server {

// The state of a group at this server.
struct GroupFigures {
  uint64_t replicas = 0;  // size that the group should have; 0: this server is in no group
  uint64_t members = 0, min_insync = 0;
  uint64_t removed_backups = 0;  // by this server, as primary
  // Known to the primary only.
  bool waits_for_member = false;   // reads and writes wait for a silent member that is needed
  bool directory_is_away = false;  // the directory does not answer, or has lost the record
  uint64_t lag_records = 0;        // of the backup that lacks most
  uint64_t lag_ms = 0;             // of the backup that has been behind for longest
  bool is_in_cluster = false;
  uint64_t cluster_groups = 0;  // in the map; 0: unknown to a server that does not serve
  uint64_t cluster_moves = 0;   // moves of slots from or to the group under way
  uint64_t cluster_slots = 0;   // slots that the group owns
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_GROUP_FIGURES_H_
