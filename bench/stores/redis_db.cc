// `-db redis`: a redis-server through hiredis.
//
// A record is one string value. A read is GET, a batch is one MGET, operations in flight are commands written before
// the replies of earlier ones are read (pipelining). An insert is SET, an update of all fields SET with XX. An update
// of some fields is a script that patches the value in the server, atomically, in one round trip: a read, and a
// compare-and-set would be two.
//
// Properties (defaults):
//     redis.address     unix:///path or tcp://host:port (tcp://127.0.0.1:6379)
//     redis.timeout_ms  of each operation (10000)
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "bench/stores/db_registry.h"
#include "bench/stores/record.h"
#include "bench/stores/store_address.h"
#include "hiredis/hiredis.h"

namespace farlook::bench {
namespace {

// KEYS[1] is the record's key; ARGV are pairs of a field's number, from 0, and its new bytes. Returns 1; 0 without such
// a record; 2 if it has no such field. A field of the same length, the usual case, is changed in place. The format is
// that of bench/stores/record.h.
constexpr char kPatchScript[] = R"(
local record = redis.call('GET', KEYS[1])
if not record then return 0 end
local at = 1
local function take()
  local value, factor = 0, 1
  while true do
    local byte = string.byte(record, at)
    at = at + 1
    value = value + byte % 128 * factor
    if byte < 128 then return value end
    factor = factor * 128
  end
end
local count = take()
local begins, lengths = {}, {}
for i = 1, count do lengths[i] = take() end
for i = 1, count do begins[i] = at; at = at + lengths[i] end
local changed = {}
local same = true
for a = 1, #ARGV, 2 do
  local field = tonumber(ARGV[a]) + 1
  if field > count then return 2 end
  changed[field] = ARGV[a + 1]
  same = same and #ARGV[a + 1] == lengths[field]
end
if same then
  for field, bytes in pairs(changed) do
    if #bytes > 0 then redis.call('SETRANGE', KEYS[1], begins[field] - 1, bytes) end
  end
  return 1
end
local parts = {}
local function put(value)
  while value >= 128 do
    parts[#parts + 1] = string.char(value % 128 + 128)
    value = math.floor(value / 128)
  end
  parts[#parts + 1] = string.char(value)
end
put(count)
for i = 1, count do put(changed[i] and #changed[i] or lengths[i]) end
for i = 1, count do
  parts[#parts + 1] = changed[i] or string.sub(record, begins[i], begins[i] + lengths[i] - 1)
end
redis.call('SET', KEYS[1], table.concat(parts))
return 1
)";

struct FreeReply {
  void operator()(redisReply* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;

absl::string_view TextOf(const redisReply& reply) { return {reply.str, reply.len}; }

struct RedisOptions : StoreServer {
  std::string patch_sha;  // of the script that the server holds
};

absl::StatusOr<Context> ConnectTo(const RedisOptions& options) {
  timeval timeout;
  timeout.tv_sec = options.timeout_ms / 1000;
  timeout.tv_usec = options.timeout_ms % 1000 * 1000;
  const StoreAddress& address = options.address;
  Context context(address.path.empty() ? redisConnectWithTimeout(address.host.c_str(), address.port, timeout)
                                       : redisConnectUnixWithTimeout(address.path.c_str(), timeout));
  if (context == nullptr) return absl::ResourceExhaustedError("no memory for a connection to redis");
  if (context->err != 0) {
    return absl::UnavailableError(absl::StrCat("cannot connect to redis at ", options.address_text, ": ",
                                               context->errstr, "; start one with redis-server"));
  }
  redisSetTimeout(context.get(), timeout);
  return context;
}

// Arguments of one command, as hiredis requires them. They view the caller's memory.
class Command {
 public:
  Command& Clear() {
    texts_.clear();
    lengths_.clear();
    return *this;
  }
  Command& Add(absl::string_view argument) {
    texts_.push_back(argument.data());
    lengths_.push_back(argument.size());
    return *this;
  }

  // Copies the command into the connection's outgoing buffer.
  bool Append(redisContext* context) {
    return redisAppendCommandArgv(context, static_cast<int>(texts_.size()), texts_.data(), lengths_.data()) == REDIS_OK;
  }

 private:
  std::vector<const char*> texts_;
  std::vector<size_t> lengths_;
};

class RedisDb : public Db {
 public:
  RedisDb(Context context, const RedisOptions& options) : context_(std::move(context)), options_(options) {}

  DbStatus Read(absl::string_view key, ReadResult* result) override {
    held_ = Execute(command_.Clear().Add("GET").Add(key));
    return result->status = Take(held_.get(), result);
  }

  void ReadBatch(absl::Span<const absl::string_view> keys, absl::Span<ReadResult> results) override {
    command_.Clear().Add("MGET");
    for (absl::string_view key : keys) command_.Add(key);
    held_ = Execute(command_);
    const bool whole = held_ != nullptr && held_->type == REDIS_REPLY_ARRAY && held_->elements == keys.size();
    const DbStatus failed = whole ? DbStatus::kOk : Failure(held_.get());
    for (size_t i = 0; i < keys.size(); ++i) {
      results[i].status = whole ? Take(held_->element[i], &results[i]) : failed;
    }
  }

  DbStatus Insert(absl::string_view key, absl::string_view record) override {
    return Stored(Execute(command_.Clear().Add("SET").Add(key).Add(record)).get());
  }

  DbStatus Replace(absl::string_view key, absl::string_view record) override {
    return Stored(Execute(command_.Clear().Add("SET").Add(key).Add(record).Add("XX")).get());
  }

  DbStatus Patch(absl::string_view key, absl::Span<const FieldWrite> writes, const ReadResult*) override {
    return Patched(Execute(PatchCommand(key, writes)).get());
  }

  void Submit(DbRequest* request) override {
    Command& command = command_.Clear();
    switch (request->kind) {
      case DbRequest::Kind::kRead:
        command.Add("GET").Add(request->key);
        break;
      case DbRequest::Kind::kInsert:
        command.Add("SET").Add(request->key).Add(request->record);
        break;
      case DbRequest::Kind::kReplace:
        command.Add("SET").Add(request->key).Add(request->record).Add("XX");
        break;
      case DbRequest::Kind::kPatch:
        PatchCommand(request->key, request->writes);
        break;
    }
    if (context_->err == 0) command.Append(context_.get());
    sent_.push_back(request);
  }

  size_t Poll(absl::Span<DbRequest*> done, int64_t wait_ns) override {
    if (sent_.empty()) return 0;
    size_t count = TakeReplies(done);
    if (count > 0 || context_->err != 0) return count > 0 ? count : FailAll(done);
    int all_written = 0;
    while (context_->err == 0 && all_written == 0) redisBufferWrite(context_.get(), &all_written);
    if (context_->err == 0 && Readable(wait_ns)) redisBufferRead(context_.get());
    count = TakeReplies(done);
    return count > 0 || context_->err == 0 ? count : FailAll(done);
  }

  std::string last_error() const override { return error_; }

 private:
  Command& PatchCommand(absl::string_view key, absl::Span<const FieldWrite> writes) {
    command_.Clear().Add("EVALSHA").Add(options_.patch_sha).Add("1").Add(key);
    numbers_.clear();
    for (const FieldWrite& write : writes) numbers_.push_back(absl::StrCat(write.field));
    for (size_t i = 0; i < writes.size(); ++i) command_.Add(numbers_[i]).Add(writes[i].bytes);
    return command_;
  }

  // Null if the connection failed; the next call tries to connect again.
  Reply Execute(Command& command) {
    if (context_->err != 0 && redisReconnect(context_.get()) != REDIS_OK) return nullptr;
    void* reply = nullptr;
    if (!command.Append(context_.get()) || redisGetReply(context_.get(), &reply) != REDIS_OK) return nullptr;
    return Reply(static_cast<redisReply*>(reply));
  }

  DbStatus Take(const redisReply* reply, ReadResult* result) {
    if (reply != nullptr && reply->type == REDIS_REPLY_NIL) return Missing();
    if (reply == nullptr || reply->type != REDIS_REPLY_STRING) return Failure(reply);
    result->record = TextOf(*reply);
    return DbStatus::kOk;
  }

  DbStatus Stored(const redisReply* reply) {
    if (reply != nullptr && reply->type == REDIS_REPLY_NIL) return Missing();
    return reply != nullptr && reply->type == REDIS_REPLY_STATUS ? DbStatus::kOk : Failure(reply);
  }

  DbStatus Patched(const redisReply* reply) {
    if (reply == nullptr || reply->type != REDIS_REPLY_INTEGER) return Failure(reply);
    if (reply->integer == 0) return Missing();
    if (reply->integer == 1) return DbStatus::kOk;
    error_ = "the record has no such field";
    return DbStatus::kUnexpectedState;
  }

  DbStatus Missing() {
    error_ = "no such record";
    return DbStatus::kNotFound;
  }

  DbStatus Failure(const redisReply* reply) {
    if (reply == nullptr) {
      error_ = absl::StrCat(options_.address_text, ": ", context_->errstr);
      return context_->err == REDIS_ERR_IO && errno == EAGAIN ? DbStatus::kTimeout : DbStatus::kServiceUnavailable;
    }
    error_ = reply->type == REDIS_REPLY_ERROR ? std::string(reply->str, reply->len) : "a reply of another type";
    return absl::StartsWith(error_, "OOM") ? DbStatus::kNoSpace : DbStatus::kError;
  }

  bool Readable(int64_t wait_ns) const {
    timespec timeout;
    timeout.tv_sec = wait_ns / 1'000'000'000;
    timeout.tv_nsec = wait_ns % 1'000'000'000;
    pollfd fd = {context_->fd, POLLIN, 0};
    return ppoll(&fd, 1, &timeout, nullptr) > 0;
  }

  // Ends requests, in their order, with the replies that have arrived.
  size_t TakeReplies(absl::Span<DbRequest*> done) {
    size_t count = 0;
    while (count < done.size() && !sent_.empty()) {
      void* raw = nullptr;
      if (redisGetReplyFromReader(context_.get(), &raw) != REDIS_OK || raw == nullptr) break;
      const Reply reply(static_cast<redisReply*>(raw));
      DbRequest* request = sent_.front();
      sent_.pop_front();
      if (request->kind == DbRequest::Kind::kRead) {
        request->status = request->result.status = Take(reply.get(), &request->result);
        if (request->status == DbStatus::kOk) {
          // Other replies follow before the caller reads it: the record is copied.
          request->result.buffer.assign(request->result.record.data(), request->result.record.size());
          request->result.record = request->result.buffer;
        }
      } else {
        request->status = request->kind == DbRequest::Kind::kPatch ? Patched(reply.get()) : Stored(reply.get());
      }
      done[count++] = request;
    }
    return count;
  }

  // The connection is lost, and so are the replies.
  size_t FailAll(absl::Span<DbRequest*> done) {
    size_t count = 0;
    const DbStatus status = Failure(nullptr);
    for (; count < done.size() && !sent_.empty(); ++count) {
      done[count] = sent_.front();
      done[count]->status = done[count]->result.status = status;
      sent_.pop_front();
    }
    if (sent_.empty()) redisReconnect(context_.get());
    return count;
  }

  const Context context_;
  const RedisOptions options_;
  Command command_;
  std::vector<std::string> numbers_;  // for PatchCommand
  Reply held_;                        // viewed by the last read or batch
  std::deque<DbRequest*> sent_;       // without a reply, oldest first
  std::string error_;
};

class RedisBackend : public ServerBackend {
 public:
  RedisBackend(const RedisOptions& options, pid_t server_pid)
      : ServerBackend(options.address, server_pid), options_(options) {}

  absl::StatusOr<std::unique_ptr<Db>> Connect(const ConnectOptions&) override {
    absl::StatusOr<Context> context = ConnectTo(options_);
    if (!context.ok()) return context.status();
    return std::make_unique<RedisDb>(*std::move(context), options_);
  }

 private:
  const RedisOptions options_;
};

// The value of "process_id:" in INFO; 0 if it is missing.
pid_t ServerPid(redisContext* context) {
  const Reply info(static_cast<redisReply*>(redisCommand(context, "INFO server")));
  if (info == nullptr || info->type != REDIS_REPLY_STRING) return 0;
  const absl::string_view text = TextOf(*info);
  const size_t at = text.find("process_id:");
  if (at == absl::string_view::npos) return 0;
  const absl::string_view rest = text.substr(at + 11);
  int pid = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find_first_of("\r\n")), &pid) ? pid : 0;
}

absl::StatusOr<std::unique_ptr<DbBackend>> Open(PropertyReader* reader) {
  absl::StatusOr<StoreServer> server = ReadStoreServer("redis", "tcp://127.0.0.1:6379", reader);
  if (!server.ok()) return server.status();
  RedisOptions options{*std::move(server), /*patch_sha=*/{}};
  signal(SIGPIPE, SIG_IGN);  // hiredis does not suppress SIGPIPE when it writes to a server that is gone
  absl::StatusOr<Context> context = ConnectTo(options);
  if (!context.ok()) return context.status();
  const Reply loaded(static_cast<redisReply*>(redisCommand(context->get(), "SCRIPT LOAD %s", kPatchScript)));
  if (loaded == nullptr || loaded->type != REDIS_REPLY_STRING) {
    return absl::UnavailableError(absl::StrCat("redis at ", options.address_text, " takes no script"));
  }
  options.patch_sha.assign(loaded->str, loaded->len);
  return std::make_unique<RedisBackend>(options, ServerPid(context->get()));
}

}  // namespace

void RegisterRedisDb(DbRegistry* registry) {
  registry->Add("redis", DbEntry{.help = "a redis-server at -p redis.address=unix:///path or tcp://host:port\n"
                                         "                                   (tcp://127.0.0.1:6379); also "
                                         "redis.timeout_ms (10000)",
                                 .open = Open});
}

}  // namespace farlook::bench
