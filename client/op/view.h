// Conversion from std::string_view of the public interface to absl::string_view, which is a different type in Debian's
// Abseil.
#ifndef FARLOOK_CLIENT_OP_VIEW_H_
#define FARLOOK_CLIENT_OP_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace farlook::client {

inline absl::string_view View(std::string_view bytes) { return absl::string_view(bytes.data(), bytes.size()); }

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_OP_VIEW_H_
