// import and export together.
#include <algorithm>
#include <csignal>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/cli/commands/testing.h"
#include "client/cli/input/interrupt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string JsonLines(int from, int to) {
  std::string lines;
  for (int i = from; i <= to; ++i) absl::StrAppend(&lines, "{\"key\":\"k", i, "\",\"value\":\"v", i, "\"}\n");
  return lines;
}

class TransferTest : public CommandTest {
 protected:
  // Makes the `number`th operation and all later ones fail.
  void FailFrom(uint64_t number, absl::Status status) {
    store().set_fault([=](uint64_t n, const client::Operation&) { return n < number ? absl::OkStatus() : status; });
  }
};

TEST_F(TransferTest, WhatIsExportedCanBeImported) {
  std::string keys;
  for (int i = 0; i < 300; ++i) {
    const std::string key = absl::StrCat("key\xFF\t", i);
    store().Put(key, std::string(static_cast<size_t>(i), static_cast<char>(i)));
    absl::StrAppend(&keys, "key\\xff\\t", i, "\n");
  }
  const auto items = store().items();
  for (const char* format : {"--format=json", "--format=tsv"}) {
    SetStdin(keys);
    ASSERT_EQ(Run({"export", "--key_encoding=escaped", format}), ExitCode::kOk) << Err();
    EXPECT_EQ(std::count(Out().begin(), Out().end(), '\n'), 300);
    EXPECT_THAT(Err(), HasSubstr("exported 300 pairs"));
    store().items().clear();
    SetStdin(Out());
    ASSERT_EQ(Run({"import", format}), ExitCode::kOk) << Err();
    EXPECT_EQ(Out(), "");
    EXPECT_THAT(Err(), HasSubstr("imported 300 pairs"));
    ASSERT_EQ(store().items().size(), items.size());
    for (const auto& [key, item] : items) EXPECT_EQ(store().items()[key].value, item.value);
  }
  EXPECT_GT(store().most_in_flight(), 100u);
}

TEST_F(TransferTest, ExpiryKeepAndCountersMoveToo) {
  store().Put("plain", "1");
  store().Put("short", "2");
  store().items()["short"].ttl_ms = 29998;
  store().Put("kept", "3");
  store().items()["kept"].keep = true;
  store().counters() = {{"hits", 42}, {"rate", -7}};
  store().counter_ttls() = {{"rate", 5000}};
  const auto items = store().items();
  const auto counters = store().counters();
  const auto ttls = store().counter_ttls();
  for (const char* format : {"--format=json", "--format=tsv"}) {
    store().items() = items;
    store().counters() = counters;
    store().counter_ttls() = ttls;
    SetStdin("plain\nshort\nkept\nhits\nrate\n");
    ASSERT_EQ(Run({"export", format}), ExitCode::kOk) << Err();
    const std::string exported = Out();
    // Expect: the same result in an empty table, and over different contents.
    for (const bool empty : {true, false}) {
      store().items().clear();
      store().counters() = {{"hits", 1}, {"rate", 1}};
      store().counter_ttls() = {{"hits", 1}};
      if (empty) store().counters().clear();
      if (empty) store().counter_ttls().clear();
      SetStdin(exported);
      ASSERT_EQ(Run({"import", format}), ExitCode::kOk) << Err();
      EXPECT_THAT(Err(), HasSubstr("imported 5 pairs"));
      EXPECT_EQ(store().items()["plain"].ttl_ms, 0);
      EXPECT_FALSE(store().items()["plain"].keep);
      EXPECT_EQ(store().items()["short"].ttl_ms, 29998);
      EXPECT_TRUE(store().items()["kept"].keep);
      EXPECT_EQ(store().counters(), counters);
      EXPECT_EQ(store().counter_ttls(), ttls);
    }
    SetStdin(exported);
    store().counters() = {{"hits", 1}};
    EXPECT_EQ(Run({"import", format, "--insert_only"}), ExitCode::kConditionFailed);
    EXPECT_EQ(store().counters(), (std::map<std::string, int64_t>{{"hits", 1}, {"rate", -7}}));
    EXPECT_THAT(Err(), HasSubstr("counter \"hits\" exists already"));
  }
}

// A value with the expiry of another value would be a pair that never existed.
TEST_F(TransferTest, ExportReadsAValueWithItsOwnExpiry) {
  store().Put("k", "old");
  int writes = 3;
  store().set_fault([&](uint64_t, const client::Operation& operation) {
    if (operation.kind == client::Kind::kGet && writes-- > 0) {
      store().Put("k", "new");
      store().items()["k"].ttl_ms = 1000 + writes;
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(Run({"export", "--format=tsv", "k"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "k\tnew\tttl_ms=1000\n");
}

TEST_F(TransferTest, AnImportThatWouldLoseSomethingIsRefused) {
  SetStdin("{\"key\":\"k\",\"value\":\"v\",\"ttl\":5}\n{\"key\":\"l\",\"value\":\"v\"}\n");
  EXPECT_EQ(Run({"import"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("line 1: the line has a member \"ttl\", which is not known"));
  EXPECT_FALSE(store().items().contains("k"));
  EXPECT_TRUE(store().items().contains("l"));
}

TEST_F(TransferTest, AnExportOfNoKeysIsNoBackup) {
  EXPECT_EQ(Run({"export"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("standard input names no key: nothing was exported"));
  SetStdin("\n\n");
  EXPECT_EQ(Run({"export"}), ExitCode::kUsage);
  ScratchFile list("");
  EXPECT_EQ(Run({"export", "--keys", list.path()}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr(absl::StrCat(list.path(), " names no key")));
}

TEST_F(TransferTest, ExportKeepsTheOrderOfItsKeys) {
  store().Put("a", "1");
  store().Put("b", "2");
  EXPECT_EQ(Run({"export", "--format=tsv", "b", "a", "b"}), ExitCode::kOk);
  EXPECT_EQ(Out(), "b\t2\na\t1\nb\t2\n");
  ScratchFile list("b\n\na");
  EXPECT_EQ(Run({"export", "--format=tsv", "--keys", list.path()}), ExitCode::kOk);
  EXPECT_EQ(Out(), "b\t2\na\t1\n");
}

TEST_F(TransferTest, ExportReportsWhatIsMissing) {
  store().Put("a", "1");
  SetStdin("a\nb\n");
  EXPECT_EQ(Run({"export", "--format=tsv"}), ExitCode::kNotFound);
  EXPECT_EQ(Out(), "a\t1\n");
  EXPECT_THAT(Err(), HasSubstr("kv_cli: export: line 2: no such key \"b\"\n"));
  std::string many;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&many, "none", i, "\n");
  SetStdin(many);
  EXPECT_EQ(Run({"export"}), ExitCode::kNotFound);
  EXPECT_THAT(Err(), HasSubstr("\"none19\""));
  EXPECT_THAT(Err(), Not(HasSubstr("\"none20\"")));
  EXPECT_THAT(Err(), HasSubstr("only counted"));
  EXPECT_THAT(Err(), HasSubstr("100 not found"));
}

TEST_F(TransferTest, ExportWantsKeysFromOnePlace) {
  EXPECT_EQ(Run({"export", "a", "--keys=x"}), ExitCode::kUsage);
  EXPECT_EQ(Run({"export", "--keys=/no/such"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("cannot open /no/such"));
  set_mode(Mode::kBatch);
  EXPECT_EQ(Run({"export"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("provides the commands"));
}

TEST_F(TransferTest, ImportReportsBadLinesAndGoesOn) {
  ScratchFile file(absl::StrCat(JsonLines(1, 1), "nonsense\n\n{\"key\":\"\",\"value\":\"\"}\n", JsonLines(2, 2)));
  EXPECT_EQ(Run({"import", file.path()}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("kv_cli: import: line 2: the line is not JSON at position 2"));
  EXPECT_THAT(Err(), HasSubstr("kv_cli: import: line 4: key \"\": key of 0 bytes"));
  EXPECT_THAT(Err(), HasSubstr("imported 2 pairs"));
  EXPECT_THAT(Err(), HasSubstr("2 failed"));
  EXPECT_EQ(store().items().size(), 2u);
}

TEST_F(TransferTest, ImportStopsAfterManyBadLines) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "nonsense\n";
  SetStdin(lines);
  EXPECT_EQ(Run({"import", "--max_errors=5"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("stopped after 5 errors"));
  EXPECT_THAT(Err(), HasSubstr("--start_line=6"));
  EXPECT_THAT(Err(), Not(HasSubstr("line 7:")));
}

TEST_F(TransferTest, TheLastOfLinesWithOneKeyWins) {
  std::string lines;
  for (int i = 0; i < 500; ++i) absl::StrAppend(&lines, "k", i % 3, "\t", i, "\n");
  SetStdin(lines);
  EXPECT_EQ(Run({"import", "--format=tsv"}), ExitCode::kOk);
  EXPECT_EQ(store().items()["k0"].value, "498");
  EXPECT_EQ(store().items()["k1"].value, "499");
  EXPECT_EQ(store().items()["k2"].value, "497");
}

TEST_F(TransferTest, InsertOnlyLeavesWhatExists) {
  store().Put("k2", "old");
  SetStdin(JsonLines(1, 3));
  EXPECT_EQ(Run({"import", "--insert_only"}), ExitCode::kConditionFailed);
  EXPECT_EQ(store().items()["k2"].value, "old");
  EXPECT_EQ(store().items()["k3"].value, "v3");
  EXPECT_THAT(Err(), HasSubstr("line 2: key \"k2\" exists already"));
  EXPECT_THAT(Err(), HasSubstr("imported 2 pairs"));
  EXPECT_THAT(Err(), HasSubstr("1 existed"));
}

TEST_F(TransferTest, AnInterruptedImportSaysWhereToGoOn) {
  // Expect: whichever operation the server fails first, continuing from the reported line completes the import.
  for (uint64_t fail_from = 1; fail_from <= 50; fail_from += 7) {
    store().items().clear();
    const uint64_t before = store().operations();
    FailFrom(before + fail_from, absl::UnavailableError("gone"));
    ScratchFile file(JsonLines(1, 50));
    EXPECT_EQ(Run({"import", file.path(), "--in_flight=8"}), ExitCode::kError);
    EXPECT_THAT(Err(), HasSubstr("no server answers at shm:///test"));
    const size_t at = Err().find("--start_line=");
    ASSERT_NE(at, std::string::npos) << Err();
    const int line = std::stoi(Err().substr(at + 13));
    EXPECT_LE(static_cast<uint64_t>(line), fail_from);
    for (int i = 1; i < line; ++i) EXPECT_EQ(store().items().count(absl::StrCat("k", i)), 1u);

    store().set_fault(nullptr);
    EXPECT_EQ(Run({"import", file.path(), absl::StrCat("--start_line=", line)}), ExitCode::kOk);
    EXPECT_THAT(Err(), HasSubstr(absl::StrCat("imported ", 51 - line, " pairs")));
    EXPECT_EQ(store().items().size(), 50u);
  }
}

TEST_F(TransferTest, AFullServerStopsTheImport) {
  FailFrom(11, absl::ResourceExhaustedError(""));
  SetStdin(JsonLines(1, 50));
  EXPECT_EQ(Run({"import", "--in_flight=1"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("line 11: key \"k11\" was not stored: the server's memory is full"));
  EXPECT_THAT(Err(), HasSubstr("--start_line=11"));
  EXPECT_EQ(store().operations(), 11u);
}

TEST_F(TransferTest, ImportNoticesThatTheServerWasStartedAnew) {
  store().set_fault([&](uint64_t number, const client::Operation&) {
    if (number == 5) store().set_incarnation(2);
    return absl::OkStatus();
  });
  SetStdin(JsonLines(1, 9));
  EXPECT_EQ(Run({"import"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("restarted meanwhile"));
}

TEST_F(TransferTest, CtrlCStopsTheImportInGoodOrder) {
  CatchInterrupts();
  store().set_fault([&](uint64_t number, const client::Operation&) {
    if (number == 20) raise(SIGINT);
    return absl::OkStatus();
  });
  SetStdin(JsonLines(1, 1000));
  EXPECT_EQ(Run({"import", "--in_flight=8"}), ExitCode::kInterrupted);
  ForgetInterrupt();
  const size_t at = Err().find("--start_line=");
  ASSERT_NE(at, std::string::npos) << Err();
  // Expect: everything that was started is finished, and no more.
  EXPECT_EQ(static_cast<size_t>(std::stoi(Err().substr(at + 13))), store().items().size() + 1);
  EXPECT_LT(store().items().size(), 40u);
}

TEST_F(TransferTest, ImportSumsUpInJson) {
  SetStdin(JsonLines(1, 3) + "x\n");
  EXPECT_EQ(Run({"import", "--json"}), ExitCode::kError);
  EXPECT_THAT(Out(), HasSubstr("{\"imported\":3,\"existing\":0,\"failed\":1,\"seconds\":"));
}

TEST_F(TransferTest, ImportOfNothing) {
  EXPECT_EQ(Run({"import"}), ExitCode::kOk);
  EXPECT_THAT(Err(), HasSubstr("imported 0 pairs"));
  EXPECT_EQ(Run({"import", "/no/such"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("cannot open /no/such"));
  EXPECT_EQ(Run({"import", "/"}), ExitCode::kError);
  EXPECT_THAT(Err(), HasSubstr("cannot read /"));
  SetStdin(JsonLines(1, 3));
  EXPECT_EQ(Run({"import", "--start_line=9"}), ExitCode::kOk);
  EXPECT_THAT(Err(), HasSubstr("the input has 3 lines"));
  set_mode(Mode::kBatch);
  EXPECT_EQ(Run({"import"}), ExitCode::kUsage);
  EXPECT_THAT(Err(), HasSubstr("provides the commands"));
}

}  // namespace
}  // namespace farlook::cli
