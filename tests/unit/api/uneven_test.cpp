// Calls with a count per rank: zeros, skew, ranks that know only their own, counts that do not fit each other.
#include "tests/unit/api/collectives_support.h"

namespace weft::test {
namespace {

constexpr int64_t poison = -1;

// Kinds of skew: even, one rank has all, some have none, a large tail.
std::vector<int64_t> skewed(int kind, int ranks) {
  std::vector<int64_t> counts;
  for (int r = 0; r < ranks; ++r) {
    switch (kind) {
      case 0: counts.push_back(5); break;
      case 1: counts.push_back(r == ranks - 1 ? 131 : 0); break;
      case 2: counts.push_back(r % 2 ? 0 : 3 * r + 1); break;
      case 3: counts.push_back(r == 0 ? 70'001 : r); break;
      default: counts.push_back(0);
    }
  }
  return counts;
}
constexpr int kinds = 5;

int64_t sum(std::span<const int64_t> counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

class Uneven : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(Uneven, ScatterAndGatherKnowTheirOwnPart) {
  const auto [transport, ranks] = GetParam();
  on(transport, ranks, [](Collectives& comm) {
    const int n = comm.size(), me = comm.rank();
    for (int kind = 0; kind < kinds; ++kind)
      for (int root = 0; root < n; root += std::max(1, n - 1)) {
        const std::vector<int64_t> counts = skewed(kind, n);
        const int64_t mine = counts[static_cast<size_t>(me)],
                      before = sum(std::span(counts).first(static_cast<size_t>(me)));
        const bool is_root = me == root;
        const std::vector<int64_t> whole = coded_by(9, sum(counts));
        std::vector<int64_t> part(static_cast<size_t>(mine) + 4, poison), back(whole.size() + 4, poison);
        comm.scatter_v(is_root ? whole.data() : nullptr,
                       is_root ? std::span<const int64_t>(counts) : std::span<const int64_t>(), part.data(), mine,
                       Dtype::i64, root);
        for (int64_t i = 0; i < mine; ++i) need(part[static_cast<size_t>(i)] == coded(9, before + i), "scatter");
        for (int64_t i = 0; i < 4; ++i) need(part[static_cast<size_t>(mine + i)] == poison, "behind a part");
        comm.gather_v(part.data(), mine, is_root ? back.data() : nullptr,
                      is_root ? std::span<const int64_t>(counts) : std::span<const int64_t>(), Dtype::i64, root);
        if (!is_root) continue;
        for (size_t i = 0; i < whole.size(); ++i) need(back[i] == whole[i], "gather");
        for (size_t i = 0; i < 4; ++i) need(back[whole.size() + i] == poison, "behind the whole");
      }
  });
}

TEST_P(Uneven, AllToAllWithCountsKnownOrExchanged) {
  const auto [transport, ranks] = GetParam();
  on(transport, ranks, [](Collectives& comm) {
    const int n = comm.size(), me = comm.rank();
    const auto from_to = [n](int kind, int from, int to) {
      if (kind == kinds) return static_cast<int64_t>(to == 0 ? 3000 + from : from == n - 1 ? 0 : 1);  // all to one
      return skewed(kind, n)[static_cast<size_t>((from + to) % n)];
    };
    for (int kind = 0; kind <= kinds; ++kind)
      for (const bool known : {true, false}) {
        std::vector<int64_t> counts, come, data, want, got(static_cast<size_t>(n), poison);
        for (int q = 0; q < n; ++q) {
          counts.push_back(from_to(kind, me, q)), come.push_back(from_to(kind, q, me));
          const auto out = coded_by(me * 16 + q, counts.back()), in = coded_by(q * 16 + me, come.back());
          data.insert(data.end(), out.begin(), out.end()), want.insert(want.end(), in.begin(), in.end());
        }
        std::vector<int64_t> result(want.size() + 4, poison);
        if (known) {
          comm.all_to_all_v(data.data(), counts, result.data(), come, Dtype::i64);
        } else {
          const int64_t all =
              comm.all_to_all_v(data.data(), counts, result.data(), static_cast<int64_t>(want.size()), got, Dtype::i64);
          need(got == come && all == sum(come), "counts that came");
        }
        for (size_t i = 0; i < want.size(); ++i) need(result[i] == want[i], "an element");
        for (size_t i = 0; i < 4; ++i) need(result[want.size() + i] == poison, "behind the result");
      }
  });
}

INSTANTIATE_TEST_SUITE_P(On, Uneven,
                         testing::Combine(testing::Values("threads", "threads+tcp"), testing::Values(1, 2, 3, 5)));

// Pairs that count differently: the same error on all ranks, also where one side says none.
TEST(UnevenDisagree, PairsOfAnAllToAll) {
  for (const int64_t expected : {0, 3}) {
    const Error error = error_of([&] {
      on("threads", 3, [&](Collectives& comm) {
        std::vector<int64_t> counts(3, 2), come(3, 2), data(6), result(9);
        if (comm.rank() == 2) come[1] = expected;
        const Error mine = error_of([&] { comm.all_to_all_v(data.data(), counts, result.data(), come, Dtype::i64); });
        need(mine.kind() == ErrorKind::agreement && says(mine, "rank 1 sends 2 elements to rank 2") &&
                 says(mine, fmt::format("rank 2 expects {} from rank 1", expected)),
             mine.what());
        throw mine;
      });
    });
    EXPECT_EQ(error.kind(), ErrorKind::agreement) << error.what();
  }
}

TEST(UnevenDisagree, ARootAndAPart) {
  const Error error = error_of([&] {
    on("threads", 3, [&](Collectives& comm) {
      const std::vector<int64_t> counts = {1, 2, 3};
      std::vector<int64_t> whole(6), part(8);
      comm.scatter_v(whole.data(), counts, part.data(), comm.rank() == 2 ? 4 : comm.rank() + 1, Dtype::i64, 0);
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::agreement) << error.what();
  EXPECT_TRUE(says(error, "the root, rank 0, has 3 elements for rank 2") && says(error, "rank 2 has 4"))
      << error.what();
}

TEST(UnevenDisagree, MoreThanThereIsRoomFor) {
  const Error error = error_of([&] {
    on("threads", 2, [&](Collectives& comm) {
      std::vector<int64_t> counts(2, 5), got(2), data(10), result(10);
      comm.all_to_all_v(data.data(), counts, result.data(), comm.rank() ? 9 : 10, got, Dtype::i64);
    });
  });
  EXPECT_TRUE(says(error, "10 elements come to rank 1, which has room for 9")) << error.what();
}

TEST(Uneven, MisuseIsRefused) {
  on("threads", 2, [](Collectives& comm) {
    std::vector<int64_t> x(8), y(8), two = {1, 2}, three = {1, 2, 3}, negative = {-1, 4}, huge = {INT64_MAX, 1};
    const auto refused = [&](const std::string& what, const std::function<void()>& call) {
      const Error error = error_of(call);
      need(error.kind() == ErrorKind::user && says(error, what), error.what());
    };
    refused("3 counts for 2", [&] { comm.all_gather_v(x.data(), y.data(), three, Dtype::i64); });
    refused("count of -1", [&] { comm.reduce_scatter_v(x.data(), y.data(), negative, Dtype::i64); });
    refused("64 bits", [&] { comm.all_to_all_v(x.data(), huge, y.data(), two, Dtype::i64); });
    refused("64 bits", [&] { comm.all_gather(x.data(), y.data(), INT64_MAX / 8, Dtype::i64); });
    refused("64 bits", [&] { comm.all_reduce(x.data(), y.data(), INT64_MAX / 4, Dtype::i64); });
    refused("own part", [&] { comm.scatter_v(x.data(), two, y.data(), 5, Dtype::i64, comm.rank()); });
    refused("null", [&] { comm.all_to_all_v(nullptr, two, y.data(), two, Dtype::i64); });
  });
}

}  // namespace
}  // namespace weft::test
