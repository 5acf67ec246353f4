#include "rdma/conformance/fixture.h"

#include <poll.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

namespace farlook::rdma::conformance {
namespace {

std::unique_ptr<SharedMemory> NewMemory(uint64_t bytes, Access access) {
  SharedMemoryOptions options;
  options.bytes = bytes;
  options.huge_pages = HugePages::kNone;
  options.access = access;
  absl::StatusOr<SharedMemory> memory = SharedMemory::Create(options);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? std::make_unique<SharedMemory>(*std::move(memory)) : nullptr;
}

}  // namespace

size_t Queue::Pump(size_t most) {
  Completion completions[64];
  const size_t count = endpoint_->Poll(absl::MakeSpan(completions, most));
  for (size_t i = 0; i < count; ++i) {
    const Completion& c = completions[i];
    events_.push_back({c.wr_id, c.connection, c.opcode, c.status, std::string(c.message.data(), c.message.size())});
    if (c.opcode == Opcode::kReceive) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(c.message.data()) % 8, 0u);
    }
  }
  return count;
}

uint64_t Seed() {
  const int seed = testing::UnitTest::GetInstance()->random_seed();
  return seed != 0 ? static_cast<uint64_t>(seed) : 20260101;
}

uint64_t PatternWord(uint64_t offset) {
  uint64_t word = offset + 0x9e3779b97f4a7c15;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

std::string Pattern(uint64_t offset, size_t bytes) {
  std::string text;
  for (uint64_t word_offset = offset & ~uint64_t{7}; text.size() < bytes + 8; word_offset += 8) {
    const uint64_t word = PatternWord(word_offset);
    text.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  return text.substr(offset % 8, bytes);
}

void ConformanceTest::SetUp() {
  RecordProperty("seed", std::to_string(Seed()));
  address_ = GetParam().unused_address();
}

void ConformanceTest::TearDown() { StopServer(); }

void ConformanceTest::StartServer() {
  absl::StatusOr<std::unique_ptr<Listener>> listener = GetParam().listen(address_, options_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  listener_ = *std::move(listener);
  EXPECT_EQ(listener_->address(), address_);
  table_memory_ = NewMemory(kTableBytes, Access::kRemoteRead);
  hidden_memory_ = NewMemory(4096, Access::kRemoteRead);
  counter_memory_ = NewMemory(kCounterBytes, Access::kRemoteReadAtomic);
  ASSERT_TRUE(table_memory_ && hidden_memory_ && counter_memory_);
  const std::string pattern = Pattern(0, kTableBytes);
  memcpy(table_memory_->data(), pattern.data(), pattern.size());

  absl::StatusOr<RemoteRange> range = listener_->Offer(table_memory_->range(), Access::kRemoteRead);
  ASSERT_TRUE(range.ok()) << range.status();
  table_ = *range;
  EXPECT_EQ(table_.bytes, kTableBytes);
  range = listener_->Offer(hidden_memory_->range(), Access::kRemoteRead);
  ASSERT_TRUE(range.ok()) << range.status();
  hidden_ = *range;
  range = listener_->Offer(counter_memory_->range(), Access::kRemoteReadAtomic);
  ASSERT_TRUE(range.ok()) << range.status();
  counters_ = *range;

  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = listener_->CreateEndpoint();
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  server_ = std::make_unique<Queue>(*std::move(endpoint));
}

void ConformanceTest::StopServer() {
  server_.reset();
  listener_.reset();
}

std::unique_ptr<Buffer> ConformanceTest::NewBuffer(Queue* queue, size_t bytes, bool readable) {
  absl::StatusOr<std::unique_ptr<Buffer>> buffer = (*queue)->Allocate(bytes, readable);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return nullptr;
  EXPECT_GE((*buffer)->bytes().size(), bytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->bytes().data()) % 4096, 0u);
  EXPECT_EQ((*buffer)->remote().rkey != 0, readable);
  return *std::move(buffer);
}

std::unique_ptr<Queue> ConformanceTest::NewClient() {
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = GetParam().create_endpoint(address_, options_);
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return std::make_unique<Queue>(*std::move(endpoint));
}

std::unique_ptr<ConnectionRequest> ConformanceTest::NextRequest(Queue* client) {
  std::unique_ptr<ConnectionRequest> request;
  const int64_t end_ns = GetParam().clock->NowNs() + kBoundMs * 1'000'000;
  while ((request = listener_->Next()) == nullptr && GetParam().clock->NowNs() < end_ns) {
    client->Pump();
    if (GetParam().idle) {
      GetParam().idle();
      continue;
    }
    pollfd waiting = {listener_->fd(), POLLIN, 0};
    poll(&waiting, 1, 1);
  }
  EXPECT_NE(request, nullptr) << "no client came";
  return request;
}

ConformanceTest::Pair ConformanceTest::Connect(Queue* client, absl::string_view hello, absl::string_view welcome) {
  Pair pair;
  if (GetParam().reads_need_polls) answering_ = client;
  absl::StatusOr<std::unique_ptr<Connection>> connection = (*client)->Connect(address_, hello, kConnectTimeoutMs);
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return pair;
  pair.client = *std::move(connection);
  std::unique_ptr<ConnectionRequest> request = NextRequest(client);
  if (request == nullptr) return pair;
  EXPECT_EQ(request->hello().substr(0, hello.size()), hello);
  const uint32_t rkeys[] = {table_.rkey, counters_.rkey};
  connection = request->Accept(server_->get(), welcome, rkeys);
  EXPECT_TRUE(connection.ok()) << connection.status();
  if (!connection.ok()) return pair;
  pair.server = *std::move(connection);
  EXPECT_EQ(Await(client, Opcode::kConnected).connection, pair.client.get());
  EXPECT_TRUE(pair.client->status().ok()) << pair.client->status();
  EXPECT_TRUE(pair.client->alive());
  EXPECT_TRUE(pair.server->alive());
  EXPECT_EQ(pair.client->welcome().substr(0, welcome.size()), welcome);
  return pair;
}

ConformanceTest::Reader ConformanceTest::NewReader() {
  StartServer();
  Reader reader;
  reader.client = NewClient();
  reader.pair = Connect(reader.client.get());
  reader.buffer = NewBuffer(reader.client.get(), 4096);
  reader.to = reader.buffer->bytes().data();
  EXPECT_EQ(Read(reader.client.get(), reader.pair.client.get(), reader.to, 64, table_.address, table_.rkey),
            WcStatus::kSuccess);
  return reader;
}

bool ConformanceTest::PumpUntil(Queue* client, const std::function<bool()>& done) {
  const int64_t end_ns = GetParam().clock->NowNs() + kBoundMs * 1'000'000;
  while (!done()) {
    size_t count = client != nullptr ? client->Pump() : 0;
    if (server_ != nullptr) count += server_->Pump();
    if (count == 0) GetParam().idle ? GetParam().idle() : std::this_thread::yield();
    if (GetParam().clock->NowNs() > end_ns) {
      ADD_FAILURE() << "not within " << kBoundMs << " ms";
      return false;
    }
  }
  return true;
}

Event ConformanceTest::Await(Queue* from, Opcode opcode, Queue* also_pumped) {
  const auto matches = [opcode](const Event& event) { return event.opcode == opcode; };
  std::deque<Event>& events = from->events();
  PumpUntil(from == server_.get() ? also_pumped : from,
            [&] { return std::any_of(events.begin(), events.end(), matches); });
  const auto found = std::find_if(events.begin(), events.end(), matches);
  if (found == events.end()) {
    ADD_FAILURE() << "no event with opcode " << static_cast<int>(opcode);
    return Event{0, nullptr, opcode, WcStatus::kLocalError, ""};
  }
  const Event event = *found;
  events.erase(found);
  return event;
}

WcStatus ConformanceTest::Read(Queue* queue, Connection* connection, char* to, uint32_t bytes, uint64_t address,
                               uint32_t rkey) {
  static uint64_t next_wr_id = 1;
  const uint64_t wr_id = next_wr_id++;
  const Sge piece = {to, bytes};
  EXPECT_TRUE(connection->PostRead(wr_id, absl::MakeConstSpan(&piece, 1), address, rkey));
  connection->Ring();
  const Event event = Await(queue, Opcode::kRead, answering_);
  EXPECT_EQ(event.wr_id, wr_id);
  EXPECT_EQ(event.connection, connection);
  return event.status;
}

void ConformanceTest::ExpectEnd(Queue* queue, Connection* connection, size_t unfinished_requests) {
  Await(queue, Opcode::kDisconnected);
  size_t requests = 0;
  for (const Event& event : queue->events()) {
    EXPECT_EQ(event.connection, connection);
    EXPECT_NE(event.opcode, Opcode::kDisconnected) << "reported twice";
    if (event.opcode == Opcode::kRead) ++requests;
  }
  EXPECT_EQ(requests, unfinished_requests);
  EXPECT_FALSE(connection->status().ok());
  EXPECT_FALSE(connection->alive());
  const size_t before = queue->events().size();
  for (int i = 0; i < 1000; ++i) queue->Pump();
  EXPECT_EQ(queue->events().size(), before) << "kDisconnected was not the last completion";
}

}  // namespace farlook::rdma::conformance
