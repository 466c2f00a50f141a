#include "tests/unit/lower/support.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/support/source_dir.h"
#include "weft/ir/evaluate_op.h"

namespace weft::lower {

std::string read_example(const std::string& name) {
  std::ifstream file(checkout_dir() + "/examples/" + name + ".weft");
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_FALSE(text.str().empty()) << "examples/" << name << ".weft";
  return text.str();
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

schedule::Schedule fused_schedule(const std::string& example, const std::string& launch) {
  static const std::map<std::string, std::string> texts = {
      {"adam", "split a\nreorder m1 v1 u w1\nstore m v w\nfuse f: a.s m1.s v1.s u.s w1.s w1\n"},
      {"sgd", "split a\nreorder d m1 w1\nstore m w\nfuse f: a.s d.s m1.s w1.s w1\n"},
      {"adam_mixed", "split a\nreorder d m1 v1 u w1 p\nstore m v w\nfuse f: a.s d.s m1.s v1.s u.s w1.s p.s p\n"},
      {"adamw", "split a\nreorder q d m1 v1 u w1\nstore m v w\nfuse f: a.s q.p q c d.s m1.s v1.s u.s w1.s w1\n"},
      {"lamb",
       "split a\nreorder m1 v1 u\ncut nw 0\nreorder nu w1\nstore m v w\nfuse f: a.s m1.s v1.s u.s nw.p nw nu.p nu t "
       "w1.s w1\n"},
      {"attention_end", "split s\nreorder d y\nfuse f: s.s d.s y.s y\n"},
  };
  return schedule::parse_schedule(fmt::format("schedule 1 fused of {}\n{}{}", example, texts.at(example), launch));
}

namespace {

// The whole value of every input and state: [rank] for local ones, else one.
using Wholes = std::map<ir::Name, std::vector<ir::Tensor>>;

ir::Sizes sizes_of(const ir::Program& program, int ranks, const Sizing& sizing) {
  ir::Sizes sizes;
  sizes.ranks = ranks;
  sizes.dims = sizing.dims;
  for (const ir::HeaderDecl& decl : program.header) {
    if (const auto* tensors = std::get_if<ir::TensorsDecl>(&decl)) sizes.tensors[tensors->name] = sizing.shapes;
    if (const auto* scalar = std::get_if<ir::ScalarDecl>(&decl))
      sizes.scalars[scalar->name] = scalar->dtype == Dtype::i64
                                        ? expr::ScalarValue{true, 3, 3}
                                        : expr::ScalarValue{false, 0, scalar->name == "scale" ? 4.0 : 0.01};
  }
  return sizes;
}

ir::Tensor random_tensor(const ir::Type& type, const ir::Sizes& sizes, std::mt19937_64& random, bool positive) {
  ir::Tensor tensor;
  tensor.dtype = type.dtype;
  tensor.shape = ir::shape_of(type.shape, sizes);
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  for (int64_t k = 0; k < count; ++k) {
    if (!is_float(type.dtype)) {
      unsigned char bytes[8] = {};
      store_i64(type.dtype, bytes, static_cast<int64_t>(random() % 19) - 9);
      tensor.i.push_back(load_i64(type.dtype, bytes));
      continue;
    }
    const double value = static_cast<double>(random() % 4001) / 1000.0 - 2.0;
    unsigned char bytes[8];
    store_f64(type.dtype, bytes, positive ? std::abs(value) + 0.01 : value);
    tensor.f.push_back(load_f64(type.dtype, bytes));
  }
  return tensor;
}

// v of Adam is a mean of squares.
bool is_positive(const ir::TensorDecl& decl) { return decl.state && decl.name == "v"; }

Wholes random_wholes(const ir::Program& program, const ir::Sizes& sizes, std::mt19937_64& random, bool states) {
  Wholes wholes;
  for (const ir::TensorDecl& decl : program.tensors) {
    if (decl.state && !states) continue;
    const ir::GroupRanks group = ir::group_ranks(program, decl.type.group, sizes);
    const bool local = std::holds_alternative<ir::Local>(decl.type.layout);
    std::vector<ir::Tensor> each;  // of each rank, or each group
    for (int k = 0; k < (local ? sizes.ranks : group.groups()); ++k)
      each.push_back(random_tensor(decl.type, sizes, random, is_positive(decl)));
    for (int r = 0; r < sizes.ranks; ++r)
      wholes[decl.name].push_back(each[static_cast<size_t>(local ? r : group.group_of[static_cast<size_t>(r)])]);
  }
  return wholes;
}

double element(const ir::Tensor& tensor, int64_t k) {
  return is_float(tensor.dtype) ? tensor.f[static_cast<size_t>(k)]
                                : static_cast<double>(tensor.i[static_cast<size_t>(k)]);
}

// The slice of dimension d that a rank holds in the evaluator's convention.
ir::Tensor slice(const ir::Tensor& whole, int d, int rank, int ranks) {
  ir::Tensor part;
  part.dtype = whole.dtype;
  part.shape = whole.shape;
  const auto [begin, end] = ir::slice_of(whole.shape[static_cast<size_t>(d)], rank, ranks);
  part.shape[static_cast<size_t>(d)] = end - begin;
  int64_t outer = 1, inner = 1;
  for (size_t k = 0; k < whole.shape.size(); ++k)
    (static_cast<int>(k) < d   ? outer
     : static_cast<int>(k) > d ? inner
                               : part.shape[static_cast<size_t>(d)]) *= static_cast<int>(k) == d ? 1 : whole.shape[k];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t a = begin; a < end; ++a)
      for (int64_t i = 0; i < inner; ++i) {
        const int64_t at = (o * whole.shape[static_cast<size_t>(d)] + a) * inner + i;
        if (is_float(whole.dtype))
          part.f.push_back(whole.f[static_cast<size_t>(at)]);
        else
          part.i.push_back(whole.i[static_cast<size_t>(at)]);
      }
  return part;
}

ir::Values evaluator_inputs(const ir::Program& program, const Wholes& wholes, int ranks) {
  ir::Values values;
  for (const ir::TensorDecl& decl : program.tensors) {
    ir::Sizes sizes;
    sizes.ranks = ranks;
    const ir::GroupRanks group = ir::group_ranks(program, decl.type.group, sizes);
    for (int r = 0; r < ranks; ++r) {
      const ir::Tensor& mine = wholes.at(decl.name)[static_cast<size_t>(r)];
      const auto* sliced = std::get_if<ir::Sliced>(&decl.type.layout);
      values[decl.name].push_back(
          sliced ? slice(mine, sliced->dim, group.index_of[static_cast<size_t>(r)], group.size()) : mine);
    }
  }
  return values;
}

// Memory of the launch: per rank and buffer, with canaries behind.
class Launcher {
 public:
  Launcher(const Lowered& lowered, const ir::Sizes& sizes)
      : lowered_(lowered), sizes_(sizes), instance_(lowered.plan, sizes.ranks) {
    memory_.resize(static_cast<size_t>(sizes.ranks));
    for (int r = 0; r < sizes.ranks; ++r) {
      std::map<ir::Name, plan::Binding> bindings;
      for (size_t b = 0; b < lowered.buffers.size(); ++b) {
        const BufferRecipe& recipe = lowered.buffers[b];
        if (recipe.value.empty()) continue;
        auto& bytes = memory_[static_cast<size_t>(r)][name_of(recipe)];
        bytes.assign(static_cast<size_t>(buffer_bytes(lowered, sizes, r, static_cast<int>(b))) + canaries, 0xa5);
        bindings[name_of(recipe)] = plan::Dense{bytes.data()};
      }
      args_.push_back(launch_args(lowered, sizes, r, bindings));
    }
    extents_.emplace(instance_, args_[0].spaces, lowered.chunk_elements);
  }

  static const ir::Name& name_of(const BufferRecipe& recipe) { return recipe.state ? recipe.state_name : recipe.value; }

  // Calls f(position in the whole value, address) for every element that this rank has of a buffer.
  template <typename F>
  void each(int rank, int buffer, F&& f) {
    const int space = instance_.buffer_space(buffer);
    const int64_t own = instance_.own_part(buffer, rank), bytes = size_bytes(instance_.dtype(buffer));
    unsigned char* base =
        memory_[static_cast<size_t>(rank)].at(name_of(lowered_.buffers[static_cast<size_t>(buffer)])).data();
    for (int64_t p = 0; p < instance_.parts(space); ++p) {
      if (own == expr::none || (own >= 0 && own != p)) continue;
      const bool fixed = lowered_.plan.spaces[static_cast<size_t>(space)].kind == plan::Space::Kind::fixed;
      extents_->runs(space, p, {0, extents_->part_size(space, p)},
                     [&](int64_t offset, int64_t position, int64_t count) {
                       for (int64_t k = 0; k < count; ++k) {
                         const int64_t whole = fixed ? offset + k : position + k;
                         f(whole, base + (own >= 0 ? offset + k : whole) * bytes);
                       }
                     });
    }
  }

  void write(const Wholes& wholes) {
    for (size_t b = 0; b < lowered_.buffers.size(); ++b) {
      const BufferRecipe& recipe = lowered_.buffers[b];
      const auto whole = wholes.find(recipe.state ? recipe.state_name : recipe.value);
      if ((!recipe.input && !recipe.state) || recipe.value.empty() || whole == wholes.end()) continue;
      for (int r = 0; r < sizes_.ranks; ++r) {
        const ir::Tensor& tensor = whole->second[static_cast<size_t>(r)];
        each(r, static_cast<int>(b), [&](int64_t position, unsigned char* at) {
          if (is_float(tensor.dtype))
            store_f64(tensor.dtype, at, tensor.f[static_cast<size_t>(position)]);
          else
            store_i64(tensor.dtype, at, tensor.i[static_cast<size_t>(position)]);
        });
      }
    }
  }

  void run(const Agreement& how, uint64_t seed, const std::function<void(int)>& between) {
    plan::InterpretOptions options;
    options.seed = seed;
    options.delay = how.delay;
    options.launches = how.launches;
    options.chunk_elements = how.chunk.empty() ? lowered_.chunk_elements : how.chunk;
    plan::interpret(instance_, args_, options, between);
    for (auto& rank : memory_)
      for (const auto& [name, bytes] : rank)
        for (size_t k = bytes.size() - canaries; k < bytes.size(); ++k) ASSERT_EQ(bytes[k], 0xa5) << "behind " << name;
  }

  const plan::Instance& instance() const { return instance_; }

 private:
  static constexpr size_t canaries = 32;
  const Lowered& lowered_;
  const ir::Sizes& sizes_;
  plan::Instance instance_;
  std::vector<std::map<ir::Name, std::vector<unsigned char>>> memory_;
  std::vector<plan::LaunchArgs> args_;
  std::optional<plan::Extents> extents_;
};

struct Run {
  Results plan;
  std::map<ir::Name, std::vector<ir::Tensor>> reference;
};

// Slices are compared by their place in the whole value.
std::vector<ir::Tensor> whole(const ir::Type& type, std::vector<ir::Tensor> ranks, const ir::GroupRanks& group) {
  const auto* sliced = std::get_if<ir::Sliced>(&type.layout);
  if (!sliced) return ranks;
  for (const std::vector<int>& members : group.members) {
    if (!ir::present(type, group, members[0])) continue;
    std::vector<ir::Tensor> parts;
    for (const int r : members) parts.push_back(ranks[static_cast<size_t>(r)]);
    for (const int r : members) ranks[static_cast<size_t>(r)] = ir::concatenate(parts, sliced->dim);
  }
  return ranks;
}

Run run_both(const ir::Program& naive, const Lowered& lowered, int ranks, const Sizing& sizing, uint64_t seed,
             const Agreement& how) {
  const ir::Sizes sizes = sizes_of(naive, ranks, sizing);
  std::mt19937_64 random(seed);
  Wholes wholes = random_wholes(naive, sizes, random, true);
  Launcher launcher(lowered, sizes);
  launcher.write(wholes);
  std::vector<Wholes> later;
  for (int k = 1; k < how.launches; ++k) later.push_back(random_wholes(naive, sizes, random, false));
  launcher.run(how, seed, [&](int launch) {
    if (launch >= 0 && launch < static_cast<int>(later.size())) launcher.write(later[static_cast<size_t>(launch)]);
  });

  Run run;
  const ir::Types types = ir::infer(naive);
  ir::Values values = evaluator_inputs(naive, wholes, ranks);
  ir::EvaluateOptions options;
  options.round_named = how.round_named;
  for (int k = 0; k < how.launches; ++k) {
    const ir::Result result = ir::evaluate(naive, sizes, values, options);
    const auto whole_of = [&](const ir::Name& name, const std::vector<ir::Tensor>& list) {
      return whole(types.at(name), list, ir::group_ranks(naive, types.at(name).group, sizes));
    };
    for (const ir::Update& update : naive.updates)
      values[update.state] = result.values.at("update:" + update.state),
      run.reference[update.state] = whole_of(update.state, values[update.state]);
    for (const ir::Out& out : naive.outs) run.reference[out.value] = whole_of(out.value, result.values.at(out.value));
    if (k + 1 == how.launches) break;
    const ir::Values next = evaluator_inputs(
        naive,
        [&] {
          Wholes all = wholes;
          for (const auto& [name, tensors] : later[static_cast<size_t>(k)]) all[name] = tensors;
          return all;
        }(),
        ranks);
    for (const ir::TensorDecl& decl : naive.tensors)
      if (!decl.state) values[decl.name] = next.at(decl.name);
  }
  for (size_t b = 0; b < lowered.buffers.size(); ++b) {
    const BufferRecipe& recipe = lowered.buffers[b];
    if (!recipe.output && !recipe.state) continue;
    const ir::Name& name = Launcher::name_of(recipe);
    const Dtype dtype = launcher.instance().dtype(static_cast<int>(b));
    int64_t size = 0;
    for (int r = 0; r < ranks; ++r)
      launcher.each(r, static_cast<int>(b),
                    [&](int64_t position, unsigned char*) { size = std::max(size, position + 1); });
    for (int r = 0; r < ranks; ++r) {
      std::vector<double> values(static_cast<size_t>(size), std::numeric_limits<double>::quiet_NaN());
      launcher.each(r, static_cast<int>(b), [&](int64_t position, unsigned char* at) {
        const double value = is_float(dtype) ? load_f64(dtype, at) : static_cast<double>(load_i64(dtype, at));
        values[static_cast<size_t>(position)] =
            std::isnan(value) ? std::numeric_limits<double>::infinity() : value;  // NaN: not here
      });
      if (recipe.output && recipe.value != name) run.plan[recipe.value].push_back(values);  // both names
      run.plan[name].push_back(values);
    }
  }
  return run;
}

}  // namespace

Results run_plan(const ir::Program& naive, const ir::Program&, const Lowered& lowered, int ranks, const Sizing& sizing,
                 uint64_t seed, const Agreement& how) {
  return run_both(naive, lowered, ranks, sizing, seed, how).plan;
}

double agree(const ir::Program& naive, const ir::Program&, const Lowered& lowered, int ranks, const Sizing& sizing,
             uint64_t seed, const Agreement& how) {
  const Run run = run_both(naive, lowered, ranks, sizing, seed, how);
  double worst = 0;
  for (const auto& [name, tensors] : run.reference) {
    const auto found = run.plan.find(name);
    if (found == run.plan.end()) continue;  // a state that nothing updates
    int64_t compared = 0;
    for (int r = 0; r < ranks; ++r)
      for (size_t k = 0; k < found->second[static_cast<size_t>(r)].size(); ++k) {
        const double got = found->second[static_cast<size_t>(r)][k];
        const ir::Tensor& tensor = tensors[static_cast<size_t>(r)];
        if (static_cast<int64_t>(k) >= tensor.size()) continue;
        const double want = element(tensor, static_cast<int64_t>(k));
        if (std::isnan(got) && !std::isnan(want)) continue;  // this rank has no such element
        ++compared;
        const double difference = std::abs(got - want) / (1 + std::abs(want));
        worst = std::max(worst, difference);
        if (how.exact ? got != want : !(difference <= how.tolerance)) {
          ADD_FAILURE() << naive.name << ": " << name << "[" << k << "] on rank " << r << " of " << ranks << " is "
                        << got << ", wanted " << want << " (seed " << seed << ")";
          return worst;
        }
      }
    int64_t elements = 0;
    for (const ir::Tensor& tensor : tensors) elements = std::max(elements, tensor.size());
    EXPECT_GE(compared, elements) << naive.name << ": " << name << " was compared nowhere";
  }
  return worst;
}

}  // namespace weft::lower
