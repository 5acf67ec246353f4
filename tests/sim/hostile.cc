#include "tests/sim/hostile.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"

namespace farlook::sim {

Hostile::Hostile(World* world, int number, std::string address)
    : world_(world), address_(std::move(address)), endpoint_(world->network.CreateEndpoint(kFirst + number)) {}

void Hostile::Wake(int acts) {
  const bool asleep = acts_left_ == 0;
  acts_left_ += acts;
  if (asleep) Act();
}

void Hostile::End() {
  over_ = true;
  connection_ = nullptr;
}

void Hostile::Act() {
  if (over_) return;
  rdma::sim::Random& random = world_->random;
  if (!ignores_replies_) Look();
  if (connection_ == nullptr) {
    Come();
  } else if (connected_) {
    if (random.OneIn(30)) ignores_replies_ = !ignores_replies_;
    if (words_left_ <= 0) {
      // It stays.
    } else if (random.OneIn(60)) {
      connection_ = nullptr;
    } else if (!welcome_ && !random.OneIn(20)) {
      // Mostly it waits for the Welcome.
    } else if (random.OneIn(6)) {
      ReachOut();
    } else {
      SendNext();
    }
  }
  if (--acts_left_ <= 0) return;
  world_->scheduler.After(random.Between(100, random.OneIn(10) ? 1'000'000 : 5'000), [this] { Act(); });
}

void Hostile::Come() {
  rdma::sim::Random& random = world_->random;
  std::string connect = kv::ConnectData().Encode();
  if (random.OneIn(6)) connect[random.Below(connect.size())] = static_cast<char>(random.Next());
  auto connection = endpoint_->Connect(address_, connect, /*timeout_ms=*/5);
  if (!connection.ok()) return;
  connection_ = *std::move(connection);
  connected_ = welcome_ = false;
  numbers_ = 0;
  // Some send little, and stay: they do not acknowledge notices about counters.
  words_left_ = random.OneIn(3) ? static_cast<int>(random.Between(1, 4)) : std::numeric_limits<int>::max();
}

// The first message of a connection; some send none, or garbage.
void Hostile::Greet() {
  rdma::sim::Random& random = world_->random;
  std::string hello = kv::Hello().Encode();
  if (random.OneIn(6)) hello[random.Below(hello.size())] = static_cast<char>(random.Next());
  if (random.OneIn(10) || !connection_->PostSend(hello, {})) return;
  connection_->Ring();
}

// Checks whether it is connected and welcome, and ignores the rest.
void Hostile::Look() {
  std::array<rdma::Completion, 8> completions;
  const size_t count = endpoint_->Poll(absl::MakeSpan(completions));
  for (size_t i = 0; i < count; ++i) {
    if (completions[i].connection != connection_.get()) continue;
    if (completions[i].opcode == rdma::Opcode::kConnected) {
      connected_ = true;
      Greet();
    }
    if (completions[i].opcode == rdma::Opcode::kReceive && !std::exchange(welcome_, true)) ++accepted_;
    if (completions[i].opcode == rdma::Opcode::kDisconnected) connection_ = nullptr;
  }
}

// A valid request, for a key of this client's own.
std::string Hostile::Request() {
  rdma::sim::Random& random = world_->random;
  constexpr kv::RequestType kTypes[] = {
      kv::RequestType::kPut,           kv::RequestType::kPut,         kv::RequestType::kPutPulled,
      kv::RequestType::kDelete,        kv::RequestType::kGet,         kv::RequestType::kPing,
      kv::RequestType::kCounterCreate, kv::RequestType::kCounterAdd,  kv::RequestType::kCounterRead,
      kv::RequestType::kCounterDelete, kv::RequestType::kCellsDropped};
  kv::Request request;
  request.type = kTypes[random.Below(std::size(kTypes))];
  const bool counter = kv::IsCounterRequest(request.type);
  // One counter: cells are few.
  const std::string key = counter ? "hostile counter" : absl::StrCat("hostile value ", random.Below(20));
  const std::string value(random.Below(600), 'h');
  if (request.type != kv::RequestType::kPing && request.type != kv::RequestType::kCellsDropped) request.key = key;
  if (request.type != kv::RequestType::kCellsDropped) request.number = ++numbers_;
  if (request.type == kv::RequestType::kPut) request.value = value;
  request.value_bytes = static_cast<uint32_t>(value.size());
  if (request.type == kv::RequestType::kPutPulled) {
    request.value_bytes = static_cast<uint32_t>(random.Between(1, 100'000));
    request.source = {random.Next() & ~uint64_t{7}, random.Next(), static_cast<uint32_t>(random.Between(0, 200))};
  } else if (request.type != kv::RequestType::kPut) {
    request.value_bytes = 0;
  }
  char head[kv::kMaxRequestHeadBytes];
  return absl::StrCat(absl::string_view(head, request.EncodeHead(head)), request.value);
}

void Hostile::SendNext() {
  --words_left_;
  rdma::sim::Random& random = world_->random;
  const auto count = random.OneIn(10) ? random.Between(2, 400) : random.Between(1, 4);  // also beyond any window
  for (int64_t i = 0; i < count; ++i) {
    std::string message = Request();
    if (random.OneIn(40)) numbers_ += random.Below(1'000);
    if (random.OneIn(40) && numbers_ > 2) numbers_ -= 2;
    if (random.OneIn(60)) message[random.Below(message.size())] = static_cast<char>(random.Next());
    if (random.OneIn(80)) message.resize(1 + random.Below(message.size()));
    if (random.OneIn(80)) {
      for (char& c : message) c = static_cast<char>(random.Next());
    }
    if (!connection_->PostSend(message, {})) break;
  }
  connection_->Ring();
}

// READs any memory; its keys are easily guessed.
void Hostile::ReachOut() {
  rdma::sim::Random& random = world_->random;
  const auto rkey = static_cast<uint32_t>(random.Between(95, 120));
  const uint64_t address = (uint64_t{rkey} << 32) + (random.OneIn(4) ? random.Next() : 8 * random.Below(100'000));
  const rdma::Sge to = {reinterpret_cast<char*>(memory_.data()), static_cast<uint32_t>(8 * random.Between(1, 64))};
  connection_->PostRead(1, {&to, 1}, address, rkey);
  connection_->Ring();
}

}  // namespace farlook::sim
