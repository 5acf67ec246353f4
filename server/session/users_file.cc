#include "server/session/users_file.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/visible_text.h"
#include "kv/wire/handshake.h"
#include "kv/wire/proof.h"

namespace farlook::server {
namespace {

constexpr size_t kMaxFileBytes = 4 << 20;
constexpr size_t kLookUpBytes = 1 << 16;
constexpr size_t kMostLookUpBytes = 64 << 20;

absl::Status Wrong(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool GoodName(absl::string_view name) {
  return !name.empty() && name.size() <= kv::kMaxUserBytes && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' || c == '@';
  });
}

absl::Status ParseRoles(absl::string_view text, User* user) {
  for (const absl::string_view role : absl::StrSplit(text, ',')) {
    if (role == "write") {
      user->may_write = true;
    } else if (role == "admin") {
      user->admin = true;
    } else if (role != "read") {
      return Wrong(absl::StrCat("\"", role, "\" is no role; use read, write or admin, separated by commas"));
    }
  }
  return absl::OkStatus();
}

absl::Status ParseId(absl::string_view text, std::vector<uint32_t>* ids) {
  uint32_t id;
  if (!absl::SimpleAtoi(text, &id) || id == UINT32_MAX)
    return Wrong(absl::StrCat("\"", text, "\" is no number of an id"));
  ids->push_back(id);
  return absl::OkStatus();
}

// Looks up a name in a database of this host, with getpwnam_r or getgrnam_r. A group with many members needs a large
// buffer.
template <typename Entry>
absl::StatusOr<Entry> LookUp(absl::string_view kind, const std::string& name,
                             int (*look_up)(const char*, Entry*, char*, size_t, Entry**)) {
  std::vector<char> buffer;
  int error = ERANGE;
  for (size_t bytes = kLookUpBytes; error == ERANGE && bytes <= kMostLookUpBytes; bytes *= 4) {
    buffer.resize(bytes);
    Entry entry;
    Entry* found = nullptr;
    error = look_up(name.c_str(), &entry, buffer.data(), bytes, &found);
    if (error == 0 && found != nullptr) return entry;
  }
  if (error == 0 || error == ENOENT || error == ESRCH) {
    return Wrong(absl::StrCat("this host has no ", kind, " \"", name, "\""));
  }
  return Wrong(absl::StrCat("cannot look up ", kind, " \"", name, "\": ", strerror(error)));
}

absl::Status LookUpUser(const std::string& name, std::vector<uint32_t>* uids) {
  const absl::StatusOr<passwd> entry = LookUp<passwd>("user", name, getpwnam_r);
  if (entry.ok()) uids->push_back(entry->pw_uid);
  return entry.status();
}

absl::Status LookUpGroup(const std::string& name, std::vector<uint32_t>* gids) {
  const absl::StatusOr<group> entry = LookUp<group>("group", name, getgrnam_r);
  if (entry.ok()) gids->push_back(entry->gr_gid);
  return entry.status();
}

absl::Status TakeSecret(absl::string_view secret, User* user) {
  if (!user->secret.empty()) return Wrong("it has two secrets");
  if (secret.size() < kv::kMinSecretBytes || secret.size() > kv::kMaxSecretBytes) {
    return Wrong(absl::StrCat("its secret has ", secret.size(), " characters, and needs ", kv::kMinSecretBytes, " to ",
                              kv::kMaxSecretBytes, "; openssl rand -hex 32 makes a good one"));
  }
  user->secret = std::string(secret);
  return absl::OkStatus();
}

absl::Status ParseWord(absl::string_view word, User* user) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto& [key, value] = parts;
  if (key == "secret") return TakeSecret(value, user);
  if (key == "uid") return ParseId(value, &user->uids);
  if (key == "gid") return ParseId(value, &user->gids);
  if (key == "user") return LookUpUser(std::string(value), &user->uids);
  if (key == "group") return LookUpGroup(std::string(value), &user->gids);
  // Does not quote the word: it might be a secret that was written without its key.
  return Wrong("after name and roles there are only words that begin with secret=, uid=, user=, gid= or group=");
}

absl::StatusOr<User> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
  if (words.size() < 3) return Wrong("a user is a name, roles, and secret=, uid=, user=, gid= or group=");
  User user;
  user.name = std::string(words[0]);
  if (!GoodName(user.name)) {
    return Wrong(absl::StrCat("a name has 1 to ", kv::kMaxUserBytes, " letters, digits, or of _ - . @"));
  }
  if (absl::Status status = ParseRoles(words[1], &user); !status.ok()) return status;
  for (size_t i = 2; i < words.size(); ++i) {
    if (absl::Status status = ParseWord(words[i], &user); !status.ok()) return status;
  }
  return user;
}

// Resolves a relative path in the directory that systemd's LoadCredential= uses.
std::string Located(const std::string& path) {
  const char* const directory = std::getenv("CREDENTIALS_DIRECTORY");
  if (path.empty() || path[0] == '/' || directory == nullptr) return path;
  return absl::StrCat(directory, "/", path);
}

absl::Status CheckOwnership(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat("--users=", path, " is not a file"));
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return absl::PermissionDeniedError(absl::StrCat("--users=", path, " belongs to uid ", info.st_uid,
                                                    ", which could add any user: chown root ", path));
  }
  if ((info.st_mode & (S_IWGRP | S_IRWXO)) != 0) {
    return absl::PermissionDeniedError(absl::StrCat(
        "--users=", path, " has secrets, and others than its owner may read or write it: chmod u=rw,g=r,o= ", path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> GroupId(const std::string& group) {
  if (group.empty()) return -1;
  std::vector<uint32_t> gids;
  if (ParseId(group, &gids).ok()) return gids[0];
  absl::Status status = LookUpGroup(group, &gids);
  if (!status.ok()) return Wrong(absl::StrCat("--socket_group: ", status.message()));
  return gids[0];
}

absl::StatusOr<std::shared_ptr<const UserList>> ParseUsers(absl::string_view text) {
  std::vector<User> users;
  size_t number = 0;
  for (absl::string_view line : absl::StrSplit(WithoutByteOrderMark(text), '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    absl::StatusOr<User> user = ParseLine(line);
    if (!user.ok()) return Wrong(absl::StrCat("line ", number, ": ", user.status().message()));
    const bool twice =
        std::any_of(users.begin(), users.end(), [&user](const User& other) { return other.name == user->name; });
    if (twice) return Wrong(absl::StrCat("line ", number, ": user ", user->name, " is there already"));
    users.push_back(*std::move(user));
  }
  if (users.empty()) return Wrong("it names no user, so no client could connect");
  return std::make_shared<const UserList>(std::move(users));
}

absl::StatusOr<std::shared_ptr<const UserList>> ReadUsersFile(const std::string& path) {
  const std::string located = Located(path);
  const int fd = open(located.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const std::string why = absl::StrCat("cannot read --users=", located, ": ", strerror(errno));
    return errno == ENOENT || errno == ENOTDIR ? Wrong(why) : absl::PermissionDeniedError(why);
  }
  struct stat info = {};
  std::string text;
  absl::Status status = fstat(fd, &info) == 0
                            ? CheckOwnership(located, info)
                            : absl::PermissionDeniedError(absl::StrCat(located, ": ", strerror(errno)));
  char buffer[4096];
  while (status.ok()) {
    const ssize_t bytes = read(fd, buffer, sizeof buffer);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) status = absl::PermissionDeniedError(absl::StrCat("cannot read ", located, ": ", strerror(errno)));
    if (bytes <= 0) break;
    text.append(buffer, static_cast<size_t>(bytes));
    if (text.size() > kMaxFileBytes) status = Wrong(absl::StrCat(located, " is too long for a file of users"));
  }
  close(fd);
  if (!status.ok()) return status;
  auto users = ParseUsers(text);
  if (!users.ok()) return Wrong(absl::StrCat("--users=", located, ", ", users.status().message()));
  return users;
}

}  // namespace farlook::server
