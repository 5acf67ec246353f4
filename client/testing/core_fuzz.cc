// Fuzzes everything that a hostile server can do to a client. This includes the memory that the client READs, replies
// and notices, silence, breaks of the connection, and other servers at the address.
//
// The input is a program: the first byte chooses the transport's properties, then come steps, an operation byte and
// operands each. Besides the sanitizers' checks, every operation must end by its deadline, once. A good server that
// then answers at the address must be used without errors.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/core/core.h"
#include "client/core/slot_owners.h"
#include "client/testing/fake_network.h"
#include "client/testing/mini_server.h"
#include "kv/layout/hash.h"
#include "kv/layout/limits.h"
#include "kv/wire/cell_notice.h"
#include "kv/wire/message.h"
#include "tools/fuzz/input.h"

namespace farlook::client {
namespace {

using fuzz::Input;

constexpr int kMaxSteps = 200;
constexpr size_t kMaxOperations = 100;
constexpr int64_t kTimeoutMs = 1000;
constexpr uint64_t kHashSeed = 99;  // of MiniServer

void Require(bool condition) {
  if (!condition) std::abort();
}

// An operation and the memory that it refers to.
struct Started {
  std::string key, value, result;
  char buffer[300];
  Operation operation;
  int returned = 0;
};

class Hostile {
 public:
  explicit Hostile(Input* input) : input_(input), server_(std::make_unique<MiniServer>(1)) {
    const uint8_t how = input_->Byte();
    network_.server = server_.get();
    server_->offer_cells = true;
    if ((how & 16) != 0) server_->gets = server_->puts = 16;
    network_.capabilities.atomics = true;
    network_.capabilities.local = (how & 1) != 0;  // READs complete at once
    network_.capabilities.any_local_memory = (how & 2) != 0;
    if ((how & 4) != 0) network_.capabilities.max_read_bytes = 4096;
    ClientOptions options;
    options.timeout_ms = kTimeoutMs;
    options.max_in_flight = 8;
    options.mirror_bytes = (how & 8) != 0 ? 4096 : 0;
    options.share_mirror = false;
    options.counter_cache_bytes = 4096;
    core_ = std::make_unique<ClientCore>(network_.CreateEndpoint(), "fake://", options, clock_, /*random_seed=*/1);
    server_->slots.fill(~uint64_t{0});
    // Operations that are answered `moved` wait until their deadlines, since the test does not take them.
    if ((how & 32) != 0) core_->SetGroup("group", kHashSeed, &owners_, 0);
    core_->Connect();
    Poll();
    for (char key = 'a'; key < 'h'; ++key) server_->Put(std::string(1, key), std::string(40 * (key - 'a'), key));
  }

  void Run() {
    for (int i = 0; i < kMaxSteps && !input_->empty(); ++i) {
      Step();
      Poll();
    }
    for (int i = 0; i < 3; ++i) {
      clock_.AdvanceMs(kTimeoutMs);
      Poll();
    }
    for (const Started& started : started_) Require(started.returned == 1);
    Require(core_->in_flight() == 0);
    MeetAGoodServer();
  }

 private:
  void Poll() {
    Operation* done[16];
    for (int i = 0; i < 20; ++i) {
      const size_t count = core_->Poll(absl::MakeSpan(done));
      for (size_t j = 0; j < count; ++j) ++static_cast<Started*>(done[j]->owner)->returned;
    }
  }

  Operation* Start(Kind kind, absl::string_view key, size_t value_bytes, Condition condition = Condition::Always()) {
    started_.emplace_back();
    Started& started = started_.back();
    started.key = std::string(key);
    started.value = std::string(value_bytes, 'v');
    Operation& operation = started.operation;
    operation.kind = kind;
    operation.condition = condition;
    operation.key = started.key;
    operation.hash = hasher_(started.key);
    operation.value = started.value;
    operation.owner = &started;
    if (value_bytes % 2 == 0) {
      operation.to.string = &started.result;
    } else {
      operation.to.buffer = absl::MakeSpan(started.buffer);
    }
    core_->Start(&operation);
    return &operation;
  }

  void StartOne() {
    if (started_.size() >= kMaxOperations) return;
    static constexpr std::pair<Kind, Condition> kAsked[] = {
        {Kind::kGet, Condition::Always()},         {Kind::kExists, Condition::Always()},
        {Kind::kPut, Condition::Always()},         {Kind::kPut, Condition::IfAbsent()},
        {Kind::kPut, Condition::IfPresent()},      {Kind::kPut, Condition::IfVersion(0)},
        {Kind::kDelete, Condition::Always()},      {Kind::kPing, Condition::Always()},
        {Kind::kStat, Condition::Always()},        {Kind::kCreateCounter, Condition::Always()},
        {Kind::kFetchAdd, Condition::Always()},    {Kind::kCompareSwap, Condition::Always()},
        {Kind::kReadCounter, Condition::Always()}, {Kind::kDeleteCounter, Condition::Always()}};
    const auto& [kind, condition] = kAsked[input_->Byte() % std::size(kAsked)];
    const char key = static_cast<char>('a' + input_->Byte() % 10);
    const uint8_t length = input_->Byte();
    Start(kind, std::string(1, key), length < 250 ? length : size_t{1000} * (length - 245), condition);
  }

  // Corrupts a word. From now on only READs use the table: the server's own code trusts its memory.
  void Poke() {
    network_.hold_requests = true;
    const absl::Span<char> region = server_->region();
    const uint8_t where = input_->Byte();
    uint64_t offset = input_->Word(3) * 8;
    if (where % 4 == 0) offset %= 4096;                               // the header
    if (where % 4 == 1) offset = last_offset_ + offset % 256;         // near the last
    if (where % 4 == 2) offset = region.size() - 8 - offset % 65536;  // the far end
    offset = offset % region.size() / 8 * 8;
    last_offset_ = offset;
    uint64_t word;
    std::memcpy(&word, region.data() + offset, sizeof word);
    switch (where / 4 % 4) {
      case 0:
        word = input_->Word();
        break;
      case 1:
        word ^= uint64_t{1} << input_->Byte() % 64;
        break;
      case 2:
        word += input_->Byte();
        break;
      case 3:
        word = 0;
        break;
    }
    std::memcpy(region.data() + offset, &word, sizeof word);
  }

  // Flips bits in a non-zero word, which the client probably READs.
  void PokeWhatIsThere() {
    network_.hold_requests = true;
    const absl::Span<char> region = server_->region();
    uint64_t skip = input_->Word(2);
    const uint64_t flip = uint64_t{1} << input_->Byte() % 64;
    // Pages are taken from the low end: no more are in use.
    for (uint64_t offset = 0; offset < 4 * kv::kPageBytes; offset += 8) {
      uint64_t word;
      std::memcpy(&word, region.data() + offset, sizeof word);
      if (word == 0 || skip-- != 0) continue;
      word ^= flip;
      std::memcpy(region.data() + offset, &word, sizeof word);
      last_offset_ = offset;
      return;
    }
  }

  void Answer() {
    kv::Reply reply;
    uint64_t last = 0;
    if (!network_.sent.empty()) {
      auto request = kv::Request::Decode(network_.sent.back());
      if (request.ok()) last = request->number;
    }
    reply.code = static_cast<kv::Code>(input_->Byte() % kv::kCodes);
    reply.number = last - input_->Byte() % 8;
    reply.version = input_->Word(2);
    reply.slot = kv::Slot(input_->Byte() % 2 == 0 ? 0 : input_->Word());
    const std::string payload(input_->Byte(), 'p');
    reply.payload = payload;
    char head[kv::Reply::kHeaderBytes];
    reply.EncodeHead(head);
    network_.Inject(absl::StrCat(absl::string_view(head, sizeof head), payload));
  }

  void Notice() {
    std::vector<uint64_t> hashes;
    const uint64_t sequence = input_->Byte();
    for (int i = input_->Byte() % 4; i >= 0; --i) hashes.push_back(input_->Word());
    network_.Inject(kv::CellNotice::Encode(sequence, hashes));
  }

  void Step() {
    switch (input_->Byte() % 14) {
      case 0:
      case 1:
      case 2:
        return StartOne();
      case 3:
      case 4:
        return Poke();
      case 5:
        return PokeWhatIsThere();
      case 6:
        return Answer();
      case 7:
        return Notice();
      case 8:
        return network_.Inject(input_->Bytes(1 + input_->Byte() % 80));
      case 9:
        return network_.Break();
      case 10:
        return clock_.AdvanceMs(input_->Byte());
      case 11:
        network_.hold_reads = !network_.hold_reads;
        return network_.ReleaseReads(input_->Byte() % 2 != 0);
      case 12:
        network_.server_alive = input_->Byte() % 2 != 0;
        network_.accepting = input_->Byte() % 4 != 0;
        network_.reject = input_->Byte() % 4 == 0 ? absl::PermissionDeniedError("no") : absl::OkStatus();
        return;
      case 13:
        return server_->ForgetSessions();
    }
  }

  void MeetAGoodServer() {
    network_.Break();
    auto good = std::make_unique<MiniServer>(2);
    good->slots.fill(~uint64_t{0});
    network_.server = good.get();
    network_.hold_reads = network_.hold_requests = false;
    network_.server_alive = network_.accepting = true;
    network_.reject = absl::OkStatus();
    bool put = false;
    for (int i = 0; i < 50 && !put; ++i) {
      const Operation* operation = Start(Kind::kPut, "good", 10);
      Wait(*operation);
      put = operation->status.ok();
    }
    Require(put);
    const Operation* get = Start(Kind::kGet, "good", 0);
    Wait(*get);
    Require(get->status.ok() && started_.back().result == std::string(10, 'v'));
    Require(good->violations.empty());
    core_.reset();
  }

  void Wait(const Operation& operation) {
    for (int i = 0; i < 300 && static_cast<Started*>(operation.owner)->returned == 0; ++i) {
      Poll();
      clock_.AdvanceMs(5);
    }
    Require(static_cast<Started*>(operation.owner)->returned == 1);
  }

  Input* const input_;
  rdma::FakeClock clock_{1'000'000'000};
  FakeNetwork network_;
  std::unique_ptr<MiniServer> server_;
  std::deque<Started> started_;
  const kv::Hasher hasher_{kHashSeed};
  SlotOwners owners_{1};
  std::unique_ptr<ClientCore> core_;
  uint64_t last_offset_ = 0;
};

}  // namespace
}  // namespace farlook::client

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farlook::fuzz::Input input(data, size);
  farlook::client::Hostile(&input).Run();
  return 0;
}
