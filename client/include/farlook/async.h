// Operations that do not wait: for Client::Start, Poll and Wait.
//
//     farlook::GetOperation get("key");
//     farlook::PutOperation put("other", std::string("value"), {.condition = farlook::Condition::IfAbsent()});
//     client->Start(&get);
//     client->Start(&put, [](farlook::AsyncOperation* ended) { std::cout << ended->status() << "\n"; });
//     while (client->in_flight() > 0) {
//       farlook::AsyncOperation* done[16];
//       for (size_t i = client->Wait(done); i > 0; --i) Use(done[i - 1]);
//     }
//
// An operation is the caller's memory, and holds its key; it may be started again when it has ended. It is in flight
// from Start() until Poll() or Wait() returns it or its callback begins: until then nothing of it may be changed, and
// it is destroyed only after that, or after its Client.
//
// Order: writes of one client to one key take effect in the order in which they were started, of small and of large
// values alike. To create and to delete a counter is such a write, and so are changes of it that are exactly_once.
// Everything else that is in flight together may take effect in any order: a get that is to see a write is started when
// the write has ended; and an add that is not exactly_once may find the counter deleted, and then be asked of the
// server after what was started later.
#ifndef FARLOOK_ASYNC_H_
#define FARLOOK_ASYNC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "farlook/options.h"

namespace farlook {

namespace client {
struct Operation;
}  // namespace client

// The base of all operations. Thread safety: belongs to its client's thread while in flight.
class AsyncOperation {
 public:
  virtual ~AsyncOperation();
  AsyncOperation(const AsyncOperation&) = delete;
  AsyncOperation& operator=(const AsyncOperation&) = delete;

  const std::string& key() const { return key_; }
  // Copies it. REQUIRES not in flight, as everything that changes an operation does.
  void set_key(std::string_view key);
  // The caller's own pointer, which the client does not look at.
  void set_tag(void* tag) { tag_ = tag; }
  void* tag() const { return tag_; }

  // How it ended. See the errors in client.h.
  const absl::Status& status() const;
  // Of the item now there, where known: what was read or written, or what a condition did not fit. Else 0.
  uint64_t version() const;

 protected:
  AsyncOperation();
  client::Operation& record() { return *reinterpret_cast<client::Operation*>(record_); }
  const client::Operation& record() const { return *reinterpret_cast<const client::Operation*>(record_); }

 private:
  friend class ClientImpl;
  static constexpr size_t kRecordBytes = 256;

  std::string key_;
  void* tag_ = nullptr;
  AsyncOperation* next_ = nullptr;  // of those that have ended and were not returned
  std::function<void(AsyncOperation*)> then_;
  alignas(8) std::byte record_[kRecordBytes];  // the engines': client/operation.h
};

// Reads a value: into value(), or where Into() says.
class GetOperation final : public AsyncOperation {
 public:
  explicit GetOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
  // The value goes to the caller's memory: a string, which is resized, or a buffer, OUT_OF_RANGE if it is too short.
  void Into(std::string* string);
  void Into(std::span<char> buffer);

  // Unless OK, its bytes mean nothing.
  std::string& value() { return value_; }
  const std::string& value() const { return value_; }
  // The value's length, also where the buffer was too short.
  size_t value_bytes() const;

 private:
  std::string value_;
};

// Asks whether the key is there: status() is OK or NOT_FOUND.
class ExistsOperation final : public AsyncOperation {
 public:
  explicit ExistsOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
};

// A value that the operation refers to and does not hold: it stays unchanged while the operation is in flight.
struct Borrowed {
  std::string_view bytes;
};

class PutOperation final : public AsyncOperation {
 public:
  explicit PutOperation(std::string_view key = {}, const PutOptions& options = {});
  PutOperation(std::string_view key, std::string value, const PutOptions& options = {});
  PutOperation(std::string_view key, Borrowed value, const PutOptions& options = {});
  void set_value(std::string value);  // its own from now on
  void set_value(Borrowed value);
  void set_options(const PutOptions& options);

 private:
  std::string value_;
};

// Makes the key's item expire `ttl_ms` after the touch, whenever it would have expired before. Its version stays.
class TouchOperation final : public AsyncOperation {
 public:
  explicit TouchOperation(std::string_view key = {}, int64_t ttl_ms = 0, const TouchOptions& options = {});
  void set_ttl_ms(int64_t ttl_ms);
  void set_options(const TouchOptions& options);
};

// Makes the key's item live until it is deleted. Its version stays.
class PersistOperation final : public AsyncOperation {
 public:
  explicit PersistOperation(std::string_view key = {}, const TouchOptions& options = {});
  void set_options(const TouchOptions& options);
};

// Asks how long the key's item will still live.
class TtlOperation final : public AsyncOperation {
 public:
  explicit TtlOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
  // Milliseconds, from 1 on; kForever.
  int64_t left_ms() const;
};

// Reads a value into value(), and touches its item.
class GetAndTouchOperation final : public AsyncOperation {
 public:
  explicit GetAndTouchOperation(std::string_view key = {}, int64_t ttl_ms = 0, const TouchOptions& options = {});
  void set_ttl_ms(int64_t ttl_ms);
  void set_options(const TouchOptions& options);

  // Unless OK, its bytes mean nothing.
  std::string& value() { return value_; }
  const std::string& value() const { return value_; }

 private:
  std::string value_;
};

class DeleteOperation final : public AsyncOperation {
 public:
  explicit DeleteOperation(std::string_view key = {}, const DeleteOptions& options = {});
  void set_options(const DeleteOptions& options);
};

// Asks the server's CPU for an answer.
class PingOperation final : public AsyncOperation {
 public:
  explicit PingOperation(const ServerOptions& options = {});
};

}  // namespace farlook

#include "farlook/async_counters.h"

#endif  // FARLOOK_ASYNC_H_
