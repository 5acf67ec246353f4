// Encoding of an operation: the parts of its request.
#ifndef FARLOOK_CLIENT_WRITES_REQUEST_PARTS_H_
#define FARLOOK_CLIENT_WRITES_REQUEST_PARTS_H_

#include <cstddef>
#include <cstdint>

#include "client/op/operation.h"
#include "kv/wire/message.h"
#include "kv/wire/request_options.h"

namespace farlook::client {

// Returns the options of the request.
inline kv::RequestOptions OptionsOf(const Operation& operation) {
  kv::RequestOptions options;
  if (operation.touched) return options;
  options.has_ttl = operation.ttl_ms != 0;
  options.ttl_us = static_cast<uint64_t>(operation.ttl_ms) * 1000;
  options.keep_ttl = operation.keep_ttl;
  options.item_flags = operation.keep ? kv::RequestOptions::kKeep : 0;
  options.refill = operation.refill;
  options.create = operation.create;
  if (operation.create) options.initial = operation.expected;
  return options;
}
inline bool HasOptions(const Operation& operation) {
  return operation.ttl_ms != 0 || operation.keep_ttl || operation.keep || operation.refill || operation.create;
}

// Returns whether a put's key, value and options fit in its message. Most puts are short enough for options, whether
// they have any or not.
inline bool Fits(const Operation& operation) {
  const size_t key_bytes = operation.key.size(), value_bytes = operation.value.size();
  return kv::FitsInMessage(key_bytes, value_bytes, kv::RequestOptions::kMaxBytes) ||
         (!HasOptions(operation) && kv::FitsInMessage(key_bytes, value_bytes));
}

// `pulled`: the server is to pull the value of a put.
inline kv::RequestType TypeOf(const Operation& operation, bool pulled) {
  if (operation.kind == Kind::kPut) [[likely]]
    return pulled ? kv::RequestType::kPutPulled : kv::RequestType::kPut;
  switch (operation.kind) {
    case Kind::kGet:
    case Kind::kExists:
      return kv::RequestType::kGet;
    case Kind::kTtl:
      return kv::RequestType::kTtl;
    case Kind::kDelete:
      return kv::RequestType::kDelete;
    case Kind::kTouch:
    case Kind::kPersist:
      return kv::RequestType::kTouch;
    case Kind::kGetAndTouch:
      return operation.touched ? kv::RequestType::kGet : kv::RequestType::kGetAndTouch;
    case Kind::kPing:
      return kv::RequestType::kPing;
    case Kind::kStat:
      return kv::RequestType::kStat;
    case Kind::kAdmin:
      return kv::RequestType::kAdmin;
    case Kind::kCreateCounter:
      return kv::RequestType::kCounterCreate;
    case Kind::kFetchAdd:
      return kv::RequestType::kCounterAdd;
    case Kind::kCompareSwap:
      return kv::RequestType::kCounterSwap;
    case Kind::kReadCounter:
      return kv::RequestType::kCounterRead;
    case Kind::kDeleteCounter:
      return kv::RequestType::kCounterDelete;
    case Kind::kPut:
    case Kind::kWarm:  // these are no requests
    case Kind::kScan:
      break;
  }
  return kv::RequestType::kPutPulled;
}

// Both enums have the same values.
inline kv::Condition OnWire(Condition::Kind kind) {
  static_assert(static_cast<int>(Condition::Kind::kAlways) == static_cast<int>(kv::Condition::kAlways) &&
                static_cast<int>(Condition::Kind::kIfAbsent) == static_cast<int>(kv::Condition::kAbsent) &&
                static_cast<int>(Condition::Kind::kIfPresent) == static_cast<int>(kv::Condition::kPresent) &&
                static_cast<int>(Condition::Kind::kIfVersion) == static_cast<int>(kv::Condition::kVersion));
  return static_cast<kv::Condition>(kind);
}

}  // namespace farlook::client

#endif  // FARLOOK_CLIENT_WRITES_REQUEST_PARTS_H_
