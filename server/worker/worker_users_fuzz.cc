// Fuzzes a worker that has users: hellos, proofs and messages of unauthenticated clients in any order, while users are
// added and removed.
//
// The input is a program for three clients, as in worker_fuzz.cc. Besides the sanitizers' checks:
//   * only with the secret of an existing user a client is welcome, learns where the table is, or may READ it;
//   * only the user of a session resumes it;
//   * a client without the write permission changes nothing, and one without the role admin sees no connections;
//   * the number of unauthenticated clients stays within its limit;
//   * a client with a good proof is still admitted in the end.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "kv/wire/handshake.h"
#include "kv/wire/message.h"
#include "kv/wire/proof.h"
#include "server/base/log.h"
#include "server/session/session.h"
#include "server/session/users.h"
#include "server/testing/test_worker.h"
#include "tools/fuzz/input.h"

namespace {

namespace kv = farlook::kv;
using farlook::fuzz::Input;
using farlook::server::Encode;
using farlook::server::FakeCall;
using farlook::server::MakePut;
using farlook::server::MakeRequest;
using farlook::server::TestWorker;
using farlook::server::User;
using farlook::server::UserList;
using farlook::server::Users;

constexpr size_t kClients = 3;
constexpr int kMaxSteps = 150;
constexpr int64_t kMaxClients = 8;

void Require(bool condition) {
  if (!condition) std::abort();
}

// All possible users. Each has a different secret in each of two generations.
constexpr const char* kNames[] = {"app", "report", "ops"};

std::string SecretOf(size_t user, bool later) {
  return std::string(32, static_cast<char>((later ? 'A' : 'a') + static_cast<int>(user)));
}

// Returns users by the bits of `which`: which ones exist, and which have the later secret.
std::shared_ptr<const UserList> Some(uint8_t which) {
  std::vector<User> users;
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if ((which >> i & 1) == 0) continue;
    User user;
    user.name = kNames[i];
    user.secret = SecretOf(i, (which >> (4 + i) & 1) != 0);
    user.may_write = i == 0;
    user.admin = i == 2;
    users.push_back(user);
  }
  return std::make_shared<const UserList>(std::move(users));
}

class Program {
 public:
  explicit Program(Input input) : input_(input) {}

  void Run() {
    for (int i = 0; i < kMaxSteps && !input_.empty(); ++i) {
      Step();
      t_.PollAll();
      Check();
    }
    // A good client, after the clients in places have had their time.
    users_.Replace(Some(7));
    t_.PollAll();
    while (t_.quota.taken() > 0) t_.quota.Give();  // it is admitted whatever the others hold
    t_.clock.now_ns += 700'000'000'000;
    t_.PollAll();
    FakeCall* const good = Call(0, {});
    Prove(good, SecretOf(0, false), 0);
    t_.PollAll();
    Check();
    const auto put = t_.Ask(good, MakePut(1, "good", "value"));
    Require(put && put->code == kv::Code::kOk);
    t_.worker().BeginDrain(1);
    t_.PollAll();
    Require(t_.worker().drained() && t_.worker().unproven() == 0);
    for (const FakeCall& call : t_.calls()) Require(!call.peer.destroyed_early);
  }

 private:
  FakeCall* Call(size_t user, kv::Hello hello) {
    hello.user = user < std::size(kNames) ? kNames[user] : std::string(user % 3, 'x');
    hello.nonce.fill(static_cast<unsigned char>(++nonce_));
    FakeCall* const call = t_.Call(hello);
    t_.PollAll();
    return call;
  }

  // Sends a proof with this secret, and notes whether it is good. `change` may make it a bad one.
  void Prove(FakeCall* call, const std::string& secret, uint8_t change) {
    if (!kv::IsFirstMessage(call->peer.first, kv::FirstMessage::kChallenge)) return;
    const kv::Transcript transcript = {call->first, call->peer.first, farlook::server::kTestIncarnation,
                                       call->peer.server_address};
    kv::Proof proof;
    proof.mac = change % 4 == 1 ? kv::ServerProof(secret, transcript) : kv::ClientProof(secret, transcript);
    if (change % 4 == 2) proof.mac[change / 4 % proof.mac.size()] ^= 1;
    const auto hello = kv::Hello::Decode(call->first);
    const User* const user = hello.ok() ? users_.now()->Named(hello->user) : nullptr;
    if (change % 4 != 1 && change % 4 != 2 && user != nullptr && user->secret == secret) proven_[call] = *user;
    call->peer.Send(proof.Encode());
  }

  // Returns a Hello that may resume the client's session, or another's.
  kv::Hello Greeting() {
    const uint8_t how = input_.Byte();
    kv::Hello hello;
    if ((how & 1) != 0 && !sessions_.empty()) {
      auto session = sessions_.begin();
      std::advance(session, how / 8 % sessions_.size());
      hello.session = session->first;
      hello.epoch = session->second.epoch + how / 64;
      hello.incarnation = farlook::server::kTestIncarnation;
    }
    if ((how & 2) != 0) hello.flags = kv::Hello::kReadOnly;
    return hello;
  }

  void Step() {
    const uint8_t op = input_.Byte();
    FakeCall*& client = clients_[input_.Byte() % kClients];
    if (client == nullptr || client->peer.disconnected || !client->accepted || op % 10 == 0) {
      const uint8_t user = input_.Byte();
      client = Call(user % 5, Greeting());
      return;
    }
    switch (op % 10) {
      case 1:  // only unauthenticated clients: all other requests must be known below
        if (proven_.find(client) == proven_.end()) client->peer.Send(input_.Bytes(1 + input_.Byte() % 120));
        return;
      case 2:
      case 3: {
        const uint8_t who = input_.Byte();
        return Prove(client, SecretOf(who % std::size(kNames), (who & 64) != 0), input_.Byte());
      }
      case 4:
        return client->peer.Send(Encode(MakePut(1 + input_.Byte() % 8, "key", "written")));
      case 5:
        return client->peer.Send(Encode(MakeRequest(kv::RequestType::kAdmin, 9 + input_.Byte() % 8, "clients@0")));
      case 6:
        return client->peer.Send(Encode(MakeRequest(kv::RequestType::kGet, 20 + input_.Byte() % 8, "key")));
      case 7:
        return users_.Replace(Some(input_.Byte()));
      case 8:
        t_.clock.now_ns += int64_t{input_.Byte()} << 22;
        return;
      default:
        return client->peer.Break();
    }
  }

  void Check() {
    Require(t_.worker().unproven() <= t_.shared().max_unproven());
    for (FakeCall& call : t_.calls()) {
      if (!call.accepted) continue;
      Require(call.withheld && TestWorker::AcceptOf(&call).table.rkey == 0 && !TestWorker::Welcome(&call));
      const auto proven = proven_.find(&call);
      if (proven == proven_.end()) Require(call.peer.granted.empty());
      for (; !call.peer.sent.empty(); call.peer.sent.pop_front()) OnMessage(call.peer.sent.front(), proven);
    }
    const bool written = t_.ReadKey("key").has_value();
    Require(!written || writers_ > 0);
  }

  struct Known {
    std::string user;
    uint64_t epoch;
  };
  using Proven = std::map<const FakeCall*, User>;

  void OnMessage(const std::string& message, Proven::const_iterator proven) {
    if (kv::IsFirstMessage(message, kv::FirstMessage::kRefusal)) return;
    // All other messages go only to authenticated clients.
    Require(proven != proven_.end());
    const User& user = proven->second;
    if (kv::IsFirstMessage(message, kv::FirstMessage::kWelcome)) {
      const auto welcome = kv::Welcome::Decode(message);
      Require(welcome.ok());
      if (user.may_write) ++writers_;
      Require(user.may_write || (welcome->flags & kv::Welcome::kReadOnly) != 0);
      Require(user.may_write || proven->first->peer.granted == "reads");
      const auto known = sessions_.emplace(welcome->session, Known{user.name, 0}).first;
      Require(known->second.user == user.name);
      known->second.epoch = welcome->epoch;
      return;
    }
    const auto reply = kv::Reply::Decode(message);
    Require(reply.ok());
    if (reply->number >= 9 && reply->number < 17 && !user.admin) Require(reply->code != kv::Code::kOk);
    if (reply->number <= 8 && !user.may_write) Require(reply->code != kv::Code::kOk);
  }

  Input input_;
  Users users_{Some(7)};
  TestWorker t_{16 << 20, /*max_kept=*/2, kMaxClients, /*number=*/3, &users_};
  FakeCall* clients_[kClients] = {};
  int nonce_ = 0;
  int writers_ = 0;
  Proven proven_;                       // clients that sent a good proof
  std::map<uint64_t, Known> sessions_;  // their owners
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  farlook::server::SetLogLevel(farlook::server::LogLevel::kNone);
  Program(Input(data, size)).Run();
  return 0;
}
