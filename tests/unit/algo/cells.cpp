#include "tests/unit/algo/cells.h"

#include <cstring>

#include "weft/base/dtype.h"

namespace weft::algo {
namespace {

using Bytes = std::vector<unsigned char>;
constexpr size_t canaries = 32;
constexpr unsigned char canary = 0xa5, poison = 0xee;

class Run {
 public:
  Run(const plan::Plan& plan, const Case& test)
      : test_(test), instance_(plan, test.ranks), x_(plan::find_buffer(plan, "x")), y_(plan::find_buffer(plan, "y")) {
    if (x_ >= 0) dtype_ = instance_.dtype(x_);
    for (int r = 0; r < test.ranks; ++r) bind(r);
  }

  void run(const std::string& who) {
    plan::InterpretOptions options;
    options.seed = test_.seed;
    options.delay = test_.seed % 2 == 0 ? 0 : 0.25;
    options.launches = 2;
    options.chunk_elements.assign(instance_.plan().spaces.size(), test_.chunk);
    fill(0);
    plan::interpret(instance_, args_, options, [&](int launch) {
      check(launch, who);
      fill(launch + 1);
    });
    check(1, who);
  }

 private:
  struct Memory {
    Bytes bytes;
    int64_t own = -1;  // the part that lies here alone
    bool here = true;
  };

  plan::SpaceExtent extent(size_t space, int rank) const {
    plan::SpaceExtent result;
    const plan::Space& s = instance_.plan().spaces[space];
    const int64_t parts = instance_.parts(static_cast<int>(space));
    if (s.kind == plan::Space::Kind::fixed) return result;
    if (!s.by_buffer.empty()) {
      result.extent = plan::OnDevice{};
    } else if (s.kind == plan::Space::Kind::given) {
      plan::Given given;
      for (int64_t p = 0; p < parts; ++p) given.counts.push_back(given_count(s.name, rank, static_cast<int>(p)));
      result.extent = given;
    } else {
      result.extent = plan::Cut{1, s.kind == plan::Space::Kind::equal ? test_.elements * parts : test_.elements, 1};
    }
    return result;
  }
  int64_t given_count(const plan::Id& space, int rank, int part) const {
    if (test_.request.collective != Collective::all_to_all) return test_.counts[static_cast<size_t>(part)];
    const int from = space == "b" ? part : rank, to = space == "b" ? rank : part;
    return test_.counts[static_cast<size_t>(from * test_.ranks + to)];
  }

  // The sizes of all parts, also of those that a buffer gives in the launch itself.
  plan::Extents extents_of(int rank) const {
    plan::Extents extents(instance_, args_[static_cast<size_t>(rank)].spaces, {});
    for (size_t s = 0; s < instance_.plan().spaces.size(); ++s) {
      const plan::Space& space = instance_.plan().spaces[s];
      if (space.by_buffer.empty()) continue;
      std::vector<int64_t> counts;
      for (int p = 0; p < test_.ranks; ++p) counts.push_back(given_count(space.name, rank, p));
      extents.set_given(static_cast<int>(s), counts);
    }
    return extents;
  }

  bool in_place() const {
    return test_.in_place && y_ >= 0 && !instance_.plan().buffers[static_cast<size_t>(y_)].alias.empty();
  }

  // A root's buffers: the others have none.
  bool has(int buffer, int rank) const {
    const Collective c = test_.request.collective;
    if (c == Collective::scatter && buffer == x_) return rank == test_.request.root;
    if (c == Collective::gather && buffer == y_) return rank == test_.request.root;
    return instance_.own_part(buffer, rank) != expr::none;
  }

  void bind(int rank) {
    plan::LaunchArgs launch;
    for (size_t s = 0; s < instance_.plan().spaces.size(); ++s) launch.spaces.push_back(extent(s, rank));
    args_.push_back(launch);
    const plan::Extents extents = extents_of(rank);
    std::vector<Memory>& memory = memory_.emplace_back();
    for (int b = 0; b < static_cast<int>(instance_.plan().buffers.size()); ++b) {
      Memory& m = memory.emplace_back();
      m.here = instance_.plan().buffers[static_cast<size_t>(b)].role != plan::Buffer::Role::scratch && has(b, rank);
      const int64_t own = instance_.own_part(b, rank);
      m.own = own == expr::none ? -1 : own;
      const int space = instance_.buffer_space(b);
      const int64_t count = !m.here ? 0 : m.own >= 0 ? extents.part_size(space, m.own) : extents.elements(space);
      m.bytes.assign(static_cast<size_t>(count * size_bytes(instance_.dtype(b))), poison);
      m.bytes.insert(m.bytes.end(), canaries, canary);
      if (instance_.plan().buffers[static_cast<size_t>(b)].role == plan::Buffer::Role::scratch)
        launch.buffers.emplace_back(std::monostate());
      else
        launch.buffers.emplace_back(plan::Dense{});
    }
    for (size_t b = 0; b < memory.size(); ++b)
      if (memory[b].here) std::get<plan::Dense>(launch.buffers[b]).data = memory[b].bytes.data();
    if (in_place()) launch.buffers[static_cast<size_t>(y_)] = launch.buffers[static_cast<size_t>(x_)];
    if (test_.request.premultiply) launch.scalars = {expr::ScalarValue{false, 0, test_.scale}};
    args_.back() = launch;
  }

  // Encodes rank and position, in values whose sums and products stay exact in the dtype, whatever their order.
  double value(int rank, int64_t position, int launch) const {
    const int64_t mixed = rank * 5 + position * 3 + launch + position / 4;
    if (size_bytes(dtype_) < 4 && (is_float(dtype_) || dtype_ == Dtype::boolean)) return static_cast<double>(mixed % 2);
    if (test_.request.reduction == kernel::Reduction::prod) return static_cast<double>(1 + mixed % 2);
    if (size_bytes(dtype_) == 1) return static_cast<double>(mixed % 13);
    const double sign = is_float(dtype_) || is_signed(dtype_) ? (mixed % 2 == 0 ? 1 : -1) : 1;
    return sign * static_cast<double>((rank + 1) * 1000 + position * 7 + launch * 13);
  }

  unsigned char* at(int rank, int buffer, const plan::Extents& extents, int64_t part, int64_t element) {
    Memory& m = memory_[static_cast<size_t>(rank)][static_cast<size_t>(buffer == y_ && in_place() ? x_ : buffer)];
    int64_t count = 0;
    const int space = instance_.buffer_space(buffer);
    const int64_t position = m.own >= 0 ? element : extents.run_at(space, part, element, element + 1, count);
    return m.bytes.data() + position * size_bytes(instance_.dtype(buffer));
  }

  template <typename F>
  void each_part(int rank, int buffer, F&& f) {
    const Memory& m = memory_[static_cast<size_t>(rank)][static_cast<size_t>(buffer)];
    if (!m.here) return;
    const plan::Extents extents = extents_of(rank);
    for (int64_t p = 0; p < instance_.parts(instance_.buffer_space(buffer)); ++p)
      if (m.own < 0 || m.own == p) f(extents, p, extents.part_size(instance_.buffer_space(buffer), p));
  }

  // inputs_[rank][part]: what x holds, kept, since y may lie in the same memory.
  void fill(int launch) {
    const int sends = plan::find_buffer(instance_.plan(), "sends");
    for (int r = 0; sends >= 0 && r < test_.ranks; ++r)
      for (int p = 0; p < test_.ranks; ++p)
        store_i64(Dtype::i64, memory_[static_cast<size_t>(r)][static_cast<size_t>(sends)].bytes.data() + 8 * p,
                  given_count("a", r, p));
    inputs_.assign(static_cast<size_t>(test_.ranks), {});
    for (int r = 0; x_ >= 0 && r < test_.ranks; ++r) {
      Memory& y = memory_[static_cast<size_t>(r)][static_cast<size_t>(y_)];
      if (y.here) std::memset(y.bytes.data(), poison, y.bytes.size() - canaries);
      each_part(r, x_, [&](const plan::Extents& extents, int64_t p, int64_t size) {
        Bytes& kept = inputs_[static_cast<size_t>(r)][p];
        for (int64_t i = 0; i < size; ++i) {
          unsigned char* to = at(r, x_, extents, p, i);
          store_f64(dtype_, to, value(r, p * 17 + i, launch));
          kept.insert(kept.end(), to, to + size_bytes(dtype_));
        }
      });
    }
  }

  Bytes scaled(Bytes values) const {
    for (size_t i = 0; test_.request.premultiply && i < values.size(); i += static_cast<size_t>(size_bytes(dtype_)))
      store_f64(dtype_, values.data() + i, test_.scale * load_f64(dtype_, values.data() + i));
    return values;
  }

  Bytes folded(int64_t part) const {
    Bytes sum = scaled(inputs_[0].at(part));
    const auto size = static_cast<size_t>(size_bytes(dtype_));
    for (int r = 1; r < test_.ranks; ++r)
      kernel::combine(test_.request.reduction, dtype_, sum.data(),
                      scaled(inputs_[static_cast<size_t>(r)].at(part)).data(), static_cast<int64_t>(sum.size() / size));
    for (size_t i = 0; test_.request.average && i < sum.size(); i += size)
      if (is_float(dtype_))
        store_f64(dtype_, sum.data() + i,
                  dtype_ == Dtype::f64
                      ? load_f64(dtype_, sum.data() + i) / test_.ranks
                      : static_cast<float>(load_f64(dtype_, sum.data() + i)) / static_cast<float>(test_.ranks));
      else
        store_i64(dtype_, sum.data() + i, load_i64(dtype_, sum.data() + i) / test_.ranks);
    return sum;
  }

  Bytes wanted(int rank, int64_t part) const {
    const PlanRequest& q = test_.request;
    const auto input = [&](int64_t r, int64_t p) { return inputs_[static_cast<size_t>(r)].at(p); };
    switch (q.collective) {
      case Collective::all_gather:
      case Collective::gather: return input(part, part);
      case Collective::broadcast:
      case Collective::scatter: return input(q.root, part);
      case Collective::all_to_all: return input(part, rank);
      case Collective::send_recv: return input(q.from, part);
      default: return folded(part);
    }
  }

  void check(int launch, const std::string& who) {
    for (int r = 0; r < test_.ranks; ++r) {
      for (const Memory& m : memory_[static_cast<size_t>(r)])
        for (size_t i = m.bytes.size() - canaries; i < m.bytes.size(); ++i)
          ASSERT_EQ(m.bytes[i], canary) << who << ": rank " << r << " writes behind a buffer";
      if (y_ < 0) continue;
      each_part(r, y_, [&](const plan::Extents& extents, int64_t p, int64_t size) {
        const Bytes want = wanted(r, p);
        ASSERT_EQ(static_cast<int64_t>(want.size()), size * size_bytes(dtype_)) << who;
        for (int64_t i = 0; i < size; ++i) {
          const unsigned char* expected = want.data() + i * size_bytes(dtype_);
          ASSERT_EQ(std::memcmp(at(r, y_, extents, p, i), expected, static_cast<size_t>(size_bytes(dtype_))), 0)
              << who << ": launch " << launch << " rank " << r << " part " << p << " element " << i << " is "
              << load_f64(dtype_, at(r, y_, extents, p, i)) << ", not " << load_f64(dtype_, expected);
        }
      });
    }
  }

  const Case& test_;
  plan::Instance instance_;
  int x_, y_;
  Dtype dtype_ = Dtype::f32;
  std::vector<plan::LaunchArgs> args_;
  std::vector<std::vector<Memory>> memory_;
  std::vector<std::map<int64_t, Bytes>> inputs_;
};

}  // namespace

void expect_cells(const plan::Plan& plan, const Case& test, const std::string& who) {
  try {
    Run(plan, test).run(who);
  } catch (const Error& error) { ADD_FAILURE() << who << ": " << error.what(); }
}

}  // namespace weft::algo
