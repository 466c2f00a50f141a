#include "tests/unit/algo/support.h"

namespace weft::algo {

void fill_integers(Trial& trial) {
  trial.inputs.assign(static_cast<size_t>(trial.ranks), {});
  for (int r = 0; r < trial.ranks; ++r)
    for (int64_t i = 0; i < trial.elements; ++i)
      trial.inputs[static_cast<size_t>(trial.collective == Collective::all_gather ? 0 : r)].push_back(
          static_cast<double>((trial.collective == Collective::all_gather ? 0 : r + 1) * 1000 + i));
  if (trial.collective != Collective::all_gather) return;
  trial.inputs[0].resize(static_cast<size_t>(trial.elements));
  for (int r = 1; r < trial.ranks; ++r) trial.inputs[static_cast<size_t>(r)] = trial.inputs[0];
}

void fill_floats(Trial& trial, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> between(-1, 1);
  trial.inputs.assign(static_cast<size_t>(trial.ranks), std::vector<double>(static_cast<size_t>(trial.elements)));
  for (std::vector<double>& values : trial.inputs)
    for (double& value : values) value = between(random);
}

namespace {

struct Rank {
  std::vector<Memory> memory;
  plan::LaunchArgs args;
};

// Elements of a buffer that a rank has: the whole value, its own part, or nothing.
std::pair<int64_t, int64_t> held(const Trial& trial, const plan::Instance& instance, int buffer, int rank) {
  const int64_t own = instance.own_part(buffer, rank);
  if (own == expr::none) return {0, 0};
  if (own < 0 || instance.parts(instance.buffer_space(buffer)) == 1) return {0, trial.elements};
  return trial.parts[static_cast<size_t>(own)];
}

}  // namespace

void run(Trial& trial, const plan::Plan& plan) {
  const plan::Instance instance(plan, trial.ranks);
  plan::SpaceExtent extent;
  extent.extent = plan::Cut{1, trial.elements, 1};
  const plan::Extents extents(instance, {extent}, {});
  trial.parts.clear();
  for (int64_t p = 0, begin = 0; p < instance.parts(0); ++p) {
    trial.parts.emplace_back(begin, begin + extents.part_size(0, p));
    begin = trial.parts.back().second;
  }
  std::vector<Rank> ranks(static_cast<size_t>(trial.ranks));
  std::vector<plan::LaunchArgs> args;
  for (int r = 0; r < trial.ranks; ++r) {
    Rank& rank = ranks[static_cast<size_t>(r)];
    rank.args.spaces = {extent};
    for (const int buffer : {0, 1}) {
      const auto [begin, end] = held(trial, instance, buffer, r);
      rank.memory.emplace_back(end - begin, trial.dtype);
      for (int64_t i = begin; buffer == 0 && i < end; ++i)
        store_f64(trial.dtype, rank.memory[0].bytes.data() + (i - begin) * size_bytes(trial.dtype),
                  trial.inputs[static_cast<size_t>(r)][static_cast<size_t>(i)]);
    }
    rank.args.buffers.resize(plan.buffers.size());
    for (const size_t b : {size_t{0}, size_t{1}})
      rank.args.buffers[b].emplace<plan::Dense>().data = rank.memory[b].data();
    args.push_back(rank.args);
  }
  plan::InterpretOptions options;
  options.seed = trial.seed;
  options.chunk_elements = {1 + static_cast<int64_t>(trial.seed % 40)};
  plan::interpret(instance, args, options);
  trial.outputs.assign(static_cast<size_t>(trial.ranks), {});
  for (int r = 0; r < trial.ranks; ++r) {
    Memory& y = ranks[static_cast<size_t>(r)].memory[1];
    for (int64_t i = 0; i < y.count; ++i)
      trial.outputs[static_cast<size_t>(r)].push_back(
          load_f64(trial.dtype, y.bytes.data() + i * size_bytes(trial.dtype)));
    EXPECT_TRUE(y.canaries_whole()) << plan.name << " rank " << r << " writes behind y";
    EXPECT_TRUE(ranks[static_cast<size_t>(r)].memory[0].canaries_whole())
        << plan.name << " rank " << r << " writes behind x";
  }
}

std::vector<double> wanted(const Trial& trial, int rank, bool average) {
  const auto r = static_cast<size_t>(rank);
  std::vector<double> result;
  if (trial.collective == Collective::all_gather) return trial.inputs[0];
  if (trial.collective == Collective::broadcast) return trial.inputs[static_cast<size_t>(trial.root)];
  if (trial.collective == Collective::reduce && rank != trial.root) return {};
  auto [begin, end] =
      trial.collective == Collective::reduce_scatter ? trial.parts[r] : std::pair<int64_t, int64_t>{0, trial.elements};
  for (int64_t i = begin; i < end; ++i) {
    float sum = static_cast<float>(trial.inputs[0][static_cast<size_t>(i)]);
    for (int q = 1; q < trial.ranks; ++q)
      sum += static_cast<float>(trial.inputs[static_cast<size_t>(q)][static_cast<size_t>(i)]);
    result.push_back(average ? sum / static_cast<float>(trial.ranks) : sum);
  }
  return result;
}

}  // namespace weft::algo
