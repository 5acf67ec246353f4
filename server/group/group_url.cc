#include "server/group/group_url.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cluster/etcd_directory.h"
#include "cluster/file_directory.h"

namespace farlook::server {

absl::StatusOr<GroupUrl> GroupUrl::Parse(absl::string_view url) {
  GroupUrl parsed;
  absl::string_view rest = url;
  const bool is_file = absl::ConsumePrefix(&rest, "file://");
  const bool is_etcd = !is_file && absl::ConsumePrefix(&rest, "etcd://");
  const size_t slash = rest.rfind('/');
  const absl::string_view where = rest.substr(0, slash == absl::string_view::npos ? 0 : slash);
  const absl::string_view name = slash == absl::string_view::npos ? "" : rest.substr(slash + 1);
  if ((!is_file && !is_etcd) || where.empty() || (is_file && where[0] != '/') || !cluster::IsDirectoryName(name)) {
    return absl::InvalidArgumentError(
        "--group must be file:///folder/NAME, for servers of one host, or etcd://host:port,host:port/NAME");
  }
  parsed.name = std::string(name);
  if (is_file) {
    parsed.folder = std::string(where);
  } else {
    for (const absl::string_view endpoint : absl::StrSplit(where, ',')) {
      parsed.endpoints.push_back(absl::StrCat("http://", endpoint));
    }
  }
  return parsed;
}

absl::StatusOr<std::unique_ptr<cluster::Directory>> GroupUrl::Open() const {
  if (!folder.empty()) return cluster::FileDirectory::Open(folder);
  cluster::EtcdOptions options;
  options.endpoints = endpoints;
  return cluster::EtcdDirectory::Create(std::move(options));
}

std::string GroupUrl::locks() const { return folder.empty() ? "" : absl::StrCat(folder, "/", name, ".locks"); }

}  // namespace farlook::server
