// The location of a group's record: --group.
//
//     file:///folder/NAME               on this host
//     etcd://host:port[,host:port]/NAME
#ifndef FARLOOK_SERVER_GROUP_GROUP_URL_H_
#define FARLOOK_SERVER_GROUP_GROUP_URL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/directory.h"

namespace farlook::server {

struct GroupUrl {
  std::string folder;                  // file:// only; empty: etcd
  std::vector<std::string> endpoints;  // etcd:// only
  std::string name;                    // of the group

  // Parses a URL. The text of INVALID_ARGUMENT shows the syntax.
  static absl::StatusOr<GroupUrl> Parse(absl::string_view url);
  // Opens a directory for one thread. Errors: see FileDirectory and EtcdDirectory.
  absl::StatusOr<std::unique_ptr<cluster::Directory>> Open() const;
  std::string locks() const;  // folder for ProcessLock; empty: none
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_GROUP_URL_H_
