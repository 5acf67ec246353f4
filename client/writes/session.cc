#include "client/writes/session.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "client/writes/request_parts.h"
#include "kv/wire/gets.h"
#include "kv/wire/puts.h"

namespace farlook::client {

kv::Hello Session::MakeHello(bool read_only) const {
  kv::Hello hello;
  hello.flags = read_only ? uint32_t{kv::Hello::kReadOnly} : 0;
  if (!exists()) return hello;
  hello.session = id_;
  hello.epoch = epoch_;
  hello.incarnation = incarnation_;
  hello.acknowledged = floor_ - 1;
  return hello;
}

void Session::SetWindow(uint32_t granted) { window_ = std::min(granted, max_window_); }

void Session::SendGoodbye() {
  if (!exists() || connection_ == nullptr) return;
  kv::Request request;
  request.type = kv::RequestType::kGoodbye;
  char head[kv::kMaxRequestHeadBytes];
  if (connection_->PostSend(absl::string_view(head, request.EncodeHead(head)), {})) connection_->Ring();
}

void Session::Connect(const Ready& ready) {
  connection_ = ready.connection;
  parts_.posted->more = true;
  clock_.Forget();
  clock_.Update(ready.welcome->time_us, ready.hello_ns, ready.welcome_ns);
  connected_ns_ = ready.hello_ns;
  sounding_ = 0;
  epoch_ = ready.welcome->epoch;
  gets_at_once_ = std::min<uint32_t>(ready.welcome->gets, kv::kMaxGets);
  puts_at_once_ = std::min<uint32_t>(ready.welcome->puts, kv::kMaxPuts);
  if (!exists()) return Begin(ready);
  incarnation_ = ready.incarnation;
  hasher_ = ready.context.hasher;
  id_ = ready.welcome->session;  // a new one if the server did not keep the session, since it never wrote
  // A server that grants more than at first does not change the room on this side.
  SetWindow(std::min<uint32_t>(ready.welcome->window, static_cast<uint32_t>(sent_.size())));
  repeat_ = floor_;
  only_asked_.clear();
}

void Session::Begin(const Ready& ready) {
  const kv::Welcome& welcome = *ready.welcome;
  id_ = welcome.session;
  incarnation_ = ready.incarnation;
  max_value_bytes_ = welcome.max_value_bytes;
  hasher_ = ready.context.hasher;
  SetWindow(welcome.window);
  // Not replaced by a smaller one: Sent cannot be copied, and a window that was granted once will be again.
  const size_t room = std::bit_ceil(static_cast<size_t>(window_));
  if (sent_.size() < room) sent_ = std::vector<Sent>(room);
  mask_ = sent_.size() - 1;
  floor_ = next_ = repeat_ = 1;
}

void Session::End(absl::FunctionRef<void(Operation*)> unknown) {
  OperationQueue again;
  for (uint64_t number = floor_; number < next_; ++number) {
    Operation* operation = At(number).operation;
    At(number) = Sent();
    if (operation == nullptr) continue;
    if (IsWrite(operation->kind)) {
      unknown(operation);
    } else {
      again.Push(operation);
    }
  }
  again.Append(&queue_);
  queue_.Append(&again);
  if (prepared_ != nullptr) At(next_) = Sent();
  prepared_ = nullptr;
  id_ = 0;
  live_ = 0;
  pulls_ = 0;
  awaits_memory_ = false;
  floor_ = next_ = repeat_ = 1;
  only_asked_.clear();
}

// Provides the memory that the server pulls a value from: the original, or a copy.
absl::Status Session::PlaceValue(absl::string_view value, BufferPool::Piece* piece) {
  // Memory that peers READ begins at a multiple of 8.
  if (reinterpret_cast<uintptr_t>(value.data()) % 8 == 0) {
    if (std::shared_ptr<rdma::Buffer> buffer = parts_.user_memory->Find(value.data(), value.size())) {
      *piece = BufferPool::Piece(std::move(buffer), const_cast<char*>(value.data()));
      return absl::OkStatus();
    }
  }
  auto taken = parts_.outgoing->Take(value.size());
  if (!taken.ok()) return taken.status();
  *piece = *std::move(taken);
  std::memcpy(piece->data(), value.data(), value.size());
  return absl::OkStatus();
}

// Prepares the memory that the message will name, from which a large value is pulled.
[[gnu::always_inline]] inline absl::Status Session::Prepare(Operation* operation, Sent* sent) {
  if (operation->value.size() > max_value_bytes_) {
    return absl::InvalidArgumentError(absl::StrCat("a value of ", operation->value.size(),
                                                   " bytes is longer than this server's limit of ", max_value_bytes_));
  }
  sent->operation = operation;
  if (operation->kind != Kind::kPut || Fits(*operation)) return absl::OkStatus();
  if (absl::Status status = PlaceValue(operation->value, &sent->value); !status.ok()) return status;
  sent->value_hash = (*hasher_)(operation->value);
  return absl::OkStatus();
}

[[gnu::always_inline]] inline kv::Request Session::RequestOf(const Operation& operation, uint64_t number,
                                                             char* options) {
  const BufferPool::Piece& pulled = At(number).value;
  kv::Request request;
  request.type = TypeOf(operation, pulled.data() != nullptr);
  request.condition = OnWire(operation.condition.kind());
  request.number = number;
  // A view's members one by one, here and below: else the compiler keeps a Request in memory, and clears it first, word
  // by word.
  request.key = {operation.key.data(), operation.key.size()};
  request.version = operation.condition.version();
  request.deadline_us = clock_.DeadlineAt(operation.deadline_ns);
  request.flags = operation.after_moved ? kv::Request::kAfterMoved : 0;
  if (HasOptions(operation)) [[unlikely]]
    request.options = {options, OptionsOf(operation).Encode(options)};
  if (operation.kind == Kind::kCompareSwap) {
    request.operands = {operation.expected, operation.operand};
  } else if (operation.kind == Kind::kCreateCounter || operation.kind == Kind::kFetchAdd) {
    request.operands.operand = operation.operand;
  }
  if (request.type == kv::RequestType::kPut) {
    request.value = {operation.value.data(), operation.value.size()};
    request.value_bytes = static_cast<uint32_t>(operation.value.size());
  } else if (request.type == kv::RequestType::kPutPulled) {
    request.value_bytes = static_cast<uint32_t>(operation.value.size());
    request.source = {pulled.remote_address(), At(number).value_hash, pulled.rkey()};
  }
  return request;
}

bool Session::Post(uint64_t number) {
  const Sent& sent = At(number);
  if (sent.operation == nullptr) [[unlikely]]
    return PostCopy(sent);
  const Operation& operation = *sent.operation;
  if (IsPlainPut(operation) && sent.value.data() == nullptr) [[likely]]
    return PostPlainPut(operation, number, /*rings=*/false);
  return PostOther(operation, number);
}

bool Session::PostOther(const Operation& operation, uint64_t number) {
  char options[kv::RequestOptions::kMaxBytes];
  const kv::Request request = RequestOf(operation, number, options);
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request.EncodeHead(head);
  return PostMessage({head, head_bytes}, {request.value.data(), request.value.size()}, number);
}

// Handles the reply to the request that reads the clock, or a reply that the request had expired.
void Session::UpdateClock(uint64_t number, uint64_t time_us) {
  if (number == sounding_) {
    clock_.Update(time_us, sounding_ns_, parts_.time->NowNs());
    sounding_ = 0;
  } else {
    // The estimate of the server's clock may be wrong. The time of posting is no longer known; only that it was over
    // this connection.
    clock_.Forget();
    clock_.Update(time_us, connected_ns_, parts_.time->NowNs());
  }
}

// Posts the request of an operation that has ended.
bool Session::PostCopy(const Sent& sent) {
  kv::Request request = *kv::Request::Decode(sent.copy);
  // Its user received DEADLINE_EXCEEDED: the server must not begin it any more.
  request.deadline_us = kv::Request::kLongOver;
  // The memory to be pulled from may have another key than on the connection before.
  if (request.type == kv::RequestType::kPutPulled) request.source.rkey = sent.value.rkey();
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request.EncodeHead(head);
  if (!connection_->PostSend(absl::string_view(head, head_bytes), request.value)) return false;
  parts_.posted->messages = true;
  return true;
}

bool Session::PostOnlyAsked(uint64_t number) {
  const Sent& sent = At(number);
  if (sent.operation == nullptr) return PostCopy(sent);
  char options[kv::RequestOptions::kMaxBytes];
  kv::Request request = RequestOf(*sent.operation, number, options);
  request.flags |= kv::Request::kOnlyAsked;
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request.EncodeHead(head);
  return PostMessage({head, head_bytes}, request.value, number);
}

void Session::OnlyAskFor(absl::FunctionRef<bool(const Operation&)> which) {
  for (uint64_t number = floor_; number < next_; ++number) {
    if (const Operation* const operation = At(number).operation; operation != nullptr && which(*operation)) {
      only_asked_.push_back(number);
    }
  }
}

bool Session::IsOnlyAsked(uint64_t number) const {
  return std::binary_search(only_asked_.begin(), only_asked_.end(), number);
}

// Repeats requests after a resumption. The queue waits until all of them found room.
void Session::Repeat() {
  for (; repeat_ < next_; ++repeat_) {
    if (At(repeat_).answered) continue;
    if (!(IsOnlyAsked(repeat_) ? PostOnlyAsked(repeat_) : Post(repeat_))) return;
    ++parts_.stats->resent_requests;
  }
}

// The first operation in the queue was posted, with the number next_.
[[gnu::always_inline]] inline void Session::Took(Operation* operation) {
  prepared_ = nullptr;
  queue_.Pop();
  Numbered(operation);
}

void Session::Pump() {
  if (repeat_ < next_) [[unlikely]]
    Repeat();
  if (repeat_ < next_) return;
  while (!queue_.empty() && next_ < floor_ + window_ && !awaits_memory_) {
    Operation* operation = queue_.front();
    if (const Operation* const second = queue_.Next(operation);
        second != nullptr && MayGoTogether(*operation, *second)) {
      const size_t posted = PostTogether();
      if (posted == 0) return;
      for (size_t i = 0; i < posted; ++i) Took(queue_.front());
      continue;
    }
    Sent& sent = At(next_);
    if (prepared_ != operation) {
      if (absl::Status status = Prepare(operation, &sent); !status.ok()) {
        sent = Sent();
        if (absl::IsResourceExhausted(status) && pulls_ > 0) {
          awaits_memory_ = true;
          return;
        }
        queue_.Pop();
        parts_.finished->End(operation, std::move(status));
        continue;
      }
      prepared_ = operation;
    }
    if (!Post(next_)) return;
    Took(operation);
    if (sent.value.data() != nullptr) {
      ++parts_.stats->pulled_values;
      ++pulls_;
    }
  }
}

// Rare cases are in functions of their own, so that other replies need little stack. This one releases memory that the
// server pulled from, and the copy of a request whose operation had ended.
ABSL_ATTRIBUTE_NOINLINE void Session::Clear(Sent* sent) {
  sent->copy = std::string();
  if (sent->value.data() == nullptr) return;
  sent->value.Release();
  --pulls_;
  awaits_memory_ = false;
}

// Afterwards the operation's key and value may be destroyed.
void Session::KeepCopy(uint64_t number) {
  Sent& sent = At(number);
  char options[kv::RequestOptions::kMaxBytes];
  const kv::Request request = RequestOf(*sent.operation, number, options);
  char head[kv::kMaxRequestHeadBytes];
  const size_t head_bytes = request.EncodeHead(head);
  sent.copy = absl::StrCat(absl::string_view(head, head_bytes), request.value);
  sent.operation = nullptr;
  --live_;
}

void Session::Cancel(Operation* operation) {
  if (operation->queued()) {
    Unprepare(operation);
    operation->Linked<QueueTag>::Unlink();
  } else {
    KeepCopy(operation->number);
  }
}

// An operation leaves the queue unsent.
void Session::Unprepare(const Operation* operation) {
  if (operation != prepared_) return;
  prepared_ = nullptr;
  At(next_) = Sent();
}

void Session::Withdraw(absl::FunctionRef<bool(const Operation&)> which, absl::FunctionRef<void(Operation*)> take) {
  const auto chosen = [which](const Operation* operation) { return which(*operation); };
  queue_.Extract(chosen, [this, take](Operation* operation) {
    Unprepare(operation);
    take(operation);
  });
}

void Session::ForEach(absl::FunctionRef<void(const Operation&)> each) const {
  for (uint64_t number = floor_; number < next_; ++number) {
    if (const Operation* const operation = sent_[number & mask_].operation; operation != nullptr) each(*operation);
  }
  for (const Operation* queued = queue_.front(); queued != nullptr; queued = queue_.Next(queued)) each(*queued);
}

}  // namespace farlook::client
