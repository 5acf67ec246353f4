// Where the record of a group is kept: --group.
//
//     file:///folder/NAME               on this host
//     etcd://host:port[,host:port]/NAME
#ifndef FARLOOK_SERVER_GROUP_URL_H_
#define FARLOOK_SERVER_GROUP_URL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cluster/directory.h"

namespace farlook::server {

struct GroupUrl {
  std::string folder;                  // of files; empty: etcd
  std::vector<std::string> endpoints;  // of etcd
  std::string name;                    // of the group

  // INVALID_ARGUMENT says what one looks like.
  static absl::StatusOr<GroupUrl> Parse(absl::string_view url);
  // A directory for one thread. Errors as of FileDirectory and EtcdDirectory.
  absl::StatusOr<std::unique_ptr<cluster::Directory>> Open() const;
  std::string locks() const;  // the folder of ProcessLock; empty: there is none
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_URL_H_
