#include "client/core/operation_router.h"

#include <bit>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "client/op/status.h"
#include "kv/layout/limits.h"
#include "kv/layout/slot.h"
#include "kv/wire/cell_notice.h"
#include "kv/wire/cluster_map.h"
#include "kv/wire/gets.h"
#include "kv/wire/touched.h"

namespace farlook::client {
namespace {

// Idle memory that each of the two pools keeps. With flights, session and directory, a connection stays below 1 MiB.
constexpr size_t kIdlePoolBytes = 256 << 10;

// Default sizes of the index mirror.
constexpr uint64_t kSharedMirrorBytes = 256 << 20;
constexpr uint64_t kOwnMirrorBytes = 16 << 20;

absl::Status CheckTtl(const Operation& operation) {
  const bool touches = operation.kind == Kind::kTouch || operation.kind == Kind::kGetAndTouch;
  if (operation.ttl_ms == 0 && !touches) return absl::OkStatus();
  if (operation.ttl_ms < 1 || operation.ttl_ms > kMaxTtlMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ttl of ", operation.ttl_ms, " ms: an item lives for 1 ms to 10 years"));
  }
  if (operation.keep_ttl) return absl::InvalidArgumentError("ttl and keep_ttl exclude each other");
  return absl::OkStatus();
}

[[gnu::always_inline]] inline absl::Status CheckOperation(const Operation& operation, bool read_only) {
  if (operation.key.size() > kv::kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a key of ", operation.key.size(), " bytes is longer than ", kv::kMaxKeyBytes));
  }
  if (IsCounter(operation.kind)) {
    if (absl::Status status = Counters::Check(operation); !status.ok()) return status;
  }
  const bool keyless = IsOneOf(operation.kind, Kind::kPing, Kind::kStat, Kind::kWarm, Kind::kScan);
  if (operation.key.empty() && !keyless) return absl::InvalidArgumentError("the key is empty");
  if (!IsWrite(operation.kind)) return absl::OkStatus();
  if (read_only) return absl::PermissionDeniedError("this client connected with read_only");
  if (operation.kind == Kind::kDelete && operation.condition.kind() == Condition::Kind::kIfAbsent) {
    return absl::InvalidArgumentError("a Delete with IfAbsent deletes nothing: use IfPresent or IfVersion");
  }
  if (absl::Status status = CheckTtl(operation); !status.ok()) return status;
  if (operation.value.size() > kv::kMaxValueBytes && operation.kind != Kind::kDelete) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value of ", operation.value.size(), " bytes is longer than any server's limit"));
  }
  return absl::OkStatus();
}

// Returns how often the transport is polled for one READ before the clock is read and the wait continues under spin_us.
// This takes at most spin_us.
uint32_t LooksFor(int64_t spin_us) {
  constexpr int64_t kLooksPerUs = 20, kMostLooks = 1000;
  return static_cast<uint32_t>(std::clamp<int64_t>(spin_us, 1, kMostLooks / kLooksPerUs) * kLooksPerUs);
}

// Returns whether a put needs no check, like most.
bool NeedsNoCheck(const Operation& operation) {
  return kv::IsKeyLength(operation.key.size()) && operation.value.size() <= kv::kMaxValueBytes && operation.ttl_ms == 0;
}

}  // namespace

OperationRouter::OperationRouter(const Parts& parts, const ClientOptions& options)
    : parts_(parts),
      gets_by_reads_(options.lookups != Lookups::kMessages),
      read_only_(options.read_only),
      mirror_bytes_(options.mirror_bytes),
      share_mirror_(options.share_mirror),
      user_memory_(parts.endpoint),
      staging_(parts.endpoint, /*readable_by_peers=*/false, kIdlePoolBytes),
      outgoing_(parts.endpoint, /*readable_by_peers=*/true, kIdlePoolBytes),
      flights_(parts.endpoint),
      hit_sampler_(parts.time, parts.stats),
      session_({&outgoing_, &user_memory_, parts.time, parts.timeouts, parts.finished, parts.stats, &posted_},
               std::max(1u, options.max_in_flight)),
      reads_({&flights_, &staging_, &user_memory_, parts.directory, &session_, &mirror_, &hit_sampler_, parts.time,
              parts.finished, parts.stats, &posted_},
             std::max(1u, options.max_in_flight), LooksFor(options.spin_us)),
      direct_({&hit_sampler_, parts.time, parts.finished, parts.latencies, parts.stats}, gets_by_reads_),
      counters_({&flights_, &session_, parts.finished, parts.stats, &posted_}, std::max(1u, options.max_in_flight),
                static_cast<uint64_t>(std::max<int64_t>(0, options.counter_cache_bytes))),
      warmer_({parts.endpoint, &mirror_, parts.directory, parts.finished, parts.stats, &posted_}, gets_by_reads_),
      scans_({parts.endpoint, parts.directory, parts.time, parts.finished, parts.stats, &posted_}) {}

absl::Status OperationRouter::Check(const Operation& operation, bool read_only) {
  return CheckOperation(operation, read_only);
}

// Starts operations that are not answered with READs, or are invalid. A separate function, so that gets need little
// stack.
ABSL_ATTRIBUTE_NOINLINE void OperationRouter::StartOther(Operation* operation) {
  if (operation->kind == Kind::kPut && NeedsNoCheck(*operation) && !read_only_) [[likely]]
    return session_.Start(operation);
  if (absl::Status status = CheckOperation(*operation, read_only_); !status.ok()) {
    parts_.finished->End(operation, std::move(status));
  } else if (IsCounter(operation->kind)) {
    counters_.Start(operation);
  } else if (operation->kind == Kind::kWarm) {
    warmer_.Start(operation);
  } else if (operation->kind == Kind::kScan) {
    scans_.Start(operation);
  } else {
    if (IsGet(operation->kind)) {
      ++parts_.stats->gets;
      ++parts_.stats->server_gets;
    }
    session_.Start(operation);
  }
}

bool OperationRouter::StartPut(Operation* operation) {
  return Session::IsPlainPut(*operation) && !read_only_ && NeedsNoCheck(*operation) && session_.StartAtOnce(operation);
}

void OperationRouter::Pump() {
  posted_.more = false;
  bool more = false;
  if (reads_.wants_pump()) {
    reads_.Pump();
    more = reads_.wants_pump();
  }
  if (counters_.wants_pump()) {
    counters_.Pump();
    more |= counters_.wants_pump();
  }
  if (warmer_.wants_pump()) {
    warmer_.Pump();
    more |= warmer_.wants_pump();
  }
  if (scans_.wants_pump()) {
    scans_.Pump();
    more |= scans_.wants_pump();
  }
  if (session_.wants_pump()) {  // after the engines that hand operations to it
    session_.Pump();
    more |= session_.wants_pump();
  }
  posted_.more |= more;
}

// ---- Messages.

ABSL_ATTRIBUTE_NOINLINE absl::Status OperationRouter::NotOpen(uint64_t number) {
  return absl::InvalidArgumentError(absl::StrCat("the server answered request ", number, ", which is not open"));
}

// Decodes the reply a second time, so that the common case need not keep a decoded reply in memory.
ABSL_ATTRIBUTE_NOINLINE void OperationRouter::AnsweredOther(Operation* operation, absl::string_view message) {
  kv::Reply reply;
  reply.DecodeFrom(message);
  Answered(operation, reply);
}

absl::Status OperationRouter::ReceivedOther(absl::string_view message) {
  if (kv::ReplyPack::Is(message)) {
    kv::PackedReplies pack(message);
    for (absl::string_view reply; pack.Next(&reply);) {
      if (absl::Status status = ReceivedReply(reply); !status.ok()) return status;
    }
    return pack.whole() ? absl::OkStatus() : absl::InvalidArgumentError("malformed message: a pack of replies");
  }
  if (kv::CellNotice::Is(message)) return counters_.Noticed(message);
  if (kv::SampleNotice::Is(message)) {
    const uint32_t sample = kv::SampleNotice::Decode(message);
    if (sample == 0) return absl::InvalidArgumentError("malformed message: a notice with sample 0");
    hit_sampler_.SetSample(sample);
    return absl::OkStatus();
  }
  return ReceivedReply(message);  // malformed: returns the error
}

void OperationRouter::Answered(Operation* operation, const kv::Reply& reply) {
  // Nothing was executed. The operation's deadline still runs, and Session::Cancel() removes it.
  if (reply.code == kv::Code::kMoved && follows_moves_ && IsOfAKey(operation->kind)) {
    operation->only_asked = session_.IsOnlyAsked(operation->number);
    return moved_.Push(operation);
  }
  absl::Status status = StatusOf(reply.code);
  switch (operation->kind) {
    case Kind::kGet:
    case Kind::kExists:
    case Kind::kGetAndTouch:
      return GetAnswered(operation, reply);
    case Kind::kTtl:
      return TtlAnswered(operation, reply);
    case Kind::kStat:
    case Kind::kAdmin:
      operation->version = reply.version;
      if (status.ok()) status = Deliver(reply.payload, operation);
      break;
    case Kind::kPing:
      break;
    case Kind::kCreateCounter:
    case Kind::kFetchAdd:
    case Kind::kCompareSwap:
    case Kind::kReadCounter:
    case Kind::kDeleteCounter:
      return counters_.Answered(operation, reply);
    case Kind::kPut:
      if (reply.code == kv::Code::kNoMemory) status = NoRoomFor(operation->value.size(), region_bytes_);
      [[fallthrough]];
    default:
      operation->version = operation->kind == Kind::kDelete && status.ok() ? 0 : reply.version;
      if (mirror_.enabled()) Remember(*operation, reply.code, reply.slot);
  }
  parts_.finished->End(operation, std::move(status));
}

void OperationRouter::GetAnswered(Operation* operation, const kv::Reply& reply) {
  if (reply.code == kv::Code::kNotFound) {
    operation->version = 0;
    ++parts_.stats->misses;
    return parts_.finished->EndAbsent(operation);
  }
  absl::Status status = StatusOf(reply.code);
  if (operation->kind == Kind::kGetAndTouch && status.ok()) operation->touched = true;
  // The value is empty or too long for a message. Or this is a group's next primary: it knows that the key was touched,
  // but neither the value nor its location.
  if (status.ok() && reply.payload.empty() && WantsValue(operation->kind)) {
    return reads_.StartAt(operation, reply.slot, reply.version);
  }
  operation->version = status.ok() ? reply.version : 0;
  if (status.ok()) {
    ++parts_.stats->hits;
    if (WantsValue(operation->kind)) status = Deliver(reply.payload, operation);
  }
  parts_.finished->End(operation, std::move(status));
}

void OperationRouter::TtlAnswered(Operation* operation, const kv::Reply& reply) {
  absl::Status status = StatusOf(reply.code);
  operation->version = status.ok() ? reply.version : 0;
  kv::TtlResult result;
  if (!status.ok()) {
    if (reply.code == kv::Code::kNotFound) ++parts_.stats->misses;
  } else if (kv::TtlResult::Decode(reply.payload, &result)) {
    ++parts_.stats->hits;
    operation->left_ms = LeftMs(result.expires_ms, reply.time_us);
    operation->kept = (result.item_flags & kv::RequestOptions::kKeep) != 0;
  } else {
    status = absl::InternalError("the server's answer lacks the item's expiry");
  }
  parts_.finished->End(operation, std::move(status));
}

// Stores the location in the mirror, so that a writer's next read of the key takes one round trip.
ABSL_ATTRIBUTE_NOINLINE void OperationRouter::Remember(const Operation& operation, kv::Code code, kv::Slot slot) {
  const uint64_t hash = (*hasher_)(operation.key);
  if (code == kv::Code::kNotFound || (code == kv::Code::kOk && operation.kind == Kind::kDelete)) {
    mirror_.Erase(hash);
  } else if (!slot.empty() && slot.fingerprint() == kv::FingerprintOf(hash)) {
    mirror_.Insert(hash, slot);
  }
}

// ---- Connections.

void OperationRouter::Connect(const Ready& ready) {
  hasher_ = ready.context.hasher;
  region_bytes_ = ready.context.region_bytes;
  hit_sampler_.Connect(ready.connection, ready.welcome->sample);
  if (mirrored_ != ready.incarnation) AttachMirror(ready);
  for (Engine* engine : all_) engine->Connect(ready);
}

// Attaches a mirror for this incarnation's index, replacing the one before.
void OperationRouter::AttachMirror(const Ready& ready) {
  mirrored_ = ready.incarnation;
  const auto length = [&](uint64_t bytes) {
    const uint64_t most = std::min(bytes, std::bit_ceil(ready.context.region_bytes));
    return most < kv::kBucketBytes ? 0 : std::bit_floor(most);
  };
  const bool told = mirror_bytes_ >= 0;
  const uint64_t bytes = length(told ? static_cast<uint64_t>(mirror_bytes_) : kSharedMirrorBytes);
  MirrorMemory memory;
  if (bytes > 0 && gets_by_reads_ && !ready.connection->capabilities().local) {
    const std::string directory = share_mirror_ ? MirrorMemory::DirectoryOfUser() : std::string();
    if (!directory.empty()) memory = MirrorMemory::Shared(directory, ready.incarnation, bytes);
    if (memory.data() == nullptr) memory = MirrorMemory::Private(told ? bytes : length(kOwnMirrorBytes));
  }
  mirror_.Attach(std::move(memory), ready.context.directory);
}

void OperationRouter::Lost() {
  hit_sampler_.Lost();
  for (Engine* engine : all_) engine->Lost();
  posted_ = Posted{.more = true};
}

void OperationRouter::EndSession(absl::string_view why) {
  session_.End([this, why](Operation* operation) {
    parts_.finished->End(operation,
                         absl::UnknownError(absl::StrCat("the write was sent, its outcome is unknown: ", why)));
  });
}

void OperationRouter::ForgetServer(absl::string_view news) {
  EndSession("the server process that it was sent to is gone");
  // Another incarnation counts versions from the beginning, so an old version may match by chance.
  session_.Withdraw(
      [](const Operation& operation) { return operation.condition.kind() == Condition::Kind::kIfVersion; },
      [this, news](Operation* operation) { parts_.finished->End(operation, absl::AbortedError(news)); });
}

void OperationRouter::WithdrawMoved(absl::FunctionRef<bool(const Operation&)> which) {
  const auto take = [this](Operation* operation) { MovedUnsent(operation); };
  reads_.Withdraw(which, take);
  counters_.Withdraw(which, take);
  if (!session_.has_sent()) session_.Withdraw(which, take);
}

void OperationRouter::KeepOrder(absl::FunctionRef<bool(const Operation&)> out_of_order) {
  kv::SlotSet sent;
  session_.OnlyAskFor([out_of_order, &sent](const Operation& operation) {
    if (!out_of_order(operation)) return false;
    sent.set(kv::ClusterSlotOf(operation.hash));
    return true;
  });
  session_.Withdraw(
      [out_of_order, &sent](const Operation& operation) {
        return out_of_order(operation) && !sent[kv::ClusterSlotOf(operation.hash)];
      },
      [this](Operation* operation) { MovedUnsent(operation); });
}

void OperationRouter::MovedUnsent(Operation* operation) {
  operation->only_asked = false;
  operation->number = Operation::kNotSent;
  moved_.Push(operation);
}

uint64_t OperationRouter::memory_bytes() const {
  uint64_t bytes = staging_.memory_bytes() + outgoing_.memory_bytes() + flights_.memory_bytes() + mirror_.bytes() +
                   hit_sampler_.memory_bytes();
  for (const Engine* engine : all_) bytes += engine->memory_bytes();
  return bytes;
}

}  // namespace farlook::client
