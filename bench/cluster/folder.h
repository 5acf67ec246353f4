// A new folder in /tmp, which is removed with its contents.
#ifndef FARLOOK_BENCH_CLUSTER_FOLDER_H_
#define FARLOOK_BENCH_CLUSTER_FOLDER_H_

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace farlook::bench {

class Folder {
 public:
  Folder() {
    std::string path = "/tmp/farlook-bench-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~Folder() {
    std::error_code unused;
    if (!path_.empty()) std::filesystem::remove_all(path_, unused);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Empty: it could not be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace farlook::bench

#endif  // FARLOOK_BENCH_CLUSTER_FOLDER_H_
