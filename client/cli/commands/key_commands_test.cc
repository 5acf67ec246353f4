#include <string>
#include <vector>

#include "client/cli/commands/commands.h"
#include "client/cli/commands/testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;

class KeyCommandsTest : public CommandTest {};

TEST_F(KeyCommandsTest, PutThenGet) {
  EXPECT_EQ(Run({"put", "k", "v"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Run({"get", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "v") << "exact bytes";
  EXPECT_EQ(Err(), "");
}

TEST_F(KeyCommandsTest, GetOfAnAbsentKeySaysSo) {
  EXPECT_EQ(Run({"get", "k"}), ExitCode::kNotFound);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Err(), "kv_cli: get: no such key \"k\"\n");
}

TEST_F(KeyCommandsTest, JsonHasKeyValueAndVersion) {
  store().Put("k", "v");
  store().Put("\xFF", std::string("\0\xFE", 2));
  EXPECT_EQ(Run({"get", "--json", "k", "missing", "\xFF"}), ExitCode::kNotFound) << "the worst of three";
  EXPECT_EQ(Out(),
            "{\"key\":\"k\",\"value\":\"v\",\"version\":1}\n"
            "{\"key\":\"missing\",\"error\":\"not_found\",\"message\":\"no such key \\\"missing\\\"\"}\n"
            "{\"key_base64\":\"/w==\",\"value_base64\":\"AP4=\",\"version\":2}\n");
  EXPECT_EQ(Run({"put", "--json", "k", "w"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"version\":3}\n");
  EXPECT_EQ(Run({"exists", "--json", "k", "no"}), ExitCode::kNotFound);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"exists\":true}\n{\"key\":\"no\",\"exists\":false}\n");
  EXPECT_EQ(Run({"delete", "--json", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "{\"key\":\"k\",\"deleted\":true}\n");
}

TEST_F(KeyCommandsTest, SeveralRawValuesAreRefused) {
  EXPECT_EQ(Run({"get", "a", "b"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("--json"));
}

TEST_F(KeyCommandsTest, KeysOfAnyBytes) {
  EXPECT_EQ(Run({"put", "--key_encoding=hex", "00ff0a", "v"}), ExitCode::kOk);
  EXPECT_EQ(store().items().count(std::string("\0\xFF\n", 3)), 1u);
  EXPECT_EQ(Run({"get", "--key_encoding=escaped", "\\0\\xff\\n"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "v");
  EXPECT_EQ(Run({"get", "--key_encoding=hex", "xy"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("key \"xy\": \"xy\" at position 1 is not two hexadecimal digits"));
  EXPECT_EQ(Run({"put", "--key_encoding=hex", "1", "v"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("odd number"));
}

TEST_F(KeyCommandsTest, ConditionsHaveTheirOwnExitCode) {
  EXPECT_EQ(Run({"insert", "k", "v"}), ExitCode::kOk);
  EXPECT_EQ(Run({"insert", "k", "w"}), ExitCode::kConditionFailed);
  EXPECT_THAT(Err(), HasSubstr("key \"k\" exists already: left as it is"));
  EXPECT_EQ(Run({"replace", "k", "w"}), ExitCode::kOk);
  EXPECT_EQ(Run({"replace", "none", "w"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("nothing was stored"));
  EXPECT_EQ(store().items()["k"].value, "w");
  EXPECT_EQ(Run({"delete", "k", "k"}), ExitCode::kNotFound);
}

TEST_F(KeyCommandsTest, CompareAndSet) {
  store().Put("k", "v");
  EXPECT_EQ(Run({"get", "--print_version", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "1\n");
  EXPECT_EQ(Run({"cas", "k", "1", "w", "--print_version"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "2\n");
  EXPECT_EQ(Run({"cas", "k", "1", "x"}), ExitCode::kConditionFailed);
  EXPECT_THAT(Err(), HasSubstr("another version now, 2"));
  EXPECT_EQ(Run({"cas", "none", "1", "x"}), ExitCode::kNotFound);
  EXPECT_EQ(store().items()["k"].value, "w");
  for (const char* version : {"0", "-1", "one", "", "99999999999999999999"}) {
    EXPECT_EQ(Run({"cas", "k", "--", version, "x"}), ExitCode::kUsage) << version;
    EXPECT_THAT(Err(), HasSubstr("is no version"));
  }
}

TEST_F(KeyCommandsTest, ExistsPrintsALineForEachKey) {
  store().Put("k", "v");
  EXPECT_EQ(Run({"exists", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "true\n");
  EXPECT_EQ(Run({"exists", "k", "no"}), ExitCode::kNotFound);
  EXPECT_EQ(Out(), "true\nfalse\n");
  EXPECT_EQ(Err(), "");
}

TEST_F(KeyCommandsTest, ValuesComeFromOperandFileOrStandardInput) {
  const std::string bytes("a\0b\n", 4);
  SetStdin(bytes);
  EXPECT_EQ(Run({"put", "k1"}), ExitCode::kOk);
  SetStdin(bytes);
  EXPECT_EQ(Run({"put", "k2", "-"}), ExitCode::kOk);
  SetStdin(bytes);
  EXPECT_EQ(Run({"put", "k3", "--file=-"}), ExitCode::kOk);
  ScratchFile file(bytes);
  EXPECT_EQ(Run({"put", "k4", "--file", file.path()}), ExitCode::kOk);
  EXPECT_EQ(Run({"cas", "k4", "4", "--file", file.path()}), ExitCode::kOk);
  for (const char* key : {"k1", "k2", "k3", "k4"}) EXPECT_EQ(store().items()[key].value, bytes) << key;
  EXPECT_EQ(Run({"put", "k", "--", "-"}), ExitCode::kOk);
  EXPECT_EQ(store().items()["k"].value, "-");
  EXPECT_EQ(Run({"put", "k", "--", "-value-"}), ExitCode::kOk);
  EXPECT_EQ(store().items()["k"].value, "-value-");
  EXPECT_EQ(Run({"put", "k", ""}), ExitCode::kOk);
  EXPECT_EQ(store().items()["k"].value, "");
}

TEST_F(KeyCommandsTest, ValuesThatCannotBeRead) {
  EXPECT_EQ(Run({"put", "k", "v", "--file=x"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("given twice"));
  EXPECT_EQ(Run({"put", "k", "--file=/no/such"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("cannot open /no/such"));
  EXPECT_EQ(Run({"put", "k", "--file=/dev/zero"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("more than 536870912 bytes"));
  EXPECT_EQ(store().operations(), 0u);
}

TEST_F(KeyCommandsTest, InASessionStandardInputIsTaken) {
  set_mode(Mode::kBatch);
  EXPECT_EQ(Run({"put", "k"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("provides the commands"));
  EXPECT_EQ(Run({"put", "k", "-"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"put", "k", "v"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "");
  EXPECT_EQ(Run({"get", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "v\n") << "the answers of a session are told apart";
}

TEST_F(KeyCommandsTest, APersonIsToldOfSuccess) {
  set_mode(Mode::kInteractive);
  EXPECT_EQ(Run({"put", "k", "v"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "stored, version 1\n");
  EXPECT_EQ(Run({"delete", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "deleted\n");
}

TEST_F(KeyCommandsTest, EveryErrorOfTheStoreEndsInAnExitCodeAndASentence) {
  const struct {
    absl::Status status;
    ExitCode code;
    const char* sentence;
  } kCases[] = {
      {absl::UnavailableError("refused"), ExitCode::kError, "start it with kv_server --listen=shm:///test"},
      {absl::DeadlineExceededError(""), ExitCode::kError, "may still be, once: get the key to see"},
      {absl::ResourceExhaustedError(""), ExitCode::kError, "was not stored: the server's memory is full"},
      {absl::PermissionDeniedError(""), ExitCode::kError, "does not allow"},
      {absl::UnknownError(""), ExitCode::kError, "the connection broke before the answer came"},
      {absl::FailedPreconditionError(""), ExitCode::kError, "names a counter"},
      {absl::InvalidArgumentError("too long"), ExitCode::kError, "too long"},
      {absl::InternalError("odd"), ExitCode::kError, "INTERNAL: odd"},
  };
  for (const auto& c : kCases) {
    store().set_fault([&](uint64_t, const client::Operation&) { return c.status; });
    EXPECT_EQ(Run({"put", "k", "v"}), c.code) << c.status;
    EXPECT_THAT(Err(), HasSubstr(c.sentence));
    EXPECT_EQ(Run({"delete", "k"}), c.code);
    EXPECT_EQ(Run({"get", "k"}), c.code);
    EXPECT_EQ(Run({"exists", "k"}), c.code);
    EXPECT_EQ(Out(), "");
  }
}

TEST_F(KeyCommandsTest, AWriteWithReadOnlyNamesTheFlag) {
  store().set_fault(
      [&](uint64_t, const client::Operation&) { return absl::PermissionDeniedError("read-only client"); });
  EXPECT_EQ(Run({"--read_only", "put", "k", "v"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("--read_only forbids writes: omit it to write"));
}

}  // namespace
}  // namespace farlook::cli
