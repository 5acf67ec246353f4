// A directory of files, for groups whose servers all run on one host: no service is needed.
//
// Record n of a name is the file NAME.n, with n in 20 digits. It is written to a temporary file and then linked.
// Linking fails if another process linked n first: that is the compare-and-swap, and its outcome is always known except
// after errors of the disk. Records are never removed or changed.
#ifndef FARLOOK_CLUSTER_FILE_DIRECTORY_H_
#define FARLOOK_CLUSTER_FILE_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cluster/directory.h"

namespace farlook::cluster {

class FileDirectory final : public Directory {
 public:
  // NOT_FOUND: there is no folder `path`. PERMISSION_DENIED, ...: it cannot be used. FAILED_PRECONDITION: a network
  // file system, which may link twice.
  static absl::StatusOr<std::unique_ptr<FileDirectory>> Open(absl::string_view path);
  ~FileDirectory() override;

  absl::StatusOr<Entry> Get(absl::string_view name, Freshness freshness) override;
  CasResult Cas(absl::string_view name, uint64_t expected, absl::string_view value) override;
  absl::StatusOr<Entry> Wait(absl::string_view name, uint64_t after, absl::Duration timeout) override;
  void Interrupt() override;

 private:
  FileDirectory(absl::string_view path, int folder, int changes, int interrupt)
      : path_(path), folder_(folder), changes_(changes), interrupt_(interrupt) {}

  // The highest n of `name`, or 0. Removes temporary files of older records, left by writers that died.
  absl::StatusOr<uint64_t> Highest(absl::string_view name);
  absl::StatusOr<Entry> Read(absl::string_view name, uint64_t revision);
  // An error that names the folder.
  absl::Status Error(int error, absl::string_view what) const;

  const std::string path_;
  const int folder_;     // a descriptor
  const int changes_;    // of inotify
  const int interrupt_;  // an event: see Interrupt()
};

}  // namespace farlook::cluster

#endif  // FARLOOK_CLUSTER_FILE_DIRECTORY_H_
