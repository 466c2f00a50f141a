// The space of schedules: how large it is, that it is complete, and that nothing in it is twice.
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <map>
#include <set>

#include "tests/unit/schedule/programs.h"
#include "weft/base/error.h"
#include "weft/schedule/form.h"
#include "weft/schedule/layouts.h"

namespace weft::schedule {
namespace {

struct Counts { std::string_view name, text; int64_t layouts, schedules, layouts_kept, schedules_kept; };

TEST(Space, CountsOfTheSpecification) {
  for (const Counts& c : std::vector<Counts>{{"adam", test::adam, 108, 192, 5, 6},
                                             {"adamw_clip", test::adamw_clip, 432, 810, 11, 14},
                                             {"lamb", test::lamb, 648, -1, 30, 36},
                                             {"adam_mixed", test::adam_mixed, 216, 378, 6, 7},
                                             {"attention_end", test::attention_end, 64, 296, 10, 38},
                                             {"mlp", test::mlp, 64, 296, 10, 38},
                                             {"pipeline", test::pipeline, 112, 481, 10, 37},
                                             {"sequence_parallel", test::sequence_parallel, 1, 8, 1, 8},
                                             {"moe", test::moe, 1, 2, 1, 2},
                                             {"sgd_int", test::sgd_int, 36, 60, 6, 8}}) {
    EnumerateOptions options;
    options.count_dropped = c.schedules >= 0;
    Space space = enumerate(ir::parse(c.text), options);
    EXPECT_EQ(space.layouts, c.layouts) << c.name;
    EXPECT_EQ(space.layouts_kept, c.layouts_kept) << c.name;
    EXPECT_EQ(space.schedules_kept, c.schedules_kept) << c.name;
    if (c.schedules >= 0) EXPECT_EQ(space.schedules, c.schedules) << c.name;
    EXPECT_FALSE(space.truncated) << c.name;
  }
}

TEST(Space, AllExamplesUnderASecond) {
  auto begin = std::chrono::steady_clock::now();
  for (auto [name, text] : test::examples()) {
    auto start = std::chrono::steady_clock::now();
    Space space = enumerate(ir::parse(text));
    std::printf("%-14s %4d candidates %6.1f ms\n", std::string(name).c_str(), static_cast<int>(space.candidates.size()),
                std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 1.0);
}

}  // namespace
}  // namespace weft::schedule
