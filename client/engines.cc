#include "client/engines.h"

#include <bit>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "client/status.h"
#include "kv/cell_notice.h"
#include "kv/cluster_map.h"
#include "kv/gets.h"
#include "kv/limits.h"
#include "kv/slot.h"
#include "kv/touched.h"

namespace farlook::client {
namespace {

// Memory that stays, of each of the two pools; with flights, session and directory a connection stays below 1 MiB.
constexpr size_t kIdlePoolBytes = 256 << 10;

// Of the index mirror, unless told.
constexpr uint64_t kSharedMirrorBytes = 256 << 20;
constexpr uint64_t kOwnMirrorBytes = 16 << 20;

absl::Status CheckTtl(const Operation& operation) {
  const bool touches = operation.kind == Kind::kTouch || operation.kind == Kind::kGetAndTouch;
  if (operation.ttl_ms == 0 && !touches) return absl::OkStatus();
  if (operation.ttl_ms < 1 || operation.ttl_ms > kMaxTtlMs) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ttl of ", operation.ttl_ms, " ms: an item lives for 1 ms to 10 years"));
  }
  if (operation.keep_ttl) return absl::InvalidArgumentError("a ttl is given, and the one there is to be kept");
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
  const bool keyless = IsOneOf(operation.kind, Kind::kPing, Kind::kStat, Kind::kWarm);
  if (operation.key.empty() && !keyless) return absl::InvalidArgumentError("the key is empty");
  if (!IsWrite(operation.kind)) return absl::OkStatus();
  if (read_only) return absl::PermissionDeniedError("this client asked to read only");
  if (operation.kind == Kind::kDelete && operation.condition.kind() == Condition::Kind::kIfAbsent) {
    return absl::InvalidArgumentError(
        "a Delete that is to find no key deletes nothing: IfPresent or IfVersion is meant");
  }
  if (absl::Status status = CheckTtl(operation); !status.ok()) return status;
  if (operation.value.size() > kv::kMaxValueBytes && operation.kind != Kind::kDelete) {
    return absl::InvalidArgumentError(
        absl::StrCat("a value of ", operation.value.size(), " bytes is longer than any server's limit"));
  }
  return absl::OkStatus();
}

// At the transport for one READ, before the clock is read and the wait goes on as spin_us says: not longer than that.
uint32_t LooksFor(int64_t spin_us) {
  constexpr int64_t kLooksPerUs = 20, kMostLooks = 1000;
  return static_cast<uint32_t>(std::clamp<int64_t>(spin_us, 1, kMostLooks / kLooksPerUs) * kLooksPerUs);
}

// A put that needs no check: most do not.
bool NeedsNoCheck(const Operation& operation) {
  return kv::IsKeyLength(operation.key.size()) && operation.value.size() <= kv::kMaxValueBytes && operation.ttl_ms == 0;
}

}  // namespace

Engines::Engines(const Parts& parts, const ClientOptions& options)
    : parts_(parts),
      gets_by_reads_(options.lookups != Lookups::kMessages),
      read_only_(options.read_only),
      mirror_bytes_(options.mirror_bytes),
      share_mirror_(options.share_mirror),
      user_memory_(parts.endpoint),
      staging_(parts.endpoint, /*readable_by_peers=*/false, kIdlePoolBytes),
      outgoing_(parts.endpoint, /*readable_by_peers=*/true, kIdlePoolBytes),
      flights_(parts.endpoint),
      touches_(parts.time, parts.stats),
      session_({&outgoing_, &user_memory_, parts.time, parts.timeouts, parts.finished, parts.stats, &posted_},
               std::max(1u, options.max_in_flight)),
      reads_({&flights_, &staging_, &user_memory_, parts.directory, &session_, &mirror_, &touches_, parts.time,
              parts.finished, parts.stats, &posted_},
             std::max(1u, options.max_in_flight), LooksFor(options.spin_us)),
      direct_({&touches_, parts.time, parts.finished, parts.latencies, parts.stats}, gets_by_reads_),
      counters_({&flights_, &session_, parts.finished, parts.stats, &posted_}, std::max(1u, options.max_in_flight),
                static_cast<uint64_t>(std::max<int64_t>(0, options.counter_cache_bytes))),
      warmer_({parts.endpoint, &mirror_, parts.directory, parts.finished, parts.stats, &posted_}, gets_by_reads_) {}

// What is not answered with READs, or makes no sense. Apart, so that gets need little of the stack.
ABSL_ATTRIBUTE_NOINLINE void Engines::StartOther(Operation* operation) {
  if (operation->kind == Kind::kPut && NeedsNoCheck(*operation) && !read_only_) [[likely]]
    return session_.Start(operation);
  if (absl::Status status = CheckOperation(*operation, read_only_); !status.ok()) {
    parts_.finished->End(operation, std::move(status));
  } else if (IsCounter(operation->kind)) {
    counters_.Start(operation);
  } else if (operation->kind == Kind::kWarm) {
    warmer_.Start(operation);
  } else {
    if (IsGet(operation->kind)) {
      ++parts_.stats->gets;
      ++parts_.stats->server_gets;
    }
    session_.Start(operation);
  }
}

bool Engines::StartPut(Operation* operation) {
  return Session::IsPlainPut(*operation) && !read_only_ && NeedsNoCheck(*operation) && session_.StartAtOnce(operation);
}

void Engines::Pump() {
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
  if (session_.wants_pump()) {  // after those that hand operations to it
    session_.Pump();
    more |= session_.wants_pump();
  }
  posted_.more |= more;
}

// ---- Messages.

ABSL_ATTRIBUTE_NOINLINE absl::Status Engines::NotOpen(uint64_t number) {
  return absl::InvalidArgumentError(absl::StrCat("the server answered request ", number, ", which is not open"));
}

// Decoded once more, so that of most replies nothing need be kept in memory until it is known that they are like most.
ABSL_ATTRIBUTE_NOINLINE void Engines::AnsweredOther(Operation* operation, absl::string_view message) {
  kv::Reply reply;
  reply.DecodeFrom(message);
  Answered(operation, reply);
}

absl::Status Engines::ReceivedOther(absl::string_view message) {
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
    if (sample == 0) return absl::InvalidArgumentError("malformed message: a notice of how many hits to tell");
    touches_.SetSample(sample);
    return absl::OkStatus();
  }
  return ReceivedReply(message);  // and so malformed
}

void Engines::Answered(Operation* operation, const kv::Reply& reply) {
  // Nothing was done. Its time goes on meanwhile, and takes it out by Session::Cancel().
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
    default:
      operation->version = operation->kind == Kind::kDelete && status.ok() ? 0 : reply.version;
      if (mirror_.enabled()) Remember(*operation, reply.code, reply.slot);
  }
  parts_.finished->End(operation, std::move(status));
}

void Engines::GetAnswered(Operation* operation, const kv::Reply& reply) {
  if (reply.code == kv::Code::kNotFound) {
    operation->version = 0;
    ++parts_.stats->misses;
    return parts_.finished->EndAbsent(operation);
  }
  absl::Status status = StatusOf(reply.code);
  if (operation->kind == Kind::kGetAndTouch && status.ok()) operation->touched = true;
  // The value is too long for a message, or empty; or a group's next primary, which knows that the key was touched,
  // knows neither the value nor where it lay.
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

void Engines::TtlAnswered(Operation* operation, const kv::Reply& reply) {
  absl::Status status = StatusOf(reply.code);
  operation->version = status.ok() ? reply.version : 0;
  kv::TtlResult result;
  if (!status.ok()) {
    if (reply.code == kv::Code::kNotFound) ++parts_.stats->misses;
  } else if (kv::TtlResult::Decode(reply.payload, &result)) {
    ++parts_.stats->hits;
    operation->left_ms = LeftMs(result.expires_ms, reply.time_us);
  } else {
    status = absl::InternalError("the server's answer does not say when the item expires");
  }
  parts_.finished->End(operation, std::move(status));
}

// So that a writer's next read of the key is one round trip.
ABSL_ATTRIBUTE_NOINLINE void Engines::Remember(const Operation& operation, kv::Code code, kv::Slot slot) {
  const uint64_t hash = (*hasher_)(operation.key);
  if (code == kv::Code::kNotFound || (code == kv::Code::kOk && operation.kind == Kind::kDelete)) {
    mirror_.Erase(hash);
  } else if (!slot.empty() && slot.fingerprint() == kv::FingerprintOf(hash)) {
    mirror_.Insert(hash, slot);
  }
}

// ---- Connections.

void Engines::Connect(const Ready& ready) {
  hasher_ = ready.context.hasher;
  touches_.Connect(ready.connection, ready.welcome->sample);
  if (mirrored_ != ready.incarnation) AttachMirror(ready);
  for (Engine* engine : all_) engine->Connect(ready);
}

// Of this incarnation's index, whoever had the one before.
void Engines::AttachMirror(const Ready& ready) {
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

void Engines::Lost() {
  touches_.Lost();
  for (Engine* engine : all_) engine->Lost();
  posted_ = Posted{.more = true};
}

void Engines::EndSession(absl::string_view why) {
  session_.End([this, why](Operation* operation) {
    parts_.finished->End(operation,
                         absl::UnknownError(absl::StrCat("the write was sent, its outcome is unknown: ", why)));
  });
}

void Engines::ForgetServer(absl::string_view news) {
  EndSession("the server process that it was sent to is gone");
  // Versions count anew in another incarnation, and may fit by chance.
  session_.Withdraw(
      [](const Operation& operation) { return operation.condition.kind() == Condition::Kind::kIfVersion; },
      [this, news](Operation* operation) { parts_.finished->End(operation, absl::AbortedError(news)); });
}

void Engines::WithdrawMoved(absl::FunctionRef<bool(const Operation&)> which) {
  const auto take = [this](Operation* operation) { MovedUnsent(operation); };
  reads_.Withdraw(which, take);
  counters_.Withdraw(which, take);
  if (!session_.has_sent()) session_.Withdraw(which, take);
}

void Engines::KeepOrder(absl::FunctionRef<bool(const Operation&)> out_of_order) {
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

void Engines::MovedUnsent(Operation* operation) {
  operation->only_asked = false;
  operation->number = Operation::kNotSent;
  moved_.Push(operation);
}

// Refusals come in the order of requests, but that of one which the server before had begun comes when the next one is
// asked for it. Writes of its key that were refused meanwhile are of the same session: none begins anew while a request
// of the slot is under way. Nor were any of its writes withdrawn meanwhile, so one that was not sent was started before
// it, or is a get.
void Engines::Hold(Operation* operation) {
  operation->engine = &session_;  // whose Cancel() takes it out of any queue
  if (operation->only_asked) [[unlikely]] {
    for (Operation* held = moved_.front(); held != nullptr; held = moved_.Next(held)) {
      const bool was_sent_later = held->number > operation->number && held->number != Operation::kNotSent;
      if (was_sent_later && IsWrite(held->kind) && held->key == operation->key) {
        return moved_.PushBefore(held, operation);
      }
    }
  }
  moved_.Push(operation);
}

uint64_t Engines::memory_bytes() const {
  uint64_t bytes = staging_.memory_bytes() + outgoing_.memory_bytes() + flights_.memory_bytes() + mirror_.bytes() +
                   touches_.memory_bytes();
  for (const Engine* engine : all_) bytes += engine->memory_bytes();
  return bytes;
}

}  // namespace farlook::client
