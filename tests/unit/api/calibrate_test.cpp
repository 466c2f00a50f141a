// Calibration: how many ranks a question may start.
#include "weft/api/calibrate.h"

#include <gtest/gtest.h>

namespace weft::api {
namespace {

TEST(Calibrate, AQuestionAboutManyRanksStartsFew) {
  for (int ranks = 1; ranks <= 16; ++ranks) EXPECT_EQ(measured_ranks(ranks), ranks);
  EXPECT_GE(measured_ranks(1024), 16);
  EXPECT_LT(measured_ranks(1 << 20), 1 << 20);
  EXPECT_EQ(measured_ranks(1 << 20), measured_ranks(1 << 21));
}

}  // namespace
}  // namespace weft::api
