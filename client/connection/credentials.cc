#include "client/connection/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kv/wire/handshake.h"
#include "kv/wire/proof.h"

namespace farlook::client {
namespace {

std::string FromEnvironment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Errors of the file are this client's own: codes like PERMISSION_DENIED would look like a server's reply.
absl::Status FileError(const std::string& path, int error) {
  return absl::InvalidArgumentError(absl::StrCat("cannot read the secret's file ", path, ": ", strerror(error)));
}

// Returns the file's first line.
absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(path, errno);
  struct stat info = {};
  char buffer[kv::kMaxSecretBytes + 2];
  ssize_t bytes = -1;
  if (fstat(fd, &info) == 0) {
    do {
      bytes = read(fd, buffer, sizeof buffer);
    } while (bytes < 0 && errno == EINTR);
  }
  const int error = errno;
  close(fd);
  if (bytes < 0) return FileError(path, error);
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("others may read or write the secret's file ", path, ": chmod 600 ", path));
  }
  const absl::string_view text(buffer, static_cast<size_t>(bytes));
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace

absl::Status FindCredentials(ClientOptions* options) {
  if (options->user.empty()) options->user = FromEnvironment("FARLOOK_USER");
  if (options->secret.empty() && options->secret_file.empty()) {
    options->secret_file = FromEnvironment("FARLOOK_SECRET_FILE");
    if (options->secret_file.empty()) options->secret = FromEnvironment("FARLOOK_SECRET");
  }
  if (options->secret.empty() && !options->secret_file.empty()) {
    absl::StatusOr<std::string> secret = ReadSecret(options->secret_file);
    if (!secret.ok()) return secret.status();
    options->secret = *std::move(secret);
    absl::StripAsciiWhitespace(&options->secret);
    if (options->secret.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("the secret's file ", options->secret_file, " is empty"));
    }
  }
  // No server's secret has spaces at its ends. A newline may have been left by the tool that read it from a file.
  absl::StripAsciiWhitespace(&options->secret);
  if (options->user.empty() != options->secret.empty()) {
    return absl::InvalidArgumentError(
        options->user.empty() ? "a secret without a user: give FARLOOK_USER, ClientOptions::user or kv_cli --user"
                              : "a user without a secret: give FARLOOK_SECRET_FILE, ClientOptions::secret_file or "
                                "kv_cli --secret_file");
  }
  if (options->user.size() > kv::kMaxUserBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a user's name has at most ", kv::kMaxUserBytes, " characters"));
  }
  const size_t bytes = options->secret.size();
  if (bytes != 0 && (bytes < kv::kMinSecretBytes || bytes > kv::kMaxSecretBytes)) {
    return absl::InvalidArgumentError(absl::StrCat("the secret has ", bytes, " characters; those of servers have ",
                                                   kv::kMinSecretBytes, " to ", kv::kMaxSecretBytes));
  }
  return absl::OkStatus();
}

}  // namespace farlook::client
