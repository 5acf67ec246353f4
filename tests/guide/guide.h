// The examples of docs/guide.md, to be run by guide_test.cc.
#ifndef FARLOOK_TESTS_GUIDE_GUIDE_H_
#define FARLOOK_TESTS_GUIDE_GUIDE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "farlook/client.h"
#include "farlook/scan.h"

namespace farlook_guide {

absl::StatusOr<std::unique_ptr<farlook::Client>> ConnectPatiently(std::string_view address);
// Reads, changes and writes, again as long as another writer is faster.
absl::Status Append(farlook::Client& client, std::string_view key, std::string_view line);
// Returns the sum of the values' lengths, of those keys that exist.
absl::StatusOr<size_t> TotalBytes(farlook::Client& client, std::span<const std::string_view> keys);
// Returns up to 1,000 items whose keys begin with user:, and sets the cursor to where the next call continues.
absl::StatusOr<std::map<std::string, std::string>> UsersOf(farlook::Client& client, std::string* cursor);
// All in flight together. Returns the first error.
absl::Status PutAll(farlook::Client& client, const std::map<std::string, std::string>& pairs);
// `then` is called by a later Poll() or Wait().
void CopyLater(farlook::Client& client, std::string_view from, std::string_view to,
               std::function<void(const absl::Status&)> then);
// One turn of an event loop.
void PollOnce(farlook::Client& client, int other_fd);
absl::Status PutStubbornly(farlook::Client& client, std::string_view key, std::string_view value);
// Adds 1,000 to the counter "visits" in each of `threads` threads.
void CountInThreads(const std::string& address, int threads);

}  // namespace farlook_guide

#endif  // FARLOOK_TESTS_GUIDE_GUIDE_H_
