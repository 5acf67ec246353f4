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
// The caller owns an operation, which holds its key and can be started again after it has ended. It is in flight from
// Start() until Poll() or Wait() returns it or its callback begins. Until then it must not be changed. It may be
// destroyed only afterwards, or after its Client. Starting, changing or destroying an operation in flight ends the
// process with a message.
//
// Order: writes of one client to one key take effect in the order in which they were started, whatever the lengths of
// values. Creating and deleting a counter are such writes, and so are changes with exactly_once. All other operations
// in flight together may take effect in any order. A get that must see a write is started after the write has ended. An
// add without exactly_once may find the counter deleted, and is then sent to the server after later operations.
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
  // Copies the key. REQUIRES not in flight, like all changes to an operation.
  void set_key(std::string_view key);
  // The caller's own pointer; the client does not use it.
  void set_tag(void* tag) { tag_ = tag; }
  void* tag() const { return tag_; }

  // The result. See the errors in client.h.
  const absl::Status& status() const;
  // The version of the item now present, if known: the one that was read or written, or that failed a condition. Else
  // 0.
  uint64_t version() const;

 protected:
  AsyncOperation();
  client::Operation& record() {
    if (client_ != 0) CheckAtRest();
    return raw_record();
  }
  const client::Operation& record() const { return *reinterpret_cast<const client::Operation*>(record_); }

 private:
  friend class ClientImpl;
  // Ends the process if the operation is in flight.
  void CheckAtRest() const;
  client::Operation& raw_record() { return *reinterpret_cast<client::Operation*>(record_); }

  static constexpr size_t kRecordBytes = 256;

  std::string key_;
  void* tag_ = nullptr;
  uint64_t client_ = 0;             // number of the client that it is in flight with; 0: none
  AsyncOperation* next_ = nullptr;  // in the list of ended operations that were not returned
  std::function<void(AsyncOperation*)> then_;
  alignas(8) std::byte record_[kRecordBytes];  // of the engines: client/op/operation.h
};

// Reads a value into value(), or into the destination given by Into().
class GetOperation final : public AsyncOperation {
 public:
  explicit GetOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
  // Sets the destination in the caller's memory: a string, which is resized, or a buffer; OUT_OF_RANGE if it is too
  // short.
  void Into(std::string* string);
  void Into(std::span<char> buffer);

  // The contents are undefined unless the status is OK.
  std::string& value() { return value_; }
  const std::string& value() const { return value_; }
  // The value's length, also if the buffer was too short.
  size_t value_bytes() const;

 private:
  std::string value_;
};

// Looks whether the key is present: status() is OK or NOT_FOUND.
class ExistsOperation final : public AsyncOperation {
 public:
  explicit ExistsOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
};

// A value that the operation refers to and does not copy: it must stay unchanged while the operation is in flight.
struct Borrowed {
  std::string_view bytes;
};

class PutOperation final : public AsyncOperation {
 public:
  explicit PutOperation(std::string_view key = {}, const PutOptions& options = {});
  PutOperation(std::string_view key, std::string value, const PutOptions& options = {});
  PutOperation(std::string_view key, Borrowed value, const PutOptions& options = {});
  void set_value(std::string value);  // the operation owns it
  void set_value(Borrowed value);
  void set_options(const PutOptions& options);

 private:
  std::string value_;
};

// Makes the key's item expire `ttl_ms` after the touch, whatever its expiry was. Its version stays the same.
class TouchOperation final : public AsyncOperation {
 public:
  explicit TouchOperation(std::string_view key = {}, int64_t ttl_ms = 0, const TouchOptions& options = {});
  void set_ttl_ms(int64_t ttl_ms);
  void set_options(const TouchOptions& options);
};

// Makes the key's item live until it is deleted. Its version stays the same.
class PersistOperation final : public AsyncOperation {
 public:
  explicit PersistOperation(std::string_view key = {}, const TouchOptions& options = {});
  void set_options(const TouchOptions& options);
};

// Returns how long the key's item will still live.
class TtlOperation final : public AsyncOperation {
 public:
  explicit TtlOperation(std::string_view key = {}, const GetOptions& options = {});
  void set_options(const GetOptions& options);
  // In milliseconds, at least 1; or kForever.
  int64_t left_ms() const;
  // PutOptions::keep of the item.
  bool keep() const;
};

// Reads a value into value(), and touches its item.
class GetAndTouchOperation final : public AsyncOperation {
 public:
  explicit GetAndTouchOperation(std::string_view key = {}, int64_t ttl_ms = 0, const TouchOptions& options = {});
  void set_ttl_ms(int64_t ttl_ms);
  void set_options(const TouchOptions& options);

  // The contents are undefined unless the status is OK.
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

// Asks the server's CPU for a reply.
class PingOperation final : public AsyncOperation {
 public:
  explicit PingOperation(const ServerOptions& options = {});
};

}  // namespace farlook

#include "farlook/async_counters.h"

#endif  // FARLOOK_ASYNC_H_
