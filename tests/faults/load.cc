#include "tests/faults/load.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "rdma/clock.h"
#include "tests/faults/values.h"

namespace farlook {
namespace {

constexpr size_t kInFlight = 16;
constexpr int kFewKeys = 50;    // below, most writes are of new ones
constexpr int kManyKeys = 500;  // above, none is

int64_t NowNs() { return rdma::Clock::Real().NowNs(); }

}  // namespace

Load::Load(Client* client, std::string name, int64_t timeout_ms)
    : client_(client),
      name_(std::move(name)),
      timeout_ms_(timeout_ms),
      incarnation_(client->incarnation()),
      slots_(kInFlight) {}

std::string Load::Name(int key) const { return absl::StrCat(name_, ":", key); }

void Load::Run(absl::FunctionRef<bool()> more) {
  std::vector<Slot*> idle;
  for (Slot& slot : slots_) idle.push_back(&slot);
  while (true) {
    const bool going_on = more();
    for (; going_on && !idle.empty(); idle.pop_back()) Start(idle.back());
    if (idle.size() == slots_.size()) return;
    AsyncOperation* done[kInFlight];
    const size_t count = client_->Poll(done);
    if (client_->incarnation() != incarnation_) ForgetOldIncarnation();
    for (size_t i = 0; i < count; ++i) {
      auto* const slot = static_cast<Slot*>(done[i]->tag());
      End(slot);
      idle.push_back(slot);
    }
    if (count > 0) usleep(2000);  // the server, and the disturbing process, need a processor too
    if (count == 0 && client_->Arm()) {
      pollfd fd = {client_->fd(), POLLIN, 0};
      const int64_t wait_ms = client_->wait_ms();
      poll(&fd, 1, static_cast<int>(wait_ms < 0 ? 10 : std::min<int64_t>(wait_ms, 10)));
    }
  }
}

void Load::Start(Slot* slot) {
  int key = static_cast<int>(random_() % (keys_.size() + 1));
  const bool fresh = keys_.size() < kFewKeys || (random_() % 2 == 0 && keys_.size() < kManyKeys);
  for (int tries = 0; tries < 100 && !fresh && key < static_cast<int>(keys_.size()); ++tries) {
    if (!keys_[static_cast<size_t>(key)].busy && !keys_[static_cast<size_t>(key)].doubtful) break;
    key = static_cast<int>(random_() % (keys_.size() + 1));
  }
  const bool taken = key < static_cast<int>(keys_.size()) &&
                     (keys_[static_cast<size_t>(key)].busy || keys_[static_cast<size_t>(key)].doubtful);
  if (fresh || taken) key = static_cast<int>(keys_.size());
  if (key == static_cast<int>(keys_.size())) keys_.emplace_back();

  Key& chosen = keys_[static_cast<size_t>(key)];
  chosen.busy = true;
  chosen.attempt = ++sequence_;
  slot->key = key;
  slot->name = Name(key);
  slot->get = nullptr;
  slot->deletes = false;
  const auto put = [&](Condition condition) {
    return std::make_unique<PutOperation>(slot->name, SelfVerifying(slot->name, static_cast<uint64_t>(sequence_)),
                                          PutOptions{.condition = condition, .timeout_ms = timeout_ms_});
  };
  const unsigned what = random_() % 4;
  if (chosen.state.sequence == kAbsent) {
    slot->operation = put(what < 2 ? Condition::IfAbsent() : Condition::Always());
  } else if (what == 0) {
    slot->operation = put(Condition::Always());
  } else if (what == 1) {
    slot->operation = std::make_unique<DeleteOperation>(slot->name, DeleteOptions{.timeout_ms = timeout_ms_});
    slot->deletes = true;
    chosen.attempt = kAbsent;
  } else {
    auto get = std::make_unique<GetOperation>(slot->name, GetOptions{.timeout_ms = timeout_ms_});
    slot->get = get.get();
    slot->operation = std::move(get);
  }
  slot->operation->set_tag(slot);
  slot->begun_ns = NowNs();
  client_->Start(slot->operation.get());
}

void Load::End(Slot* slot) {
  longest_ns_ = std::max(longest_ns_, NowNs() - slot->begun_ns);
  ++ended_[slot->operation->status().code()];
  if (absl::IsUnavailable(slot->operation->status()))
    usleep(1000);  // at once: a loop without a pause would learn nothing
  Key& key = keys_[static_cast<size_t>(slot->key)];
  key.busy = false;
  slot->get == nullptr ? OnWrite(*slot, &key) : OnGet(*slot, key);
}

void Load::OnGet(const Slot& slot, const Key& key) {
  const GetOperation& get = *slot.get;
  switch (get.status().code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return;
    case absl::StatusCode::kNotFound:
      EXPECT_EQ(key.state.sequence, kAbsent) << get.status();
      return;
    default:
      ASSERT_TRUE(get.status().ok()) << get.status();
      EXPECT_EQ(Verify(slot.name, get.value()), key.state.sequence) << slot.name;
      EXPECT_EQ(get.version(), key.state.version) << slot.name;
  }
}

void Load::OnWrite(const Slot& slot, Key* key) {
  const AsyncOperation& write = *slot.operation;
  switch (write.status().code()) {
    case absl::StatusCode::kUnavailable:
      return;  // it was not done
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
      key->doubtful = true;
      return;
    case absl::StatusCode::kNotFound:
      EXPECT_TRUE(slot.deletes) << write.status();
      EXPECT_EQ(key->state.sequence, kAbsent) << slot.name << " was there";
      return;
    default:
      ASSERT_TRUE(write.status().ok()) << write.status();
      key->state = {key->attempt, write.version()};
  }
}

// Another server: its table began empty. Operations under way are its own, or fail.
void Load::ForgetOldIncarnation() {
  incarnation_ = client_->incarnation();
  for (Key& key : keys_) {
    key.state = State();
    if (key.doubtful) key.attempt = kAbsent;
  }
}

void Load::Check(Client* observer) {
  for (size_t i = 0; i < keys_.size(); ++i) {
    const Key& key = keys_[i];
    const std::string name = Name(static_cast<int>(i));
    auto found = observer->Get(name, {.timeout_ms = 60'000});
    ASSERT_TRUE(found.ok() || absl::IsNotFound(found.status())) << found.status();
    const int64_t sequence = found.ok() ? Verify(name, found->data) : kAbsent;
    EXPECT_TRUE(!found.ok() || sequence >= 0) << name << " holds what was never written to it";
    if (key.doubtful && sequence == key.attempt) continue;
    EXPECT_EQ(sequence, key.state.sequence) << name << (key.doubtful ? ", after a doubtful write" : "");
    EXPECT_EQ(found.ok() ? found->version : 0, key.state.sequence == kAbsent ? 0 : key.state.version)
        << name << " was written again";
  }
}

uint64_t Load::ended(absl::StatusCode code) const {
  const auto found = ended_.find(code);
  return found == ended_.end() ? 0 : found->second;
}

uint64_t Load::ended() const {
  uint64_t sum = 0;
  for (const auto& [code, count] : ended_) sum += count;
  return sum;
}

}  // namespace farlook
