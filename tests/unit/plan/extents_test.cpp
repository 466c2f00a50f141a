// Cells as elements: whatever the sizes, the cells of a space partition it.
#include <gtest/gtest.h>

#include <array>

#include "tests/unit/plan/cases.h"
#include "weft/plan/launch.h"

namespace weft::plan {
namespace {

Plan plan_of(const std::string& spaces, int channels) {
  return parse(fmt::format("plan 1 p\nchannels {}\n{}lane main:\n  a:\n", channels, spaces));
}

SpaceExtent cut(Cut c) { return {c, {}, nullptr}; }

// Walks all cells of a space in order and marks their elements in the whole value; each must be marked once.
void expect_partition(const Instance& in, const Extents& e, int space, int slices, int64_t grain) {
  std::vector<int> marks(static_cast<size_t>(e.elements(space)));
  for (int64_t part = 0; part < in.parts(space); ++part) {
    int64_t at = 0;  // in the part's own order
    for (int channel = 0; channel < in.channels(); ++channel) {
      const Range share = e.share(space, part, channel);
      ASSERT_EQ(share.begin, at);
      for (int64_t chunk = 0; chunk < e.chunks(space, channel) + 1; ++chunk) {
        const Range whole = e.chunk(space, part, channel, chunk);
        ASSERT_EQ(whole.begin, at);
        for (int slice = 0; slice < slices; ++slice) {
          const Range r = e.slice(space, part, channel, chunk, slice, slices);
          ASSERT_EQ(r.begin, at);
          ASSERT_TRUE(r.begin % grain == 0 || r.begin == e.part_size(space, part)) << r.begin;
          at = r.end;
          int64_t expected = 0;
          e.runs(space, part, r, [&](int64_t offset, int64_t position, int64_t count) {
            ASSERT_EQ(offset, expected);
            ASSERT_GT(count, 0);
            expected += count;
            for (int64_t i = 0; i < count; ++i) ++marks[static_cast<size_t>(position + i)];
          });
          ASSERT_EQ(expected, r.size());
        }
        ASSERT_EQ(whole.end, at);
        ASSERT_TRUE(chunk < e.chunks(space, channel) || whole.size() == 0);
      }
      ASSERT_EQ(share.end, at);
    }
    ASSERT_EQ(at, e.part_size(space, part));
  }
  for (const int mark : marks) ASSERT_EQ(mark, 1);
}

TEST(Extents, CellsPartitionEvenSpaces) {
  for (int channels = 1; channels <= 3; ++channels)
    for (const int grain : {1, 4, 16})
      for (int parts = 1; parts <= 8; ++parts) {
        const Instance in(plan_of(fmt::format("space s parts {} even grain {}\n", parts, grain), channels), 2);
        for (int64_t size = 0; size <= 130; ++size) {
          SCOPED_TRACE(fmt::format("channels {} grain {} parts {} size {}", channels, grain, parts, size));
          const Extents e(in, {cut({1, size, 1})}, {size % 3 == 0 ? 5 : 24});
          expect_partition(in, e, 0, 1 + static_cast<int>(size % 3), grain);
          if (HasFatalFailure()) return;
        }
      }
}

TEST(Extents, CellsPartitionCutsOfTensors) {
  for (const Cut& c : {Cut{3, 10, 5}, Cut{4, 7, 1}, Cut{1, 13, 6}, Cut{5, 3, 2}, Cut{2, 0, 8}, Cut{0, 8, 2}})
    for (int parts = 1; parts <= 5; ++parts)
      for (const int grain : {1, 4}) {
        SCOPED_TRACE(fmt::format("{} x {} x {} in {} grain {}", c.outer, c.axis, c.inner, parts, grain));
        const Instance in(plan_of(fmt::format("space s parts {} even grain {}\n", parts, grain), 2), 2);
        expect_partition(in, Extents(in, {cut(c)}, {8}), 0, 2, grain);
        if (HasFatalFailure()) return;
      }
}

// Part p of an even space is [p*N/parts, (p+1)*N/parts), each index of the outer dimensions contiguous.
TEST(Extents, EvenPartsFollowTheFormula) {
  const Instance in(plan_of("space s parts 3 even\n", 1), 2);
  const Extents e(in, {cut({2, 7, 2})}, {});
  EXPECT_EQ(e.part_size(0, 0), 2 * 2 * 2);
  EXPECT_EQ(e.part_size(0, 1), 2 * 2 * 2);
  EXPECT_EQ(e.part_size(0, 2), 2 * 3 * 2);
  std::vector<std::array<int64_t, 3>> runs;
  e.runs(0, 1, {1, 7}, [&](int64_t offset, int64_t position, int64_t count) {
    runs.push_back({offset, position, count});
  });
  EXPECT_EQ(runs, (std::vector<std::array<int64_t, 3>>{{0, 5, 3}, {3, 18, 3}}));
}

TEST(Extents, CoarsePartsAreRunsOfFineOnes) {
  for (const int grain : {1, 4, 16})
    for (int m = 1; m <= 4; ++m)
      for (int g = 1; g <= 4; ++g) {
        const Instance in(plan_of(fmt::format("space a parts {} even grain {}\nspace b parts {} even grain {}\n", m,
                                              grain, m * g, grain),
                                  1),
                          2);
        for (int64_t size = 0; size <= 130; ++size) {
          const Extents e(in, {cut({1, size, 1}), cut({1, size, 1})}, {});
          for (int64_t p = 0; p < m; ++p) {
            int64_t fine = 0, count = 0;
            for (int64_t i = 0; i < g; ++i) fine += e.part_size(1, p * g + i);
            ASSERT_EQ(fine, e.part_size(0, p)) << grain << " " << m << " " << g << " " << size;
            int64_t first = 0;  // the first fine part that is not empty
            while (fine && e.part_size(1, p * g + first) == 0) ++first;
            if (fine) { ASSERT_EQ(e.run_at(0, p, 0, 1, count), e.run_at(1, p * g + first, 0, 1, count)); }
          }
        }
      }
}

// A loop must reach every chunk of every part: the largest part has not the largest share of every channel.
void expect_most_chunks(const Instance& in, const Extents& e, int64_t grain) {
  for (int channel = 0; channel < in.channels(); ++channel) {
    int64_t most = 0;
    for (int64_t p = 0; p < in.parts(0); ++p)
      most = std::max(most, (e.share(0, p, channel).size() + grain - 1) / grain);
    ASSERT_EQ(e.chunks(0, channel), most) << "channel " << channel << " of " << in.channels();
  }
}

TEST(Extents, ChunksAreTheLargestOverParts) {
  for (int channels = 1; channels <= 17; ++channels)
    for (int parts = 1; parts <= 9; ++parts)
      for (const int grain : {1, 3, 16}) {
        const Instance in(plan_of(fmt::format("space s parts {} even grain {}\n", parts, grain), channels), 2);
        for (int64_t size = 0; size <= 130; ++size)
          for (const Cut& c : {Cut{1, size, 1}, Cut{3, size, 2}}) {
            SCOPED_TRACE(fmt::format("{} x {} x {} in {} grain {}", c.outer, c.axis, c.inner, parts, grain));
            expect_most_chunks(in, Extents(in, {cut(c)}, {grain}), grain);
            if (HasFatalFailure()) return;
          }
      }
}

TEST(Extents, ChunksAreTheLargestOverGivenParts) {
  for (int channels = 1; channels <= 17; ++channels)
    for (const int grain : {1, 4}) {
      const Instance in(plan_of(fmt::format("space s parts 3 given grain {}\n", grain), channels), 2);
      for (int64_t a = 0; a <= 20; ++a)
        for (int64_t b = 0; b <= 20; ++b) {
          SCOPED_TRACE(fmt::format("{} and {} grain {}", a, b, grain));
          expect_most_chunks(in, Extents(in, {{Given{{a, 0, b}}, {}, nullptr}}, {grain}), grain);
          if (HasFatalFailure()) return;
        }
    }
}

TEST(Extents, LoopsGoOverTheSpaceWithMostChunks) {
  const Instance in(plan_of("space a parts 1 even\nspace b parts 2 given\n", 1), 2);
  const Extents e(in, {cut({1, 10, 1}), {Given{{3, 41}}, {}, nullptr}}, {4, 4});
  const std::vector<uint16_t> both = {0, 1}, first = {0};
  EXPECT_EQ(e.iterations(first, 0), 3);
  EXPECT_EQ(e.iterations(both, 0), 11);
  EXPECT_EQ(e.chunk(1, 0, 0, 1).size(), 0);
  EXPECT_EQ(e.chunk(0, 0, 0, 2).size(), 2);
}

TEST(Extents, ChunksAreRoundedUpToGrain) {
  const Instance in(plan_of("space s parts 1 even grain 16\n", 1), 2);
  const Extents e(in, {cut({1, 100, 1})}, {17});
  EXPECT_EQ(e.chunk(0, 0, 0, 0).size(), 32);
  EXPECT_EQ(Extents(in, {cut({1, 100, 1})}, {}).chunks(0, 0), 1);
}

TEST(Extents, EqualPartsAndLike) {
  const Instance in(
      plan_of(
          "space i parts 4 equal\nspace o parts 6 equal like i\nspace v parts 3 even\nspace w parts 5 equal like v\n",
          2),
      2);
  const Extents e(in, {cut({1, 20, 1}), {}, cut({1, 10, 1}), {}}, {3, 3, 3, 3});
  for (int64_t p = 0; p < 4; ++p) EXPECT_EQ(e.part_size(0, p), 5);
  for (int64_t p = 0; p < 6; ++p) EXPECT_EQ(e.part_size(1, p), 5);
  EXPECT_EQ(e.elements(1), 30);
  EXPECT_EQ(e.part_size(3, 2), 4);  // as part 2 of v
  EXPECT_EQ(e.part_size(3, 4), e.part_size(2, 1));
  for (int space = 0; space < 4; ++space) expect_partition(in, e, space, 2, 1);
  EXPECT_THROW(Extents(in, {cut({1, 21, 1}), {}, {}, {}}, {}), Error);
}

TEST(Extents, GivenCounts) {
  const Instance in(plan_of("space v parts 3 given\n", 2), 2);
  const Extents e(in, {{Given{{0, 7, 3}}, {}, nullptr}}, {2});
  EXPECT_EQ(e.elements(0), 10);
  expect_partition(in, e, 0, 2, 1);
  EXPECT_THROW(Extents(in, {{Given{{1, 2}}, {}, nullptr}}, {}), Error);
  EXPECT_THROW(Extents(in, {{Given{{1, -2, 3}}, {}, nullptr}}, {}), Error);
  EXPECT_THROW(Extents(in, {cut({1, 9, 1})}, {}), Error);
  EXPECT_THROW(Extents(in, {}, {}), Error);
}

TEST(Extents, CountsFromABufferComeLater) {
  const Instance in(
      parse("plan 1 p\nspace f parts 3 fixed\nspace v parts 3 given by b\nbuffer b f i64 in\nlane main:\n  a:\n"), 2);
  Extents e(in, {{}, {OnDevice{}, {}, nullptr}}, {4, 4});
  EXPECT_THROW(e.part_size(1, 0), Error);
  e.set_given(1, {4, 0, 9});
  EXPECT_EQ(e.part_size(1, 2), 9);
  EXPECT_EQ(e.chunks(1, 0), 3);
  EXPECT_THROW(e.set_given(1, {4}), Error);
}

TEST(Extents, FixedSpacesCountEachPart) {
  const Instance in(plan_of("space a parts 4 fixed\nspace b parts 4 fixed 3\nspace k parts 2 fixed K\n", 2), 2);
  const Extents e(in, {{}, {}, cut({2, 5, 1})}, {});
  EXPECT_EQ(e.part_size(0, 3), 1);
  EXPECT_EQ(e.elements(1), 12);
  EXPECT_EQ(e.part_size(2, 1), 10);
  int64_t count = 0;
  EXPECT_EQ(e.run_at(1, 2, 1, 3, count), 7);
  EXPECT_EQ(count, 2);
  for (int space = 0; space < 3; ++space) expect_partition(in, e, space, 1, 1);
}

TEST(Extents, WrongExtentsAreRefused) {
  const Instance in(plan_of("space s parts 2 even\n", 1), 2);
  EXPECT_THROW(Extents(in, {{Given{{1, 1}}, {}, nullptr}}, {}), Error);
  EXPECT_THROW(Extents(in, {cut({1, -1, 1})}, {}), Error);
}

TEST(Extents, SegmentsMeetTheirTensor) {
  const Instance in(
      plan_of("space s parts 2 even\nspace t parts 3 fixed T of s by segment\nspace u parts 1 even of s by segment\n",
              1),
      2);
  const SegmentTable table{{3, 0, 4, 1}};
  const Extents e(in, {{Cut{1, 8, 1}, {}, &table}, {}, {}}, {});
  EXPECT_EQ(e.part_size(1, 0), 4);
  EXPECT_EQ(e.elements(1), 12);
  EXPECT_EQ(e.elements(2), 4);
  std::vector<int64_t> met, counts;
  for (int64_t i = 0; i < 8; ++i) {
    int64_t count = 0;
    met.push_back(e.meet_at(1, i, count));
    counts.push_back(count);
  }
  EXPECT_EQ(met, (std::vector<int64_t>{0, 0, 0, 2, 2, 2, 2, 3}));
  EXPECT_EQ(counts, (std::vector<int64_t>{3, 2, 1, 4, 3, 2, 1, 1}));
  int64_t count = 0;
  EXPECT_THROW(e.meet_at(1, 8, count), Error);
  EXPECT_THROW(Extents(in, {cut({1, 8, 1}), {}, {}}, {}), Error);  // no segments bound
}

TEST(Extents, BlocksLieInTheirParts) {
  const Instance in(plan_of("space s parts 3 even grain 8\nspace b parts 3 even of s by block 8\nspace q parts 1 fixed "
                            "K of s by block 8\n",
                            2),
                    2);
  for (int64_t size = 0; size <= 130; ++size) {
    const Extents e(in, {cut({1, size, 1}), {}, {}}, {16, 2, 2});
    ASSERT_EQ(e.elements(1), (size + 7) / 8);
    ASSERT_EQ(e.part_size(2, 0), (size + 7) / 8);
    for (int64_t part = 0; part < 3; ++part)
      for (int channel = 0; channel < 2; ++channel) {
        const Range fine = e.share(0, part, channel), coarse = e.share(1, part, channel);
        ASSERT_EQ((fine.size() + 7) / 8, coarse.size());
        if (fine.size() == 0) continue;
        int64_t count = 0, same = 0;
        const int64_t first = e.run_at(0, part, fine.begin, fine.end, count);
        ASSERT_EQ(e.meet_at(1, first, same), e.run_at(1, part, coarse.begin, coarse.end, count));
      }
  }
}

TEST(Extents, RowsAndColumnsMeetByStride) {
  const Instance in(
      plan_of("space s parts 1 even\nspace l parts 1 even of s by row\nspace h parts 1 even of s by column\n", 1), 2);
  std::vector<SpaceExtent> spaces = {cut({1, 24, 1}), {}, {}};
  spaces[1].meeting = Meeting{{2, 3, 4}, {3, 1, 0}};  // one per row
  spaces[2].meeting = Meeting{{2, 3, 4}, {0, 0, 1}};  // one per column
  const Extents e(in, spaces, {});
  EXPECT_EQ(e.elements(1), 6);
  EXPECT_EQ(e.elements(2), 4);
  for (int64_t i = 0; i < 24; ++i) {
    int64_t count = 0;
    EXPECT_EQ(e.meet_at(1, i, count), i / 4);
    EXPECT_EQ(count, 4 - i % 4);
    EXPECT_EQ(e.meet_at(2, i, count), i % 4);
    EXPECT_EQ(count, 1);
  }
  EXPECT_THROW(Extents(in, {cut({1, 24, 1}), {}, {}}, {}), Error);  // nobody says how they meet
}

// ---- default chunks

TEST(DefaultChunk, FillsOneSlotWithASlice) {
  const Instance ring(cases::load("ring_all_reduce"), 4);
  EXPECT_EQ(default_chunk(ring, 4096), (std::vector<int64_t>{2048}));  // two slices of 1024 floats
  const Instance lamb(cases::load("fused_ring_lamb"), 4);
  EXPECT_EQ(default_chunk(lamb, 4096)[0], 4096);  // f16 on the wire
}

TEST(DefaultChunk, DividesByThePartsOfAMessage) {
  const Instance pat(cases::load("pat_all_gather"), 8);
  EXPECT_EQ(default_chunk(pat, 4096)[0], 1024 / 4);
  const Instance hier(cases::load("hierarchical_all_reduce"), 8);
  EXPECT_EQ(default_chunk(hier, 4096)[0], 2 * 1024 / 2);
}

TEST(DefaultChunk, WithoutLinksItIsCacheSized) {
  EXPECT_EQ(default_chunk(Instance(cases::load("two_shot_symmetric"), 4), 4096)[0], 64 * 1024);
  EXPECT_THROW(default_chunk(Instance(cases::load("two_shot_symmetric"), 4), 0), Error);
}

TEST(DefaultChunk, SpacesOfOneLoopGoTogether) {
  const Instance in(cases::load("pairwise_all_to_all_v"), 4);
  EXPECT_EQ(default_chunk(in, 4096), (std::vector<int64_t>{1024, 1024}));
  const Instance blocks(
      parse("plan 1 p\nspace s parts n even grain 8\nspace b parts n even of s by block 8\nbuffer x s f32 in\nbuffer q "
            "b f64 scratch\nlink main simple slots 2\nlane main:\n  loop s b:\n    x[r] -> >r+1\n    <r-1 -> x[r]\n"),
      2);
  EXPECT_EQ(default_chunk(blocks, 4096), (std::vector<int64_t>{1024, 128}));
}

TEST(DefaultChunk, IsRoundedToGrain) {
  const Instance in(parse("plan 1 p\nspace s parts n even grain 48\nbuffer x s f32 in\nlink main simple slots 2\nlane "
                          "main:\n  loop s:\n    x[r] -> >r+1\n    <r-1 -> x[r-1]\n"),
                    2);
  EXPECT_EQ(default_chunk(in, 4096)[0], 1008);
  EXPECT_EQ(default_chunk(in, 16)[0], 48);
}

TEST(LaunchScalars, InOrderOfAppearance) {
  EXPECT_EQ(launch_scalars(cases::load("fused_ring_lamb")), (std::vector<Id>{"step", "lr"}));
  EXPECT_EQ(launch_scalars(cases::load("reduce_scatter_clip_sgd_all_gather")), (std::vector<Id>{"lr", "limit"}));
  EXPECT_TRUE(launch_scalars(cases::load("ring_all_reduce")).empty());
}

}  // namespace
}  // namespace weft::plan
