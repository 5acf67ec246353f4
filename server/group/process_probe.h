// Asks about the process of another server by connecting to its address. The primary asks about a member whose
// connection has ended, a removed backup about the primary of the record.
//
// Thread safety: the group's thread.
#ifndef FARLOOK_SERVER_GROUP_PROCESS_PROBE_H_
#define FARLOOK_SERVER_GROUP_PROCESS_PROBE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rdma/transport.h"

namespace farlook::server {

class ProcessProbe {
 public:
  using CreateEndpoint = std::function<absl::StatusOr<std::unique_ptr<rdma::Endpoint>>(absl::string_view address)>;

  enum class Question : uint8_t {
    // Has the process ended? Yes if the host refuses the connection, or another process answers: then it has ended, or
    // is of no use any more. That is a reason to remove a member from the record, and no proof that it never becomes
    // primary: without the removal, readers and writers wait for it (docs/design-notes.md, "A get needs the word of
    // every member").
    kHasEnded,
    // Does the process serve clients? Only then it accepts a connection of this kind.
    kServes,
  };

  // `incarnation`: of the process in question.
  ProcessProbe(Question question, std::string address, uint64_t incarnation)
      : question_(question), address_(std::move(address)), incarnation_(incarnation) {}

  uint64_t incarnation() const { return incarnation_; }
  // Returns whether the answer is yes; it stays so. Until then connects again and again; never blocks. To be called in
  // each turn.
  bool Ask(const CreateEndpoint& create, absl::Time now);

 private:
  // An attempt that fails later than this got no answer, which proves nothing.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Returns the pause between two attempts.
  absl::Duration pause() const { return absl::Milliseconds(question_ == Question::kHasEnded ? 20 : 100); }
  void Dial(const CreateEndpoint& create, absl::Time now);
  void Disconnect(absl::Time now);

  const Question question_;
  const std::string address_;
  const uint64_t incarnation_;
  std::unique_ptr<rdma::Endpoint> endpoint_;
  std::unique_ptr<rdma::Connection> connection_;  // null: no attempt is under way
  absl::Time dial_at_ = absl::InfinitePast();
  absl::Time began_at_;
  bool yes_ = false;
};

}  // namespace farlook::server

#endif  // FARLOOK_SERVER_GROUP_PROCESS_PROBE_H_
