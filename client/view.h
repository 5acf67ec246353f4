// Between std::string_view of the public interface and absl::string_view of everything else, which Debian's Abseil
// makes two types.
#ifndef FARLOOK_CLIENT_VIEW_H_
#define FARLOOK_CLIENT_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace farlook::client {

inline absl::string_view View(std::string_view bytes) { return absl::string_view(bytes.data(), bytes.size()); }

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_VIEW_H_
