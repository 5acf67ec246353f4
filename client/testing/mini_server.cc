#include "client/testing/mini_server.h"

#include <sys/mman.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kv/layout/cell_region.h"
#include "kv/layout/counter_value.h"
#include "kv/layout/item.h"
#include "kv/layout/words.h"
#include "kv/wire/gets.h"
#include "kv/wire/proof.h"
#include "kv/wire/puts.h"

namespace farlook::client {
namespace {

std::string Encoded(const kv::Request& request) {
  char head[kv::kMaxRequestHeadBytes];
  return absl::StrCat(absl::string_view(head, request.EncodeHead(head)), request.value);
}

// Returns the parts of a message that are the same each time it is sent.
std::string Contents(kv::Request request) {
  request.source.rkey = 0;
  request.deadline_us = 0;
  request.flags &= static_cast<uint16_t>(~kv::Request::kOnlyAsked);
  return Encoded(request);
}

bool StandsForSeveral(kv::RequestType type) { return type == kv::RequestType::kGets || type == kv::RequestType::kPuts; }

// Returns the messages of the requests that one stands for; empty: its value is malformed.
std::vector<std::string> OneByOne(const kv::Request& several) {
  std::vector<std::string> messages;
  kv::Request one = several;
  one.value = {};
  one.value_bytes = 0;
  const auto add = [&messages, &one] {
    messages.push_back(Encoded(one));
    ++one.number;
  };
  if (kv::GetKeys asked; several.type == kv::RequestType::kGets && kv::GetKeys::Decode(several.value, &asked)) {
    one.type = kv::RequestType::kGet;
    for (size_t i = 0; i < asked.size; ++i) {
      one.key = asked.keys[i];
      add();
    }
  } else if (kv::Puts puts; several.type == kv::RequestType::kPuts && kv::Puts::Decode(several.value, &puts)) {
    one.type = kv::RequestType::kPut;
    for (size_t i = 0; i < puts.size; ++i) {
      one.key = puts.all[i].key;
      one.value = puts.all[i].value;
      one.value_bytes = static_cast<uint32_t>(one.value.size());
      add();
    }
  }
  return messages;
}

}  // namespace

MiniServer::MiniServer(uint64_t incarnation, absl::Span<char> region)
    : incarnation_(incarnation), region_(region), owns_region_(region.empty()) {
  if (owns_region_) {
    void* memory = mmap(nullptr, kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    region_ = absl::MakeSpan(static_cast<char*>(memory), kRegionBytes);
  }
  kv::TableOptions options;
  options.incarnation = incarnation;
  options.hash_seed = 99;  // the same in each incarnation, so that outdated knowledge of a client would match
  table_ = *kv::Table::Create(region_, options);
  kv::FormatCellRegion(cells(), incarnation);
}

MiniServer::~MiniServer() {
  table_.reset();
  if (owns_region_) munmap(region_.data(), region_.size());
}

absl::StatusOr<std::string> MiniServer::Accept(absl::string_view connect, const kv::ServerRange& range,
                                               const kv::ServerRange& cells) {
  auto data = kv::ConnectData::Decode(connect);
  if (!data.ok()) return data.status();
  range_ = range;
  cells_range_ = cells;
  kv::AcceptData accept;
  accept.version = data->version();
  accept.incarnation = incarnation_;
  if (group_epoch != 0) accept.flags |= kv::AcceptData::kGroup;
  if (secret.empty()) {
    accept.table = range;
  } else {
    accept.flags |= kv::AcceptData::kAuthentication;
  }
  hello_.clear();
  return accept.Encode();
}

std::string MiniServer::Greet(uint64_t* session, absl::string_view message) {
  if (!refusal.text.empty()) return refusal.Encode();
  auto hello = kv::Hello::Decode(message);
  if (!hello.ok()) {
    violations.push_back(std::string(hello.status().message()));
    return std::string();
  }
  user = hello->user;
  kv::Welcome welcome;
  const auto known = sessions_.find(hello->session);
  if (known != sessions_.end() && hello->incarnation == incarnation_) {
    if (hello->epoch != known->second.epoch) violations.push_back("resumed with another epoch");
    welcome.flags = kv::Welcome::kResumed;
    welcome.session = hello->session;
    ++known->second.epoch;
    known->second.moved.reset();
  } else {
    welcome.session = ++last_session_;
  }
  *session = welcome.session;
  welcome.epoch = sessions_[welcome.session].epoch;
  welcome.window = window;
  welcome.figures_ms = figures_ms;
  welcome.gets = gets;
  welcome.puts = puts;
  welcome.slots = slots;
  if (group_epoch != 0) {
    welcome.group_epoch = group_epoch;
    welcome.history = history;
    welcome.lease_us = lease_us;
    welcome.members = backups.empty() ? primary : absl::StrCat(primary, ",", backups);
    welcome.cluster = cluster;
  }
  if (offer_cells) {
    welcome.counters = cells_range_;
    welcome.atomics = atomics;
  }
  welcome.max_value_bytes = max_value_bytes;
  welcome.time_us = time_us;
  return welcome.Encode();
}

std::string MiniServer::CheckProof(uint64_t* session, absl::string_view message) {
  if (hello_.empty()) {
    hello_ = std::string(message);
    kv::Challenge challenge;
    challenge.nonce = kv::RandomNonce();
    challenge_ = challenge.Encode();
    if (challenges) return challenge_;
  }
  const kv::Transcript transcript = {hello_, challenge_, incarnation_, "10.0.0.1:7471"};
  auto proof = kv::Proof::Decode(message);
  if (challenges && (!proof.ok() || !kv::SameMac(proof->mac, kv::ClientProof(secret, transcript)))) {
    kv::Refusal wrong;
    wrong.code = kv::RefusalCode::kNotAuthenticated;
    wrong.text = "wrong secret";
    return wrong.Encode();
  }
  auto welcome = kv::Welcome::Decode(Greet(session, hello_));
  if (!welcome.ok()) return std::string();
  welcome->table = range_;
  if (proves) welcome->proof = kv::ServerProof(secret, transcript);
  return welcome->Encode();
}

void MiniServer::Watch(uint64_t session_id, absl::string_view message) {
  if (session_id == 0) {
    const bool is_first =
        kv::IsFirstMessage(message, kv::FirstMessage::kHello) || kv::IsFirstMessage(message, kv::FirstMessage::kProof);
    if (!is_first) violations.push_back("the first message is no Hello");
    return;
  }
  auto request = kv::Request::Decode(message);
  if (!request.ok()) {
    violations.push_back(std::string(request.status().message()));
    return;
  }
  if (request->type == kv::RequestType::kCellsDropped) {
    acknowledged.push_back(static_cast<uint64_t>(request->operands.operand));
    return;
  }
  if (!kv::IsNumbered(request->type)) return;
  if (StandsForSeveral(request->type)) {
    const std::vector<std::string> messages = OneByOne(*request);
    const size_t most = request->type == kv::RequestType::kGets ? gets : puts;
    if (messages.empty() || messages.size() > most) violations.push_back("more in a message than was allowed");
    for (const std::string& one : messages) Watch(session_id, one);
    return;
  }
  Session& session = sessions_[session_id];
  const uint64_t number = request->number;
  const std::string contents = Contents(*request);
  const auto known = session.posted.find(number);
  if (known != session.posted.end()) {
    if (known->second != contents) violations.push_back(absl::StrCat("number ", number, " came with other contents"));
    return;
  }
  session.posted.emplace(number, contents);
  if (number != 1 && session.posted.count(number - 1) == 0) violations.push_back(absl::StrCat("skipped to ", number));
  // The client does not send n before every number up to n - W is answered.
  for (uint64_t i = 1; i + window <= number; ++i) {
    if (session.replies.count(i) == 0) violations.push_back(absl::StrCat("sent ", number, " before the answer to ", i));
  }
}

std::string MiniServer::Answer(uint64_t* session, absl::string_view message, const Pull& pull) {
  if (*session == 0) return secret.empty() ? Greet(session, message) : CheckProof(session, message);
  auto request = kv::Request::Decode(message);
  if (!request.ok()) return std::string();
  if (request->type == kv::RequestType::kGoodbye) sessions_.erase(*session);
  if (!kv::IsNumbered(request->type)) return std::string();
  if (StandsForSeveral(request->type)) return AnswerSeveral(session, *request, pull);
  Session& of = sessions_[*session];
  const auto known = of.replies.find(request->number);
  const bool refused = Refuses(*request, &of);
  if (known != of.replies.end()) return known->second;
  const bool over = request->deadline_us != 0 && request->deadline_us <= time_us;
  if (!over && !refused) ++executed;
  return of.replies[request->number] = Execute(*request, refused, pull);
}

std::string MiniServer::AnswerSeveral(uint64_t* session, const kv::Request& request, const Pull& pull) {
  kv::ReplyPack pack;
  for (const std::string& one : OneByOne(request)) {
    const std::string reply = Answer(session, one, pull);
    if (!pack.Add(*kv::Reply::Decode(reply))) violations.push_back("this small server sends one message only");
  }
  return std::string(pack.Finish());
}

bool MiniServer::IsMoved(const kv::Request& request) const {
  const bool has_key = request.type != kv::RequestType::kPing && request.type != kv::RequestType::kStat;
  return has_key && moved[kv::ClusterSlotOf(table_->HashOf(request.key))];
}

// Like server/worker/group_desk.cc.
bool MiniServer::Refuses(const kv::Request& request, Session* session) const {
  if (!IsWrite(request.type)) return IsMoved(request);
  const size_t slot = kv::ClusterSlotOf(table_->HashOf(request.key));
  if ((request.flags & kv::Request::kAfterMoved) != 0) session->moved.reset(slot);
  const auto known = session->replies.find(request.number);
  const bool was_refused =
      known != session->replies.end() && kv::Reply::Decode(known->second)->code == kv::Code::kMoved;
  if (was_refused || (request.flags & kv::Request::kOnlyAsked) != 0 || IsMoved(request)) session->moved.set(slot);
  return session->moved[slot];
}

std::string MiniServer::Execute(const kv::Request& request, bool refused, const Pull& pull) {
  const uint64_t hash = table_->HashOf(request.key);
  kv::WriteResult result;
  kv::ItemView item;
  std::string value(request.value);
  std::string payload;
  const uint64_t ttl_us = request.option.ttl_us;
  const uint64_t expiry_ms = ttl_us == 0 ? 0 : (time_us + ttl_us + 999) / 1000;
  const bool over = request.deadline_us != 0 && request.deadline_us <= time_us;
  if (refused) result.code = kv::Code::kMoved;
  if (over) result.code = kv::Code::kExpired;
  switch (result.code != kv::Code::kOk ? kv::RequestType::kGoodbye : request.type) {
    case kv::RequestType::kPutPulled:
      value = pull(request.source, request.value_bytes);
      if (value.size() != request.value_bytes || table_->hasher()(value) != request.source.hash) {
        result.code = kv::Code::kBadValue;
        break;
      }
      [[fallthrough]];
    case kv::RequestType::kPut:
      written.push_back(absl::StrCat(request.key, "=", value));
      result = table_->Put(hash, request.key, value,
                           {.condition = request.condition,
                            .version = request.version,
                            .expiry_ms = expiry_ms,
                            .keep_ttl = request.option.keep_ttl,
                            .flags = request.option.item_flags},
                           now_ns);
      break;
    case kv::RequestType::kDelete:
      result = table_->Delete(hash, request.key, request.condition, request.version, now_ns);
      break;
    case kv::RequestType::kGet:
      result = table_->Get(hash, request.key, &item);
      if (result.code == kv::Code::kOk && item.value.size() <= kv::kMaxReplyPayloadBytes) {
        payload = std::string(item.value);
      }
      break;
    case kv::RequestType::kTouch:
      result = table_->Touch(hash, request.key, expiry_ms, now_ns);
      break;
    case kv::RequestType::kTtl:
      result = table_->Get(hash, request.key, &item);
      if (result.code != kv::Code::kOk) break;
      payload.resize(kv::TtlResult::kBytes);
      kv::TtlResult{item.expiry_ms, item.flags}.Encode(payload.data());
      break;
    case kv::RequestType::kGetAndTouch:
      result = table_->Touch(hash, request.key, expiry_ms, now_ns);
      if (result.code == kv::Code::kOk && table_->Get(hash, request.key, &item).code == kv::Code::kOk &&
          item.value.size() <= kv::kMaxReplyPayloadBytes) {
        payload = std::string(item.value);
      }
      if (took_over) {
        result.slot = kv::Slot();
        payload.clear();
      }
      break;
    case kv::RequestType::kPing:
      break;
    case kv::RequestType::kStat:
      payload = absl::StartsWith(request.key, "map") ? map : absl::StrCat("executed ", executed, "\n");
      if (absl::StartsWith(request.key, "map")) {
        result.version = map_left;
        ++maps_sent;
      }
      break;
    case kv::RequestType::kAdmin:
      if (request.key == "cluster status") {
        payload = absl::StrCat("epoch 1\nprimary fake:// 1\n", --handover_looks > 0 ? "handover begun\n" : "");
      } else if (absl::StartsWith(request.key, "cluster ")) {
        payload = "begun\n";
      }
      break;
    case kv::RequestType::kCounterCreate:
    case kv::RequestType::kCounterAdd:
    case kv::RequestType::kCounterSwap:
    case kv::RequestType::kCounterRead:
    case kv::RequestType::kCounterDelete:
      result.code = ExecuteCounter(request, hash, &payload);
      break;
    case kv::RequestType::kCellsDropped:
    case kv::RequestType::kTouched:
    case kv::RequestType::kFigures:
    case kv::RequestType::kGets:
    case kv::RequestType::kPuts:
    case kv::RequestType::kGoodbye:
      break;
  }
  kv::Reply reply;
  reply.code = result.code;
  reply.number = request.number;
  reply.version = result.version;
  reply.slot = result.slot;
  reply.time_us = time_us;
  reply.payload = payload;
  std::string bytes(kv::Reply::kHeaderBytes, '\0');
  reply.EncodeHead(bytes.data());
  return bytes + payload;
}

// The reply's payload contains value and cell.
kv::Code MiniServer::ExecuteCounter(const kv::Request& request, uint64_t hash, std::string* payload) {
  const auto tell = [payload](int64_t value, uint64_t cell) {
    payload->resize(kv::CounterResult::kBytes);
    kv::CounterResult{value, cell}.Encode(payload->data());
  };
  uint64_t cell = 0;
  const kv::Code code = table_->FindCounter(hash, request.key, &cell);
  const bool creates = request.type == kv::RequestType::kCounterCreate || request.option.create;
  if (creates && code == kv::Code::kNotFound) {
    cell = next_cell_;
    next_cell_ += kv::kCellStrideBytes;
    const int64_t before = request.option.create ? request.option.initial : request.operands.operand;
    const int64_t value = request.option.create ? before + request.operands.operand : before;
    kv::StoreWord(cells_.data() + cell, static_cast<uint64_t>(value));
    const kv::WriteResult result = table_->InsertCounter(hash, request.key, cell, now_ns);
    if (result.code == kv::Code::kOk) tell(before, cell);
    return result.code;
  }
  if (code != kv::Code::kOk) return code;
  int64_t* const word = Cell(request.key);
  const int64_t old = *word;
  if (request.type == kv::RequestType::kCounterDelete) {
    DeleteCounter(request.key);
    tell(old, 0);
    return kv::Code::kOk;
  }
  tell(old, cell);
  if (request.type == kv::RequestType::kCounterCreate) return kv::Code::kExists;
  if (request.type == kv::RequestType::kCounterAdd) *word += request.operands.operand;
  if (request.type == kv::RequestType::kCounterSwap && old == request.operands.operand) {
    *word = request.operands.desired;
  }
  return kv::Code::kOk;
}

int64_t* MiniServer::Cell(absl::string_view key) {
  uint64_t cell = 0;
  if (table_->FindCounter(table_->HashOf(key), key, &cell) != kv::Code::kOk) std::abort();
  return static_cast<int64_t*>(static_cast<void*>(cells_.data() + cell));
}

void MiniServer::DeleteCounter(absl::string_view key) {
  int64_t* const word = Cell(key);
  *word = kv::AddedTo(*word, static_cast<int64_t>(kv::kPoison));
  table_->DeleteCounter(table_->HashOf(key), key);
}

kv::WriteResult MiniServer::Put(absl::string_view key, absl::string_view value) {
  return table_->Put(table_->HashOf(key), key, value, kv::Condition::kAlways, 0, now_ns);
}

kv::WriteResult MiniServer::Delete(absl::string_view key) {
  return table_->Delete(table_->HashOf(key), key, kv::Condition::kAlways, 0, now_ns);
}

}  // namespace farlook::client
