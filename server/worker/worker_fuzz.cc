// Fuzzes all that a hostile client can do to a worker: its hellos and messages, when and how its READs complete, and
// when it disconnects, resumes, or takes no replies.
//
// The input is a program for three clients. Each step is an operation byte, a client byte, and operands; missing bytes
// are zero. Besides the sanitizers' checks, a worker must not loop forever (PollAll aborts), and must not send messages
// that its own decoder refuses (those of replies and notices). It must close every connection in order, and must still
// serve a good client in the end.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "kv/wire/cell_notice.h"
#include "kv/wire/gets.h"
#include "kv/wire/message.h"
#include "kv/wire/puts.h"
#include "server/base/log.h"
#include "server/testing/test_worker.h"
#include "tools/fuzz/input.h"

namespace {

namespace kv = farlook::kv;
using farlook::fuzz::Input;
using farlook::rdma::WcStatus;
using farlook::server::Encode;
using farlook::server::FakeCall;
using farlook::server::TestWorker;

constexpr size_t kClients = 3;
constexpr int kMaxSteps = 200;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Returns a small number, or one at an end of a counter's range.
int64_t Operand(uint8_t byte) {
  if (byte < 200) return int64_t{byte} - 100;
  return (int64_t{1} << (byte % 64)) - byte % 3;
}

// Returns several gets or puts as one message.
std::string NearlyGoodSeveral(Input& input) {
  kv::Request request;
  request.type = input.Byte() % 4 == 0 ? kv::RequestType::kGets : kv::RequestType::kPuts;
  request.number = input.Byte();
  kv::GetsWriter gets;
  kv::PutsWriter puts(/*option_bytes=*/0);
  for (int left = input.Byte() % 18; left > 0; --left) {
    const std::string key(1, static_cast<char>('a' + input.Byte() % 8));
    gets.Add(key);
    puts.Add(key, std::string(input.Byte(), 'v'));
  }
  if (request.type == kv::RequestType::kPuts) request.condition = static_cast<kv::Condition>(input.Byte() % 4);
  std::string value(request.type == kv::RequestType::kGets ? gets.value() : puts.value());
  if (input.Byte() % 8 == 0) value.resize(value.size() - std::min<size_t>(value.size(), input.Byte()));
  request.value = value;
  return Encode(request);
}

// Returns a request that is close enough to a valid one to reach the table.
std::string NearlyGood(TestWorker& t, Input& input) {
  kv::Request request;
  const uint8_t type = input.Byte();
  if (type >= 224) return NearlyGoodSeveral(input);
  request.type = static_cast<kv::RequestType>(1 + (type < 128 ? type % 6 : 6 + type % 7));
  request.condition = static_cast<kv::Condition>(input.Byte() % 4);
  request.number = input.Byte();
  if (request.condition == kv::Condition::kVersion) request.version = input.Byte();
  if (input.Byte() % 4 == 0) request.deadline_us = uint64_t{input.Byte()} << 14;
  const uint8_t key = input.Byte();
  const std::string name(1 + key / 8, static_cast<char>('a' + key % 8));
  request.key = name;
  const std::string value(size_t{input.Byte()} * 11, 'v');
  if (request.type == kv::RequestType::kPut) request.value = value;
  if (request.type == kv::RequestType::kPutPulled) {
    request = t.MakePulled(request.number, name, value);
    request.source.hash ^= input.Byte() % 4 == 0 ? 1 : 0;
  }
  if (request.type >= kv::RequestType::kPing) {
    request.condition = kv::Condition::kAlways;
    request.version = 0;
  }
  if (kv::HasOperands(request.type)) {
    request.operands.operand = Operand(input.Byte());
    if (request.type == kv::RequestType::kCounterSwap) request.operands.desired = Operand(input.Byte());
  }
  if (!kv::IsNumbered(request.type)) {
    request.number = 0;
    request.key = {};
  }
  return Encode(request);
}

// Returns whether a worker may send this message.
bool IsWhole(absl::string_view message) {
  if (kv::CellNotice::Is(message)) return kv::CellNotice::Decode(message).ok();
  if (!kv::ReplyPack::Is(message)) return kv::Reply::Decode(message).ok();
  kv::PackedReplies pack(message);
  for (absl::string_view reply; pack.Next(&reply);) {
    if (!kv::Reply::Decode(reply).ok()) return false;
  }
  return pack.whole();
}

void EndRead(FakeCall* call, uint8_t how) {
  if (call->peer.reads.empty()) return;
  switch (how % 6) {
    case 0:
      return call->peer.FailRead(WcStatus::kRemoteAccess);
    case 1:
      return call->peer.FailRead(WcStatus::kRetryExceeded);
    default:
      return call->peer.CompleteRead(std::string(call->peer.reads.front().bytes, how % 6 == 2 ? 'x' : 'v'));
  }
}

// Returns a hello that tries to resume the client's own session, or another client's.
kv::Hello Greeting(const FakeCall* call, Input& input) {
  kv::Hello hello;
  if (call != nullptr && TestWorker::Welcome(call)) hello = TestWorker::HelloAfter(call);
  const uint8_t change = input.Byte();
  if (change & 1) hello.epoch += input.Byte();
  if (change & 2) hello.session += input.Byte();
  if (change & 4) hello.flags ^= kv::Hello::kReadOnly;
  if (change & 8) hello.acknowledged = input.Byte();
  if (change & 16) hello.incarnation += input.Byte();
  return hello;
}

void Step(TestWorker& t, FakeCall* (&clients)[kClients], Input& input) {
  const uint8_t op = input.Byte();
  FakeCall*& client = clients[input.Byte() % kClients];
  if (client == nullptr || !client->accepted || client->peer.disconnected) {
    if (op % 16 == 0) {  // sends another message first, or nothing, or its Hello later
      client = t.CallSilently(Greeting(client, input), op % 2);
      t.PollAll();
      if (client->accepted)
        client->peer.Send(op % 32 == 0 ? kv::Hello().Encode() : input.Bytes(1 + input.Byte() % 120));
      return;
    }
    client = t.Call(Greeting(client, input), op % 2);
    return t.PollAll();
  }
  switch (op < 250 ? op % 10 : 10) {
    case 0:
    case 1:
      return client->peer.Send(input.Bytes(1 + input.Byte() % 120));
    case 2:
    case 3:
    case 4:
      return client->peer.Send(NearlyGood(t, input));
    case 5:
      return EndRead(client, input.Byte());
    case 6:
      client->peer.send_room = input.Byte();
      client->peer.read_room = input.Byte();
      return;
    case 7:
      return client->peer.Break();
    case 8:
      client = t.Call(Greeting(clients[input.Byte() % kClients], input), op / 10 % 2);
      return;
    case 9:
      t.clock.now_ns += int64_t{input.Byte()} << 24;
      return t.PollAll();
    case 10: {  // an atomic of a client at any address
      const size_t cell = input.Byte() % (farlook::server::kTestCellBytes / 64) * 64;
      const int64_t operand = Operand(input.Byte());
      std::memcpy(t.cells().data() + cell, &operand, sizeof operand);
      return;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farlook::server::SetLogLevel(farlook::server::LogLevel::kNone);
  TestWorker t(16 << 20, /*max_kept=*/2, /*max_clients=*/8);
  t.max_read_bytes = 64;
  FakeCall* clients[kClients] = {};
  Input input(data, size);
  for (int i = 0; i < kMaxSteps && !input.empty(); ++i) Step(t, clients, input);
  t.PollAll();
  while (t.quota.taken() > 0) t.quota.Give();  // the good one is admitted whatever the others hold,
  t.clock.now_ns += 700'000'000'000;           // and whatever sessions are kept
  FakeCall* good = t.Connect();
  Require(good->accepted && TestWorker::Welcome(good));
  const auto put = t.Ask(good, farlook::server::MakePut(1, "good", "value"));
  Require(put && put->code == kv::Code::kOk);
  Require(t.ReadKey("good") == "value");
  for (FakeCall& call : t.calls()) {
    for (const std::string& message : call.peer.sent) {
      Require(IsWhole(message));
    }
  }
  t.worker().BeginDrain(1);
  t.PollAll();
  Require(t.worker().drained());
  for (const FakeCall& call : t.calls()) Require(!call.peer.destroyed_early);
  return 0;
}
