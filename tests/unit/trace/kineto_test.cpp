// Kineto: what is read is what was there, played as measured it takes what the trace took to the nanosecond, and what is
// damaged, unknown or contradictory is said with its file and event.
#include "weft/trace/kineto.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/source_dir.h"
#include "weft/base/error.h"
#include "weft/trace/replay.h"

namespace weft::trace {
namespace {

using nlohmann::json;

std::string us(int64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }

// A trace under construction: events as text, so that times keep their digits.
struct Maker {
  int rank = 0, world = 2;
  std::vector<std::string> events;
  void kernel(const std::string& name, int64_t begin_ns, int64_t ns, int stream, int correlation,
              const std::string& args = "") {
    events.push_back(fmt::format(
        R"({{"ph":"X","cat":"kernel","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{"device":0,"stream":{},"correlation":{},"grid":[8,1,1]{}}}}})",
        name, rank, stream, us(begin_ns), us(ns), stream, correlation, args));
  }
  void launch(int64_t at_ns, int correlation, int thread = 5) {
    events.push_back(fmt::format(
        R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":{},"ts":{},"dur":2,"args":{{"correlation":{}}}}})",
        thread, us(at_ns), correlation));
  }
  void range(const std::string& cat, const std::string& name, int64_t begin_ns, int64_t ns, const std::string& args,
             int thread = 5) {
    events.push_back(
        fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":9,"tid":{},"ts":{},"dur":{},"args":{{{}}}}})", cat, name,
                    thread, us(begin_ns), us(ns), args));
  }
  std::string text() const {
    std::string out = fmt::format(R"({{"schemaVersion":1,"distributedInfo":{{"backend":"nccl","rank":{},"world_size":{},
"pg_config":[{{"pg_name":"0","ranks":[0,1]}},{{"pg_name":"7","pg_size":1,"ranks":[{}]}}]}},"traceEvents":[
)",
                                  rank, world, rank);
    for (size_t i = 0; i < events.size(); ++i) out += (i ? ",\n" : "") + events[i];
    return out + "\n]}";
  }
};

const char* const sum = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)";
constexpr int64_t base = 1'683'564'902'174'220'123;  // ns since 1970: a double of microseconds would lose it

std::string said(const std::string& what, int64_t in, int64_t out) {
  return fmt::format(R"(,"Collective name":"{}","In msg nelems":{},"Out msg nelems":{},"Group size":2,"dtype":"Float",)"
                     R"("Process Group Name":"0","Process Group Ranks":"[0, 1]")",
                     what, in, out);
}
// Compute 1000, all_reduce beside 500 of it and beyond, compute that waits for it.
Maker step(int rank, int64_t late = 0) {
  Maker m;
  m.rank = rank;
  const int64_t t = base + late;
  m.kernel("gemm", t, 1000, 7, 1);
  m.kernel(sum, t + 500, 2500, 40, 2, said("allreduce", 1000, 1000));
  m.kernel("gemm", t + 3200, 300, 7, 3);
  return m;
}

const Tally::Entry* find(const Tally& tally, const std::string& part) {
  for (const auto& [what, entry] : tally.entries)
    if (what.find(part) != std::string::npos) return &entry;
  return nullptr;
}

TEST(Kineto, OverlapAndWaitsAreKept) {
  const Imported got = import_kineto_text({{"a.json", step(0).text()}});
  EXPECT_EQ(print(got.job), R"(job 1 job
ranks 2
group 0 0 0..1
rank 0 begin 0
  work 500
  start 0 all_reduce f32 1000 group 0 lane 40 measured 2500
  work 500
  wait 0
  work 500
)");
  EXPECT_EQ(find(got.report.read, "NCCL kernels")->count, 1);
  EXPECT_EQ(find(got.report.matched, "allreduce by the kernel's own")->count, 1);
  EXPECT_EQ(find(got.report.assumed, "ranks without a trace")->count, 1);
  EXPECT_EQ(replay(got.job, {}, {Ways::By::measured, {}, {}, {}}).end_ns, 3500);
}

TEST(Kineto, SizesByTheCallAroundTheLaunch) {
  Maker m;
  m.kernel("gemm", base, 1000, 7, 1);
  m.launch(base + 100, 2);
  m.range("user_annotation", "nccl:_all_gather_base", base + 50, 200,
          R"("Input Dims":[[10,20],[3]],"Input type":["c10::BFloat16","int"])");
  m.range("cpu_op", "record_param_comms", base + 40, 300, R"("Group size":2,"Process Group Name":"0")");
  m.launch(base + 100, 3, 6);  // another thread, where no call is
  m.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", base + 1000, 70, 40, 2);
  m.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", base + 1200, 80, 40, 3);
  m.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", base + 1300, 80, 40, 4);  // launched nowhere
  const Imported got = import_kineto_text({{"a.json", m.text()}});
  ASSERT_EQ(got.job.lines[0].operations.size(), 3u);
  const Operation& o = got.job.lines[0].operations[0];
  EXPECT_EQ(o.collective, sim::NcclCollective::all_gather);  // what was called, not the kernel's name
  EXPECT_EQ(o.dtype, Dtype::bf16);
  EXPECT_EQ(o.elements, 10 * 20 * 2);
  EXPECT_FALSE(got.job.lines[0].operations[1].collective);
  EXPECT_EQ(got.job.lines[0].operations[1].measured_ns, 210);  // it queued: from the end of the one before
  EXPECT_EQ(got.job.lines[0].operations[2].measured_ns, 80);
  const Tally::Entry* unknown = find(got.report.dropped, "with no call around their launch");
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->count, 2);
  EXPECT_EQ(unknown->example, "a.json event 6");
}

TEST(Kineto, DtypeAndSizeOfEachOperation) {
  struct Case {
    const char *name, *dtype;
    int64_t in, out, elements;
    Dtype is;
  };
  for (const Case& c :
       {Case{"allreduce", "Float", 8, 8, 8, Dtype::f32}, Case{"_allgather_base", "Half", 8, 16, 16, Dtype::f16},
        Case{"_reduce_scatter_base", "BFloat16", 16, 8, 16, Dtype::bf16},
        Case{"broadcast", "Long", 5, 5, 5, Dtype::i64}, Case{"_reduce_oop", "Double", 5, 5, 5, Dtype::f64},
        Case{"all_to_allv", "Byte", 7, 9, 9, Dtype::u8}, Case{"barrier", "Char", 1, 1, 1, Dtype::i8},
        Case{"allreduce_coalesced", "Float8_e4m3fn", 3, 3, 3, Dtype::f8e4m3}}) {
    Maker m;
    std::string args = said(c.name, c.in, c.out);
    args.replace(args.find("Float"), 5, c.dtype);
    m.kernel(sum, base, 10, 40, 1, args);
    const Imported got = import_kineto_text({{"a.json", m.text()}});
    const Operation& o = got.job.lines[0].operations.at(0);
    ASSERT_TRUE(o.collective) << c.name;
    EXPECT_EQ(o.elements, c.elements) << c.name;
    EXPECT_EQ(o.dtype, c.is) << c.name;
  }
}

TEST(Kineto, UnknownsAreCountedAndKeepTheirTime) {
  const auto dropped = [](const std::string& args, const std::string& part) {
    Maker m;
    m.kernel(sum, base, 10, 40, 1, args);
    const Imported got = import_kineto_text({{"a.json", m.text()}});
    EXPECT_TRUE(find(got.report.dropped, part)) << part;
    EXPECT_EQ(replay(got.job, {}, {Ways::By::measured, {}, {}, {}}).end_ns, 10);
    EXPECT_FALSE(got.job.lines[0].operations.at(0).collective);
  };
  const std::string good = said("allreduce", 8, 8);
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  dropped(with("allreduce", "gather"), "does not know (gather)");
  dropped(with("\"Float\"", "\"ComplexFloat\""), "dtype that is not known (ComplexFloat)");
  dropped(with("[0, 1]", "[0, 5]"), "ranks beyond the job's 2");
  dropped(with("[0, 1]", "[1]"), "not this rank's");
  dropped(R"(,"Collective name":"allreduce","dtype":"Float","Process Group Name":"0")", "without a size");
  dropped(R"(,"Collective name":"allreduce","In msg nelems":4,"Process Group Name":"0")", "without a dtype");
  dropped(R"(,"Collective name":"allreduce","In msg nelems":4,"dtype":"Float","Group size":1)",
          "whose ranks are not said");
}

// Lines of random kernels and operations, queued, overlapping, back to back: played as measured they take what they took.
TEST(Kineto, AsMeasuredToTheNanosecond) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
    Maker m;
    int64_t first = INT64_MAX, last = 0;
    const auto seen = [&](int64_t begin, int64_t ns) {
      first = std::min(first, begin);
      last = std::max(last, begin + ns);
    };
    int64_t at = base + upto(5000);
    int correlation = 0;
    for (int i = 0; i < 30; ++i) {
      const int64_t ns = upto(4000);
      m.kernel("gemm", at, ns, 7, ++correlation);
      seen(at, ns);
      at += ns + (upto(3) ? 0 : upto(6000));
    }
    for (int lane = 0; lane < 3; ++lane) {
      int64_t when = base + upto(8000);
      for (int i = 0; i < 8; ++i) {
        const int64_t ns = upto(7000);
        m.kernel(sum, when, ns, 40 + lane, ++correlation, said("allreduce", 8, 8));
        if (upto(2)) m.launch(when - upto(20000), correlation);
        seen(when, ns);
        when += ns + (upto(2) ? upto(300) : upto(9000)) - (upto(8) ? 0 : 200);
      }
    }
    std::shuffle(m.events.begin(), m.events.end(), random);
    const Imported got = import_kineto_text({{"a.json", m.text()}});
    const Replay r = replay(got.job, {}, {Ways::By::measured, {}, {}, {}});
    // Operations that queued may be started before everything else.
    EXPECT_GE(r.end_ns, last - first) << "seed " << seed;
    int64_t work = 0;
    for (const PlayedOperation& o : r.operations) work = std::max(work, o.end_ns);
    EXPECT_EQ(std::max(work, r.ranks[0].end_ns), r.end_ns);
    EXPECT_EQ(print(parse_job(print(got.job))), print(got.job));
  }
}

TEST(Kineto, ClocksThatDifferAreSetBack) {
  const Imported got = import_kineto_text({{"b.json", step(1, 7'000'000).text()}, {"a.json", step(0).text()}});
  ASSERT_EQ(got.job.lines.size(), 2u);
  EXPECT_EQ(got.job.lines[0].rank, 0);
  EXPECT_EQ(got.job.lines[0].begin_ns, 0);
  EXPECT_EQ(got.job.lines[1].begin_ns, 0);
  EXPECT_TRUE(
      find(got.report.assumed, "clock of rank 1 set back by 7000000 ns, by the ends of 1 collectives (within 0 ns)"));
}

// Rank 1 comes late to the all_reduce, which is long on rank 0 only because it waits there.
TEST(Kineto, WaitingIsNotTransfer) {
  Maker late;
  late.rank = 1;
  late.kernel("gemm", base, 2800, 7, 1);
  late.kernel(sum, base + 2800, 200, 40, 2, said("allreduce", 1000, 1000));
  const Imported got = import_kineto_text({{"a.json", step(0).text()}, {"b.json", late.text()}});
  topo::Cluster c;
  c.nodes = 1, c.gpus_per_node = 2, c.launch_us = 0.1;
  c.architecture = "hopper";
  c.memory_gb_per_s = 2000;
  c.intra = {"nvswitch", 1000, 300, 8, 20};
  const Replay r = replay(got.job, c, {});
  const PlayedOperation& o = r.operations.at(0);
  EXPECT_EQ(o.begin_ns, 2800);
  EXPECT_EQ(got.job.lines[o.last].rank, 1);
}

TEST(Kineto, DivergingRanksAreNamed) {
  Maker other = step(1);
  other.kernel(sum, base + 5000, 100, 40, 9, said("broadcast", 5, 5));
  Maker mine = step(0);
  mine.kernel(sum, base + 5000, 100, 40, 9, said("broadcast", 6, 6));
  try {
    import_kineto_text({{"a.json", mine.text()}, {"b.json", other.text()}});
    ADD_FAILURE() << "they differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::agreement);
    const std::string what = error.what();
    EXPECT_NE(
        what.find(
            "operation 1 of group 0 is broadcast of 6 f32 on rank 0 (a.json event 3), broadcast of 5 f32 on rank 1 "
            "(b.json event 3)"),
        std::string::npos)
        << what;
  }
  EXPECT_THROW(import_kineto_text({{"a.json", mine.text()}, {"b.json", step(1).text()}}), Error);
}

std::string why(const std::vector<std::pair<std::string, std::string>>& files) {
  try {
    import_kineto_text(files);
  } catch (const Error& error) { return error.what(); }
  return "nothing was wrong";
}

TEST(Kineto, FilesThatAreNoTrace) {
  EXPECT_NE(why({{"a.json", "{}"}}).find("a.json has no traceEvents"), std::string::npos);
  EXPECT_NE(why({{"a.json", ""}}).find("a.json: byte"), std::string::npos);
  EXPECT_NE(why({{"a.json", "{\"traceEvents\": [{\"ph\":\"X\",]}"}}).find("a.json: byte 28"), std::string::npos)
      << why({{"a.json", "{\"traceEvents\": [{\"ph\":\"X\",]}"}});
  EXPECT_NE(why({{"a.json", step(0).text()}, {"b.json", step(0).text()}}).find("are both of rank 0"),
            std::string::npos);
  Maker big = step(1);
  big.world = 4;
  EXPECT_NE(why({{"a.json", step(0).text()}, {"b.json", big.text()}}).find("b.json is of 4 ranks"), std::string::npos);
  EXPECT_NE(why({{"a.json", step(0).text()}, {"b.json", "{\"traceEvents\":[]}"}}).find("does not say its rank"),
            std::string::npos);
  std::string deep = "{\"traceEvents\":";
  for (int i = 0; i < 5000; ++i) deep += '[';
  EXPECT_NE(why({{"a.json", deep}}).find("nested more than 1000 deep"), std::string::npos);
}

// Cut anywhere: an error that names the byte, never a job of half a file.
TEST(Kineto, CutAnywhere) {
  const std::string whole = step(0).text();
  for (size_t n = 0; n < whole.size(); n += 3)
    EXPECT_NE(why({{"a.json", whole.substr(0, n)}}).find("a.json: byte"), std::string::npos) << n;
}

// Any byte changed: an import or an Error, nothing else.
TEST(Kineto, DamagedAnywhere) {
  const std::string whole = step(0).text();
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    for (int k = 0; k < 1 + i % 3; ++k) text[random() % text.size()] = "0919-.\"{}[],:eE+ax\\\x80"[random() % 20];
    try {
      const Imported got = import_kineto_text({{"a.json", text}});
      replay(got.job, {}, {Ways::By::measured, {}, {}, {}});
    } catch (const Error& error) { EXPECT_NE(error.kind(), ErrorKind::internal) << error.what(); }
  }
}

std::filesystem::path sample(const std::string& name) {
  const char* set = getenv("WEFT_SHARED");
  return (set ? std::filesystem::path(set) : std::filesystem::path(checkout_dir()) / ".." / "shared") / "data" / "sim" /
         "kineto" / name;
}

TEST(KinetoSamples, TwoA100) {
  const auto file = sample("hta_nccl_data_2xA100_ddp.json.gz");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const Imported got = import_kineto({file});
  EXPECT_EQ(got.job.ranks, 2);
  ASSERT_EQ(got.job.lines[0].operations.size(), 21u);
  EXPECT_EQ(find(got.report.matched, "allreduce by the kernel's own")->count, 15);
  EXPECT_EQ(find(got.report.matched, "broadcast by the kernel's own")->count, 6);
  EXPECT_EQ(find(got.report.read, "NCCL kernels")->count, 21);
  EXPECT_EQ(got.report.read.entries.at("kernels").count, 2679);
  EXPECT_EQ(find(got.report.read, "copies")->count, 1074);
  // 660,551.005 us from the first kernel to the end of the last, as the file has them.
  EXPECT_EQ(replay(got.job, {}, {Ways::By::measured, {}, {}, {}}).end_ns, 660'551'005);
}

TEST(KinetoSamples, OldOnesBySizesOfTheirCalls) {
  const auto file = sample("hta_rank0_of_16_sendrecv.json.gz");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const Imported got = import_kineto({file});
  EXPECT_EQ(got.job.ranks, 16);
  EXPECT_EQ(got.job.lines[0].operations.size(), 80u);
  EXPECT_EQ(find(got.report.matched, "alltoall by the call")->count, 45);
  EXPECT_EQ(find(got.report.matched, "reducescatterbase by the call")->count, 10);
  EXPECT_EQ(find(got.report.matched, "allgatherbase by the call")->count, 10);
  EXPECT_EQ(find(got.report.matched, "allreduce by the call")->count, 10);
  EXPECT_EQ(find(got.report.dropped, "with no call around their launch")->count, 5);
}

TEST(KinetoSamples, WithoutCollectives) {
  const auto file = sample("mi250_minitoy_train_ROCm6_2_kineto.json.gz");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const Imported got = import_kineto({file});
  EXPECT_TRUE(got.job.lines[0].operations.empty());
  EXPECT_GT(replay(got.job, {}, {Ways::By::measured, {}, {}, {}}).end_ns, 0);
}

}  // namespace
}  // namespace weft::trace
