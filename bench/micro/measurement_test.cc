#include "bench/micro/measurement.h"

#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farlook::bench {
namespace {

using ::testing::HasSubstr;

int64_t last_keys = -1;

absl::Status TakeKeys(Figures* figures) {
  last_keys = absl::GetFlag(FLAGS_keys);
  figures->AddAtMost("keys", static_cast<double>(last_keys), "", 100, "a limit");
  return absl::OkStatus();
}

std::vector<Measurement> All() {
  return {{"few", "a few keys", {{"keys", "7"}}, TakeKeys},
          {"many", "many keys", {{"keys", "70"}, {"seconds"}}, TakeKeys},
          {"served", "keys of a server", {{"server"}, {"workers"}, {"keys", "3"}}, TakeKeys}};
}

class MeasurementTest : public ::testing::Test {
 protected:
  // The exit code; what it wrote is in `output` and `error`.
  int Run(const std::vector<std::string>& words) {
    last_keys = -1;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = RunMeasurement(All(), words);
    output = ::testing::internal::GetCapturedStdout();
    error = ::testing::internal::GetCapturedStderr();
    return code;
  }

  std::string output, error;
};

TEST_F(MeasurementTest, EachHasItsOwnDefaultOfACommonFlag) {
  EXPECT_EQ(Run({"many"}), 0) << error;
  EXPECT_EQ(last_keys, 70);
  EXPECT_EQ(Run({"few"}), 0) << error;
  EXPECT_EQ(last_keys, 7);
  EXPECT_THAT(output, HasSubstr("keys"));
  EXPECT_EQ(Run({"few", "--keys=9"}), 0) << error;
  EXPECT_EQ(last_keys, 9);
}

TEST_F(MeasurementTest, ALimitThatDoesNotHoldIsAnExitCodeOfItsOwn) { EXPECT_EQ(Run({"few", "--keys=101"}), 3); }

TEST_F(MeasurementTest, AFlagOfAnotherMeasurementIsRefused) {
  EXPECT_EQ(Run({"few", "--seconds=5"}), 1);
  EXPECT_THAT(error, HasSubstr("micro few: unknown flag --seconds"));
  EXPECT_EQ(last_keys, -1);
  EXPECT_EQ(Run({"many", "--seconds=0"}), 1);
  EXPECT_THAT(error, HasSubstr("--seconds: at least 1"));
}

TEST_F(MeasurementTest, OneThatStartsAServerNeedsItsPath) {
  EXPECT_EQ(Run({"served"}), 1);
  EXPECT_THAT(error, HasSubstr("needs --server=PATH/kv_server"));
  EXPECT_EQ(Run({"served", "--server=/bin/true", "--workers=0"}), 1);
  EXPECT_THAT(error, HasSubstr("--workers: at least 1"));
  EXPECT_EQ(Run({"served", "--server=/bin/true", "--workers=1"}), 0) << error;
  EXPECT_EQ(last_keys, 3);
}

TEST_F(MeasurementTest, HelpNamesAllAndTheFlagsOfOne) {
  EXPECT_EQ(Run({"--help"}), 0);
  EXPECT_THAT(output, HasSubstr("many: many keys"));
  EXPECT_EQ(Run({"many", "--help"}), 0);
  EXPECT_THAT(output, HasSubstr("--keys=70"));
  EXPECT_EQ(last_keys, -1);
  EXPECT_EQ(Run({"most"}), 1);
  EXPECT_THAT(error, HasSubstr("Usage: micro MEASUREMENT"));
  EXPECT_EQ(Run({}), 1);
}

}  // namespace
}  // namespace farlook::bench
