// MSCCL schedules become plans that the verifier accepts and that give what their collective promises: through the
// interpreter in random orders and through CPU ranks, out of place and in place.
#include "weft/foreign/msccl.h"

#include "tests/unit/foreign/schedules.h"
#include "tests/unit/plan/run_plan.h"
#include "tests/unit/runtime/harness.h"
#include "weft/foreign/meaning.h"
#include "weft/plan/verify.h"

namespace weft::foreign {
namespace {

struct Case {
  std::string name, text;
  int root = 0;
};

std::vector<Case> all_cases() {
  std::vector<Case> list;
  for (const std::string& name : cases::names()) list.push_back({name, cases::text(name)});
  for (int n = 1; n <= 8; ++n) {
    list.push_back({fmt::format("ring_{}", n), cases::ring(n, "inplace=\"0\"", "o")});
    list.push_back({fmt::format("ring_in_place_{}", n), cases::ring(n, "inplace=\"1\"", "i")});
    list.push_back({fmt::format("ring_both_{}", n), cases::ring(n, "inplace=\"1\" outofplace=\"1\"", "o")});
    list.push_back({fmt::format("all_to_all_{}", n), cases::all_to_all(n, n % 3 + 1)});
    for (const char* collective : {"broadcast", "reduce"})
      list.push_back({fmt::format("{}_{}", collective, n), cases::chain(collective, n, n / 2), n / 2});
  }
  return list;
}

plan::Verdict verdict_of(const Msccl& schedule) {
  plan::VerifyOptions options;
  options.ranks = {schedule.ranks};
  options.cache = false;
  return plan::verify(schedule.plan, options);
}

std::string printed(const plan::Verdict& verdict) {
  std::string text;
  for (const plan::Finding& finding : verdict.findings) text += plan::print(finding) + "\n";
  return text;
}

int64_t encode(int rank, int64_t position) { return rank * 1000 + position % 97 + 1; }

// One run of the plan in the interpreter against what the collective must give. Returns whether it does.
testing::AssertionResult computes(const Msccl& schedule, int root, int64_t chunk_elements, uint64_t seed) {
  const plan::Plan& p = schedule.plan;
  plan::cases::PlanSizes sizes;
  sizes.equal_part = chunk_elements;
  plan::cases::PlanRun run(p, schedule.ranks, sizes, {{"T", "i32"}});
  const bool two = p.buffers.size() > 1 && p.buffers[1].role == plan::Buffer::Role::out;
  const plan::Id in = p.buffers[0].name, out = p.buffers[two ? 1 : 0].name;
  const int64_t in_parts = run.instance.parts(run.instance.buffer_space(0));
  const int64_t out_parts = run.instance.parts(run.instance.buffer_space(two ? 1 : 0));
  const int64_t whole = std::max(in_parts, out_parts), block = whole / schedule.ranks;
  const std::string& kind = schedule.collective;
  const bool within_output = !two && (kind == "allgather" || kind == "gather");
  const bool within_input = !two && (kind == "reduce_scatter" || kind == "scatter");
  run.fill(in, [](int rank, int64_t i) { return static_cast<double>(encode(rank, i)); });
  plan::InterpretOptions options;
  options.seed = seed;
  options.delay = seed % 3 == 0 ? 0.3 : 0;
  options.slot_payload_bytes = seed % 2 ? 16 : 64;
  run.run(options);
  testing::AssertionResult result = testing::AssertionSuccess();
  run.each(out, [&](int rank, int64_t i, int64_t position) {
    int64_t chunk = position / chunk_elements, want = 0;
    if (within_input) {
      if (chunk / block != rank) return;
      chunk %= block;
    }
    const auto input = [&](int q, int64_t k) {
      return encode(q, (within_output ? q * block + k : k) * chunk_elements + position % chunk_elements);
    };
    if (!cases::expected(kind, schedule.ranks, root, block, rank, chunk, input, want)) return;
    if (run.value(rank, out, i) != static_cast<double>(want))
      result = testing::AssertionFailure()
               << out << "@" << rank << "[" << position << "] is " << run.value(rank, out, i) << ", not " << want;
  });
  run.expect_canaries();
  return result;
}

TEST(Msccl, VerifiedAndReadBack) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const Msccl schedule = read_msccl(c.text);
    EXPECT_EQ(plan::print(plan::parse(plan::print(schedule.plan))), plan::print(schedule.plan));
    const plan::Verdict verdict = verdict_of(schedule);
    EXPECT_TRUE(verdict.ok()) << printed(verdict) << plan::print(schedule.plan);
    EXPECT_GT(verdict.steps, 0);
    EXPECT_EQ(schedule.stated, schedule.collective != "custom");
  }
}

TEST(Msccl, InterpretedEqualsReference) {
  uint64_t seed = 1;
  for (const Case& c : all_cases()) {
    const Msccl schedule = read_msccl(c.text);
    for (const int64_t elements : {1, 2, 3, 7, 16, 33}) {
      SCOPED_TRACE(fmt::format("{}, chunks of {}", c.name, elements));
      EXPECT_TRUE(computes(schedule, c.root, elements, seed++));
    }
  }
}

// What `weft run` holds results against, and what these tests do, say the same of every part: written apart.
TEST(Msccl, MeaningsAgree) {
  int asked = 0;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const Msccl schedule = read_msccl(c.text);
    const Ends ends = ends_of(schedule);
    const plan::Instance instance(schedule.plan, schedule.ranks);
    const bool one = ends.input == ends.result;
    const std::string& kind = schedule.collective;
    const bool in_input = one && kind == "reduce_scatter", in_output = one && kind == "allgather";
    for (int rank = 0; rank < schedule.ranks; ++rank)
      for (int64_t part = 0; part < instance.parts(instance.buffer_space(ends.result)); ++part) {
        int64_t got = 0, want = 0;
        for (const Source& source : sources_of(schedule, rank, part)) got += encode(source.rank, source.part);
        const auto input = [&](int q, int64_t k) { return encode(q, in_output ? q * schedule.block + k : k); };
        const bool mine = !in_input || part / schedule.block == rank;
        const int64_t chunk = in_input ? part % schedule.block : part;
        if (!mine || !cases::expected(kind, schedule.ranks, c.root, schedule.block, rank, chunk, input, want)) want = 0;
        EXPECT_EQ(got, want) << "rank " << rank << " part " << part;
        asked += want != 0;
      }
  }
  EXPECT_GT(asked, 500);
}

void run_on_ranks(const runtime::test::Start& start, const Case& c, int64_t elements, int pick) {
  const Msccl schedule = read_msccl(c.text);
  runtime::test::Sizes sizes;
  sizes.params = {{"T", pick % 2 ? "i32" : "f32"}};
  const plan::Instance instance(schedule.plan, schedule.ranks, sizes.params);
  for (size_t s = 0; s < schedule.plan.spaces.size(); ++s) {
    sizes.spaces.push_back(runtime::test::flat(s == 0 ? elements * instance.parts(0) : 0));
    sizes.chunk_elements.push_back(5);
  }
  sizes.in_place = pick % 2 == 1;
  runtime::test::RunOptions options;
  options.delays = pick % 3 == 0;
  options.asynchronous = pick % 3 == 1;
  ASSERT_NO_THROW(runtime::test::agree(start, schedule.plan, schedule.ranks, sizes, options));
}

TEST(Msccl, ThreadRanksEqualInterpreter) {
  int pick = 0;
  const size_t files = cases::names().size();
  const std::vector<Case> list = all_cases();
  for (size_t k = 0; k < list.size(); ++k)
    for (const int64_t elements : {17, 0, 1}) {
      if (k >= files && elements != 17) continue;
      SCOPED_TRACE(fmt::format("{}, chunks of {}", list[k].name, elements));
      run_on_ranks(&transport::run_threads, list[k], elements, pick++);
    }
}

TEST(Msccl, ProcessRanksEqualInterpreter) {
  int pick = 0;
  for (const std::string& name : cases::names()) {
    SCOPED_TRACE(name);
    run_on_ranks(&transport::run_processes, {name, cases::text(name)}, 17, pick++);
  }
}

TEST(Msccl, EveryStepTypeIsInTheCases) {
  std::string all;
  for (const std::string& name : cases::names()) all += cases::text(name);
  for (const char* type : {"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"})
    EXPECT_NE(all.find(fmt::format("type=\"{}\"", type)), std::string::npos) << type;
}

TEST(Msccl, OtherReductionsAndNames) {
  const std::string text = cases::with(cases::text("ring_allreduce"), "inplace=\"1\"", "inplace=\"1\" redop=\"max\"");
  const std::string plan = plan::print(read_msccl(text).plan);
  EXPECT_NE(plan.find("param op = max"), std::string::npos) << plan;
  const Msccl odd = read_msccl(cases::with(text, "name=\"ring_allreduce\"", "name=\"8 rings (fast)\""));
  EXPECT_EQ(odd.plan.name, "msccl_8_rings__fast_");
  EXPECT_TRUE(verdict_of(odd).ok());
  const std::string two = cases::with(cases::text("direct_reduce_scatter"), "reduce_scatter\"", "reducescatter\"", 1);
  EXPECT_EQ(read_msccl(two).collective, "reduce_scatter");
}

TEST(Msccl, KnownByItsFirstElement) {
  EXPECT_TRUE(is_msccl("<algo name=\"a\">"));
  EXPECT_TRUE(is_msccl("<?xml version=\"1.0\"?>\n<!-- a <algo -->\n  <algo>"));
  EXPECT_FALSE(is_msccl("<system version=\"1\">"));
  EXPECT_FALSE(is_msccl("plan 1 algo"));
  EXPECT_FALSE(is_msccl("<!-- <algo"));
}

// A count of 0 moves nothing, whatever its type; a block without steps is no lane.
TEST(Msccl, NothingMovesNothing) {
  const std::string text = cases::text("to_next");
  const std::string one = cases::with(text, "cnt=\"2\"", "cnt=\"0\"");
  EXPECT_FALSE(verdict_of(read_msccl(one)).ok());  // its receiver still waits
  std::string none = text;
  for (int k = 0; k < 4; ++k) none = cases::with(none, "cnt=\"2\"", "cnt=\"0\"");
  EXPECT_TRUE(verdict_of(read_msccl(none)).ok()) << printed(verdict_of(read_msccl(none)));
  const std::string idle = cases::with(text, "</gpu>", "<tb id=\"9\" send=\"-1\" recv=\"-1\" chan=\"-1\"></tb></gpu>");
  EXPECT_EQ(read_msccl(idle).plan.lanes.size(), 1u);
}

// Attributes of a line that damage may touch, and what they become.
std::vector<std::pair<std::string, std::string>> damages(const std::string& line) {
  std::vector<std::pair<std::string, std::string>> list;
  const auto value = [&line](const std::string& name) {
    const size_t at = line.find(name + "=\"") + name.size() + 2;
    return line.substr(at, line.find('"', at) - at);
  };
  const auto change = [&](const std::string& name, const std::string& by) {
    if (value(name) != by)
      list.emplace_back(fmt::format("{}=\"{}\"", name, value(name)), fmt::format("{}=\"{}\"", name, by));
  };
  const auto other = [&](const std::string& name, int by) {
    change(name, std::to_string(std::stoi(value(name)) + by));
  };
  if (line.find("<step") != std::string::npos) {
    for (const char* name : {"srcoff", "dstoff", "cnt"}) other(name, 1), other(name, -1);
    for (const char* name : {"srcbuf", "dstbuf"})
      for (const char* by : {"i", "o", "s"}) change(name, by);
    for (const char* type : {"s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop"}) change("type", type);
    if (value("depid") != "-1") change("depid", "-1"), other("deps", -1), other("deps", 1);
  } else if (line.find("<tb") != std::string::npos) {
    for (const char* name : {"send", "recv", "chan"}) other(name, 1), other(name, -1);
  }
  return list;
}

// Nothing wrong is accepted: a damaged schedule is refused (when read, or by the verifier, with rule, rank and step), or
// it still computes what it must, in every order tried.
TEST(Msccl, DamagedOnesAreRefusedOrStillRight) {
  int refused_when_read = 0, refused = 0, right = 0;
  for (const std::string& name : cases::names()) {
    const std::string text = cases::text(name);
    for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
      end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      for (const auto& [old, by] : damages(line)) {
        const std::string damaged = text.substr(0, begin) + cases::with(line, old, by) + text.substr(end);
        SCOPED_TRACE(fmt::format("{}: {} -> {} in {}", name, old, by, line));
        Msccl schedule;
        try {
          schedule = read_msccl(damaged);
        } catch (const Error& error) {
          ++refused_when_read;
          EXPECT_EQ(error.kind(), ErrorKind::plan) << error.what();
          EXPECT_NE(std::string(error.what()).find("gpu "), std::string::npos) << error.what();
          continue;
        }
        const plan::Verdict verdict = verdict_of(schedule);
        if (!verdict.ok()) {
          ++refused;
          EXPECT_FALSE(verdict.findings[0].rule.empty());
          EXPECT_GE(verdict.findings[0].rank, 0) << printed(verdict);
          EXPECT_FALSE(verdict.findings[0].step.empty() && verdict.findings[0].cell.empty()) << printed(verdict);
          continue;
        }
        ++right;
        for (uint64_t seed = 1; seed <= 6; ++seed) EXPECT_TRUE(computes(schedule, 0, 3, seed));
      }
    }
  }
  fmt::print("{} refused when read, {} by the verifier, {} change nothing\n", refused_when_read, refused, right);
  EXPECT_GT(refused_when_read, 100);
  EXPECT_GT(refused, 300);
}

// Schedules of others that lie beside the checkout.
TEST(Msccl, SharedSchedules) {
  const char* set = getenv("WEFT_SHARED");
  const std::filesystem::path folder = set ? set : checkout_dir() + "/../shared";
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder))
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().extension() == ".xml" && is_msccl(read_file(entry.path()))) files.push_back(entry.path());
  if (files.empty()) GTEST_SKIP() << "no MSCCL schedule under " << folder;
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    const Msccl schedule = read_msccl(read_file(file));
    const plan::Verdict verdict = verdict_of(schedule);
    EXPECT_TRUE(verdict.ok()) << printed(verdict);
    EXPECT_TRUE(computes(schedule, 0, 3, 1));
    run_on_ranks(&transport::run_threads, {file.string(), read_file(file)}, 7, 1);
  }
}

}  // namespace
}  // namespace weft::foreign
