// The bytes of docs/protocol.md, and the valid values of the fields of counters and expiry.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kv/wire/message_testing.h"

namespace farlook::kv {
namespace {

TEST(Request, GoldenBytes) {
  EXPECT_EQ(absl::BytesToHexString(Encode(APut())), kPut);
  EXPECT_EQ(absl::BytesToHexString(Encode(APutPulled())), kPutPulled);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kGet, "user1"))), kGetRequest);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kDelete, "user1"))),
            "03" + std::string(kGetRequest + 2));
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kPing, ""))), kPing);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kAdmin, "clients@0"))),
            "13000900000000002a00000000000000"
            "00000000000000000000000000000000"
            "0000000000000000636c69656e74734030");
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kStat, "server"))), kStat);
}

TEST(Request, GoldenBytesOfCounters) {
  Request add = ARequest(RequestType::kCounterAdd, "user1");
  add.operands.operand = -3;
  EXPECT_EQ(absl::BytesToHexString(Encode(add)), kCounterAdd);
  Request swap = ARequest(RequestType::kCounterSwap, "user1");
  swap.operands = {7, 9};
  EXPECT_EQ(absl::BytesToHexString(Encode(swap)), kCounterSwap);
  Request dropped;
  dropped.type = RequestType::kCellsDropped;
  dropped.operands.operand = 7;
  EXPECT_EQ(absl::BytesToHexString(Encode(dropped)), kCellsDropped);
  const std::string bytes = Bytes(kCounterSwap);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->operands.operand, 7);
  EXPECT_EQ(decoded->operands.desired, 9);
  EXPECT_EQ(decoded->key, "user1");
}

// `request` with these options, which are stored in `options`.
Request WithOptions(Request request, const RequestOptions& asked, std::string* options) {
  options->resize(RequestOptions::kMaxBytes);
  options->resize(asked.Encode(options->data()));
  request.options = *options;
  return request;
}

RequestOptions Ttl(uint64_t ttl_us) {
  RequestOptions options;
  options.ttl_us = ttl_us;
  options.has_ttl = true;
  return options;
}

TEST(Request, GoldenBytesOfExpiry) {
  std::string options;
  const Request touch = ARequest(RequestType::kTouch, "user1");
  EXPECT_EQ(absl::BytesToHexString(Encode(WithOptions(touch, Ttl(1'000'000), &options))), kTouch);
  EXPECT_EQ(absl::BytesToHexString(Encode(touch)), kPersist);
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kGetAndTouch, "user1"))),
            "10" + std::string(kPersist + 2));
  EXPECT_EQ(absl::BytesToHexString(Encode(ARequest(RequestType::kTtl, "user1"))), "11" + std::string(kPersist + 2));
  RequestOptions keep;
  keep.keep_ttl = true;
  keep.item_flags = RequestOptions::kKeep;
  EXPECT_EQ(absl::BytesToHexString(Encode(WithOptions(APut(), keep, &options))), kPutKeepingTtl);

  const std::string bytes = Bytes(kTouch);
  const auto decoded = Request::Decode(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(decoded->type, RequestType::kTouch);
  EXPECT_EQ(decoded->key, "user1");
  EXPECT_TRUE(decoded->option.has_ttl);
  EXPECT_EQ(decoded->option.ttl_us, 1'000'000u);
  const std::string keeping_bytes = Bytes(kPutKeepingTtl);
  const auto keeping = Request::Decode(keeping_bytes);
  ASSERT_TRUE(keeping.ok()) << keeping.status();
  EXPECT_FALSE(keeping->option.has_ttl);
  EXPECT_TRUE(keeping->option.keep_ttl);
  EXPECT_EQ(keeping->option.item_flags, RequestOptions::kKeep);
  EXPECT_EQ(keeping->value, "hello");
}

TEST(Request, ATtlIsOfOneMillisecondToTenYears) {
  std::string options;
  const auto decodes = [&options](const RequestOptions& asked) {
    return Request::Decode(Encode(WithOptions(APut(), asked, &options))).status();
  };
  for (const uint64_t ttl_us : {uint64_t{0}, kMinTtlUs, uint64_t{5'000'000'000}, kMaxTtlUs}) {
    const std::string bytes = Encode(WithOptions(APut(), Ttl(ttl_us), &options));
    const auto request = Request::Decode(bytes);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_TRUE(request->option.has_ttl);
    EXPECT_EQ(request->option.ttl_us, ttl_us);
  }
  for (const uint64_t ttl_us : {uint64_t{1}, kMinTtlUs - 1, kMaxTtlUs + 1, ~uint64_t{0}}) {
    EXPECT_EQ(decodes(Ttl(ttl_us)).message(),
              absl::StrCat("malformed message: request: a ttl of ", ttl_us, " us: an item lives for 1 ms to 10 years"));
  }
  RequestOptions both = Ttl(kMinTtlUs);
  both.keep_ttl = true;
  EXPECT_EQ(decodes(both).message(), "malformed message: request: a ttl, and the one to be kept");
}

TEST(Request, OptionsOfExpiryStandOnlyWhereTheyMeanSomething) {
  std::string options;
  const std::string m = "malformed message: request: ";
  RequestOptions keep_ttl, keep, unknown;
  keep_ttl.keep_ttl = true;
  keep.item_flags = RequestOptions::kKeep;
  unknown.item_flags = 2;
  const auto reason = [&options](RequestType type, const RequestOptions& asked) {
    return RequestReason(Encode(WithOptions(ARequest(type, "user1"), asked, &options)));
  };
  for (const RequestType type :
       {RequestType::kGet, RequestType::kDelete, RequestType::kCounterRead, RequestType::kTtl}) {
    EXPECT_EQ(reason(type, Ttl(kMinTtlUs)), m + "a ttl where none belongs");
    EXPECT_EQ(reason(type, keep_ttl), m + "a ttl to be kept where none belongs");
    EXPECT_EQ(reason(type, keep), m + "flags of an item where none belong");
  }
  EXPECT_EQ(reason(RequestType::kTouch, keep_ttl), m + "a ttl to be kept where none belongs");
  for (const RequestType type : {RequestType::kTouch, RequestType::kGetAndTouch}) {
    EXPECT_EQ(reason(type, Ttl(kMinTtlUs)), "");
    EXPECT_EQ(RequestReason(With(Encode(ARequest(type, "user1")), 1, '\1')), m + "a condition where none belongs");
    EXPECT_EQ(RequestReason(Encode(ARequest(type, ""))), m + "empty key");
  }
  // Expect: a put with a flag of a later release is understood, and not executed.
  const std::string bytes = Encode(WithOptions(APut(), unknown, &options));
  const auto request = Request::Decode(bytes);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->unsupported);
}

TEST(Request, EachTypeTakesItsOwnOptionsOnly) {
  using enum RequestType;
  RequestOptions create, keep_ttl, keep, refill;
  create.create = keep_ttl.keep_ttl = refill.refill = true;
  keep.item_flags = RequestOptions::kKeep;
  const std::vector<RequestType> puts = {kPut, kPutPulled, kPuts};
  const std::pair<RequestOptions, std::vector<RequestType>> table[] = {
      {Ttl(kMinTtlUs), {kPut, kPutPulled, kPuts, kTouch, kGetAndTouch, kCounterCreate}},
      {keep_ttl, puts},
      {keep, puts},
      {refill, puts},
      {create, {kCounterAdd}}};
  for (const auto& [option, belongs] : table) {
    for (int i = 1; i < kRequestTypes; ++i) {
      const auto type = static_cast<RequestType>(i);
      std::string options;
      Request request = ARequest(type, HasKey(type) ? "user1" : "");
      if (!IsNumbered(type)) request.number = 0;
      if (HasOperands(type)) request.operands.operand = 1;
      ASSERT_EQ(RequestReason(Encode(request)), "") << i;
      const std::string reason = RequestReason(Encode(WithOptions(request, option, &options)));
      const bool may = std::find(belongs.begin(), belongs.end(), type) != belongs.end();
      EXPECT_EQ(reason.empty(), may) << "type " << i << ", option " << absl::BytesToHexString(options) << reason;
    }
  }
}

TEST(Request, AnAddMaySayWhatToCreate) {
  std::string options;
  RequestOptions create;
  create.create = true;
  create.initial = -3;
  Request add = ARequest(RequestType::kCounterAdd, "user1");
  add.operands.operand = 1;
  EXPECT_EQ(absl::BytesToHexString(WithOptions(add, create, &options).options),
            "0580"
            "0800"
            "fdffffffffffffff"
            "00000000");
  create.has_ttl = true;
  create.ttl_us = 1'000'000;
  const std::string bytes = Encode(WithOptions(add, create, &options));
  EXPECT_LE(options.size(), RequestOptions::kMaxBytes);
  const auto request = Request::Decode(bytes);
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_TRUE(request->option.create && request->option.has_ttl);
  EXPECT_EQ(request->option.initial, -3);
  EXPECT_EQ(request->option.ttl_us, 1'000'000u);
  EXPECT_EQ(request->operands.operand, 1);
  // Expect: neither is accepted in a request where it has no meaning.
  const std::string m = "malformed message: request: ";
  const auto reason = [&](Request of, const RequestOptions& asked) {
    return RequestReason(Encode(WithOptions(std::move(of), asked, &options)));
  };
  EXPECT_EQ(reason(add, Ttl(kMinTtlUs)), m + "a ttl of an add that creates no counter");
  create.has_ttl = false;
  EXPECT_EQ(reason(APut(), create), m + "a counter is to be created where none belongs");
  EXPECT_EQ(reason(ARequest(RequestType::kCounterRead, "user1"), create),
            m + "a counter is to be created where none belongs");
  create.initial = INT64_MAX;
  EXPECT_EQ(reason(add, create), m + "a counter to be created with an impossible number");
}

TEST(Reply, ATtlsResultIsItsPayload) {
  char payload[TtlResult::kBytes];
  TtlResult{1'500, RequestOptions::kKeep}.Encode(payload);
  Reply reply;
  reply.number = 42;
  reply.version = 7;
  reply.slot = Slot(0xbeef, 4, 0x400000);
  reply.time_us = 1'000'000;
  reply.payload = {payload, sizeof payload};
  EXPECT_EQ(absl::BytesToHexString(Encode(reply)), kReplyToTtl);
  TtlResult result;
  ASSERT_TRUE(TtlResult::Decode(reply.payload, &result));
  EXPECT_EQ(result.expires_ms, 1'500u);
  EXPECT_EQ(result.item_flags, RequestOptions::kKeep);
  // Expect: a server of an earlier release sends no flags.
  ASSERT_TRUE(TtlResult::Decode(reply.payload.substr(0, 8), &result));
  EXPECT_EQ(result.expires_ms, 1'500u);
  EXPECT_EQ(result.item_flags, 0);
  EXPECT_FALSE(TtlResult::Decode(reply.payload.substr(0, 7), &result));
}

TEST(Request, ImpossibleNumbersOfCountersAreMalformed) {
  const auto malformed = [](RequestType type, int64_t operand, int64_t desired = 0) {
    Request request = ARequest(type, type == RequestType::kCellsDropped ? "" : "user1");
    if (type == RequestType::kCellsDropped) request.number = 0;
    request.operands = {operand, desired};
    return !Request::Decode(Encode(request)).ok();
  };
  const int64_t live = (int64_t{1} << 61) - 1, dead = int64_t{1} << 62, delta = int64_t{1} << 40;
  EXPECT_FALSE(malformed(RequestType::kCounterCreate, live));
  EXPECT_FALSE(malformed(RequestType::kCounterCreate, -live - 1));
  EXPECT_TRUE(malformed(RequestType::kCounterCreate, live + 1));
  EXPECT_TRUE(malformed(RequestType::kCounterCreate, 1, 1));
  EXPECT_FALSE(malformed(RequestType::kCounterAdd, -delta));
  EXPECT_TRUE(malformed(RequestType::kCounterAdd, delta + 1));
  EXPECT_FALSE(malformed(RequestType::kCounterSwap, dead - 1, live));
  EXPECT_TRUE(malformed(RequestType::kCounterSwap, dead, 0));
  EXPECT_TRUE(malformed(RequestType::kCounterSwap, 0, live + 1));
  EXPECT_FALSE(malformed(RequestType::kCellsDropped, 1));
  EXPECT_TRUE(malformed(RequestType::kCellsDropped, 0));
}

}  // namespace
}  // namespace farlook::kv
