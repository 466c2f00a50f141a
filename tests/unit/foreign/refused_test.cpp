// What is wrong with a schedule is said with its place: by the reader with line, gpu, thread block and step; by the
// verifier with rule, rank (the gpu), lane (the thread block) and step.
#include <gtest/gtest.h>

#include <random>

#include "tests/unit/foreign/schedules.h"
#include "weft/plan/verify.h"

namespace weft::foreign {
namespace {

using cases::with;

// ---- the reader

struct Refusal {
  const char* what;
  std::string text;
  ErrorKind kind;
  const char *rule, *says;
};

std::vector<Refusal> refusals() {
  const std::string pairs = cases::text("allpairs_allreduce"), ring = cases::text("ring_allreduce"),
                    gather = cases::text("hierarchical_allgather"), a2a = cases::text("two_step_alltoall");
  const ErrorKind plan = ErrorKind::plan, unsupported = ErrorKind::unsupported;
  return {
      {"no XML", with(ring, "</gpu>", "</gp>"), plan, "V1", "11:5: V1: this is no XML"},
      {"cut off", ring.substr(0, ring.size() / 2), plan, "V1", "this is no XML"},
      {"another file", "<system version=\"1\"/>", plan, "V1", "1:1: V1: the first element is <system>"},
      {"nothing", "", plan, "V1", "this is no XML"},
      {"another element", with(ring, "<step s=\"0\"", "<wait s=\"0\""), plan, "V1",
       "5:7: V1: gpu 0 threadblock 0: <wait> in <tb>"},
      {"a later form", with(ring, "<step s=\"0\"", "<op s=\"0\""), unsupported, "", "<op> belongs to a later form"},
      {"no such type", with(ring, "type=\"rrs\"", "type=\"put\""), unsupported, "",
       "6:7: gpu 0 threadblock 0 step 1: steps of type put are not read"},
      {"no such collective", with(ring, "coll=\"allreduce\"", "coll=\"alltoallv\""), unsupported, "",
       "2:1: what coll=\"alltoallv\" must compute is not known"},
      {"no such protocol", with(ring, "proto=\"LL\"", "proto=\"LL64\""), unsupported, "", "proto=\"LL64\""},
      {"an attribute misspelt", with(ring, "depid=", "dep_id="), plan, "V1",
       "gpu 0 threadblock 0 step 0: <step> has no depid"},
      {"not a number", with(ring, "cnt=\"1\"", "cnt=\"1x\""), plan, "V1", "cnt=\"1x\""},
      {"too large a number", with(ring, "cnt=\"1\"", "cnt=\"99999999999999999999\""), plan, "V1", "cnt=\"999"},
      {"too many ranks", with(ring, "ngpus=\"3\"", "ngpus=\"5000\""), plan, "V1", "ngpus=\"5000\""},
      {"a gpu missing", with(ring, "ngpus=\"3\"", "ngpus=\"4\""), plan, "V1", "2:1: V1: there is no <gpu id=\"3\">"},
      {"a gpu twice", with(ring, "<gpu id=\"1\"", "<gpu id=\"0\""), plan, "V1", "12:3: V1: gpu 0: is there twice"},
      {"a block twice", with(pairs, "<tb id=\"1\"", "<tb id=\"0\""), plan, "V1", "gpu 0 threadblock 0: is there twice"},
      {"a step out of order", with(ring, "<step s=\"2\"", "<step s=\"3\""), plan, "V1",
       "gpu 0 threadblock 0 step 3: stands at place 2"},
      {"no such buffer", with(ring, "srcbuf=\"i\"", "srcbuf=\"x\""), plan, "V1", "srcbuf=\"x\""},
      {"a peer that is no rank", with(ring, "send=\"1\"", "send=\"3\""), plan, "V1", "send=\"3\""},
      {"a message to itself", with(ring, "send=\"1\"", "send=\"0\""), plan, "V3",
       "gpu 0 threadblock 0 step 0: send=\"0\" is this GPU itself"},
      {"a message to nobody", with(ring, "send=\"1\"", "send=\"-1\""), plan, "V3",
       "5:7: V3: gpu 0 threadblock 0 step 0: type s in a block with send=\"-1\""},
      {"a message from nobody", with(ring, "recv=\"2\"", "recv=\"-1\""), plan, "V3",
       "6:7: V3: gpu 0 threadblock 0 step 1: type rrs in a block with recv=\"-1\""},
      {"a peer without a channel", with(ring, "chan=\"0\"", "chan=\"-1\""), plan, "V1", "has a peer and no channel"},
      {"behind the input", with(ring, "srcoff=\"2\"", "srcoff=\"3\""), plan, "V2",
       "5:7: V2: gpu 0 threadblock 0 step 0: chunks 3 to 3 of buffer i, which has 3"},
      {"partly behind it",
       with(ring, "srcoff=\"2\" dstbuf=\"i\" dstoff=\"2\" cnt=\"1\"",
            "srcoff=\"2\" dstbuf=\"i\" dstoff=\"2\" cnt=\"2\""),
       plan, "V2", "chunks 2 to 3 of buffer i, which has 3"},
      {"before it", with(ring, "srcoff=\"2\"", "srcoff=\"-1\""), plan, "V1", "srcoff=\"-1\""},
      {"behind the output",
       with(gather, "dstbuf=\"o\" dstoff=\"4\" cnt=\"4\"", "dstbuf=\"o\" dstoff=\"5\" cnt=\"4\"", 1), plan, "V2",
       "chunks 5 to 8 of buffer o, which has 8"},
      {"behind the scratch", with(a2a, "dstbuf=\"s\" dstoff=\"0\"", "dstbuf=\"s\" dstoff=\"1\"", 1), plan, "V2",
       "of buffer s, which has 1"},
      {"a dependency on nothing", with(pairs, "depid=\"2\" deps=\"2\"", "depid=\"7\" deps=\"2\""), plan, "V6",
       "gpu 0 threadblock 0 step 2: depid=\"7\" deps=\"2\" names no step"},
      {"on no step", with(pairs, "depid=\"2\" deps=\"2\"", "depid=\"2\" deps=\"3\""), plan, "V6", "names no step"},
      {"on a step that does not tell", with(pairs, "hasdep=\"1\"", "hasdep=\"0\""), plan, "V6",
       "waits for step 1 of threadblock 0, which has hasdep=\"0\""},
      {"blocks that do not divide", with(gather, "nchunksperloop=\"8\"", "nchunksperloop=\"9\""), plan, "V1",
       "nchunksperloop=\"9\" is no multiple of ngpus=\"4\""},
      {"neither way", with(ring, "inplace=\"1\"", "inplace=\"0\" outofplace=\"0\""), plan, "V1", "neither in place"},
      {"a root that is no rank", with(ring, "inplace=\"1\"", "inplace=\"1\" root=\"3\""), plan, "V1", "root=\"3\""},
      {"no buffers",
       with(with(with(with(cases::text("to_next"), "i_chunks=\"2\" o_chunks=\"2\"", "i_chunks=\"0\" o_chunks=\"0\""),
                      "i_chunks=\"2\" o_chunks=\"2\"", "i_chunks=\"0\" o_chunks=\"0\""),
                 "i_chunks=\"2\" o_chunks=\"2\"", "i_chunks=\"0\" o_chunks=\"0\""),
            "cnt=\"2\"", "cnt=\"0\""),
       plan, "V1", "no GPU has an input or an output"},
  };
}

TEST(MscclRefused, WhenReadWithItsPlace) {
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.what);
    try {
      read_msccl(refusal.text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), refusal.kind) << error.what();
      EXPECT_EQ(error.rule(), refusal.rule) << error.what();
      EXPECT_NE(std::string(error.what()).find(refusal.says), std::string::npos) << error.what();
      EXPECT_FALSE(error.remedy().empty());
    }
  }
}

// A file without line breaks is not printed whole.
TEST(MscclRefused, ShortExcerptOfALongLine) {
  std::string text = with(cases::text("allpairs_allreduce"), "type=\"re\"", "type=\"xx\"");
  std::replace(text.begin(), text.end(), '\n', ' ');
  try {
    read_msccl(text);
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) { EXPECT_LT(std::string(error.what()).size(), 500u) << error.what(); }
}

// Damaged bytes are an error of one kind or a schedule, never anything else.
TEST(MscclRefused, RandomDamage) {
  std::mt19937_64 random(7);
  int refused = 0;
  for (const std::string& name : cases::names()) {
    const std::string text = cases::text(name);
    for (int trial = 0; trial < 400; ++trial) {
      std::string damaged = text;
      for (uint64_t k = random() % 4 + 1; k > 0; --k) {
        const size_t at = random() % damaged.size(), from = random() % damaged.size();
        const size_t size = std::min<size_t>(random() % 40, damaged.size() - from);
        switch (random() % 4) {
          case 0: damaged[at] = static_cast<char>(random() % 256); break;
          case 1: damaged.resize(std::max<size_t>(at, 1)); break;
          case 2: damaged.insert(at, damaged.substr(from, size)); break;
          case 3: damaged.erase(from, std::min(size, damaged.size() - 1)); break;
        }
      }
      try {
        plan::print(read_msccl(damaged).plan);
      } catch (const Error& error) {
        ++refused;
        EXPECT_TRUE(error.kind() == ErrorKind::plan || error.kind() == ErrorKind::unsupported) << error.what();
      }
    }
  }
  EXPECT_GT(refused, 1000);
}

// ---- the verifier

plan::Verdict verdict_of(const std::string& text) {
  const Msccl schedule = read_msccl(text);
  plan::VerifyOptions options;
  options.ranks = {schedule.ranks};
  options.cache = false;
  return plan::verify(schedule.plan, options);
}

void expect_finding(const std::string& text, const std::string& rule, int rank, const std::string& lane,
                    const std::string& step) {
  const plan::Verdict verdict = verdict_of(text);
  std::string all;
  bool found = false;
  for (const plan::Finding& finding : verdict.findings) {
    all += plan::print(finding) + "\n";
    found |= finding.rule == rule && finding.rank == rank && (lane.empty() || finding.lane == lane) &&
             (step.empty() || finding.step.find(step) == 0);
  }
  EXPECT_TRUE(found) << "no " << rule << " on rank " << rank << " " << lane << " " << step << " in:\n" << all;
}

const std::string waits = "cnt=\"1\" depid=\"2\" deps=\"2\"", waits_not = "cnt=\"1\" depid=\"-1\" deps=\"-1\"";

TEST(MscclRefused, DroppedDependency) {
  expect_finding(with(cases::text("allpairs_allreduce"), waits, waits_not), "V9", 0, "tb2", "s1");
  expect_finding(with(cases::text("allpairs_allreduce"), waits, waits_not, 5), "V9", 2, "tb2", "s1");
  // what the nop waits for, the step behind it needs
  expect_finding(with(cases::text("allpairs_allreduce"), "depid=\"1\" deps=\"1\"", "depid=\"-1\" deps=\"-1\""), "V9", 0,
                 "", "");
}

TEST(MscclRefused, WrongOffset) {
  expect_finding(with(cases::text("ring_allreduce"), "srcoff=\"2\"", "srcoff=\"1\""), "V11", 0, "", "");
  expect_finding(with(cases::text("direct_reduce_scatter"), "srcbuf=\"i\" srcoff=\"2\"", "srcbuf=\"i\" srcoff=\"0\""),
                 "V11", 1, "", "");
}

TEST(MscclRefused, WrongCount) {
  expect_finding(with(cases::text("hierarchical_allgather"), "cnt=\"2\"", "cnt=\"1\""), "V7", 1, "tb0", "s1");
}

TEST(MscclRefused, WrongPeer) {  // two ranks of a ring that send to the same one: nobody sends to gpu 0
  const std::string text =
      with(with(cases::text("allpairs_allreduce"), "<tb id=\"0\" send=\"1\"", "<tb id=\"0\" send=\"2\""),
           "<tb id=\"1\" send=\"2\"", "<tb id=\"1\" send=\"1\"");
  EXPECT_FALSE(verdict_of(text).ok());
  expect_finding(with(cases::text("ring_allreduce"), "send=\"1\" recv=\"2\"", "send=\"2\" recv=\"1\""), "V8", 0, "tb0",
                 "s1");
}

TEST(MscclRefused, CyclicWait) {
  std::string text = with(cases::text("hierarchical_allgather"), "cnt=\"2\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"",
                          "cnt=\"2\" depid=\"1\" deps=\"1\" hasdep=\"0\"");
  text = with(text, "cnt=\"4\" depid=\"0\" deps=\"1\" hasdep=\"0\"", "cnt=\"4\" depid=\"0\" deps=\"1\" hasdep=\"1\"");
  expect_finding(text, "V8", 0, "tb0", "s0");
  // a step that waits for a later one of its own block
  std::string own = with(cases::text("hierarchical_allgather"), "cnt=\"2\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"",
                         "cnt=\"2\" depid=\"0\" deps=\"1\" hasdep=\"0\"");
  expect_finding(own, "V8", 0, "tb0", "s0");
}

TEST(MscclRefused, OneConnectionTwoBlocks) {
  expect_finding(with(cases::text("hierarchical_allgather"), "<tb id=\"1\" send=\"2\" recv=\"2\" chan=\"1\"",
                      "<tb id=\"1\" send=\"1\" recv=\"1\" chan=\"0\""),
                 "V4", 0, "", "");
}

// Of the simple protocol two messages are on their way at most; here both ranks send three before they receive.
std::string exchange(const char* protocol) {
  std::string xml = fmt::format(
      "<algo name=\"x\" proto=\"{}\" nchannels=\"1\" nchunksperloop=\"6\" ngpus=\"2\" coll=\"alltoall\">\n", protocol);
  for (int r = 0; r < 2; ++r) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"6\" o_chunks=\"6\" s_chunks=\"0\">", r);
    xml += fmt::format("<tb id=\"0\" send=\"{}\" recv=\"{}\" chan=\"0\">", 1 - r, 1 - r);
    for (int k = 0; k < 3; ++k) xml += cases::step(k, "s", cases::at("i", 3 * (1 - r) + k), cases::at("o", 3 * r + k));
    for (int k = 0; k < 3; ++k) xml += cases::step(3 + k, "r", "i0", cases::at("o", 3 * (1 - r) + k));
    xml += cases::step(6, "cpy", cases::at("i", 3 * r), cases::at("o", 3 * r), 3) + "</tb></gpu>\n";
  }
  return xml + "</algo>";
}
TEST(MscclRefused, MoreOnTheWayThanAConnectionHolds) {
  EXPECT_TRUE(verdict_of(exchange("LL")).ok());
  expect_finding(exchange("Simple"), "V8", 0, "tb0", "s2");
}

TEST(MscclRefused, ReadBeforeWritten) {
  std::string text = cases::text("two_step_alltoall");
  text = with(text, "type=\"r\" srcbuf=\"i\" srcoff=\"2\" dstbuf=\"s\" dstoff=\"0\"",
              "type=\"r\" srcbuf=\"i\" srcoff=\"2\" dstbuf=\"o\" dstoff=\"3\"");
  expect_finding(text, "V10", 0, "tb1", "s2");
}

TEST(MscclRefused, InputIsWrittenOutOfPlace) {
  expect_finding(cases::ring(3, "inplace=\"0\"", "i"), "V5", 0, "tb0", "s2");
}

// Whether in place is right is checked apart: this one reads its input again after it has written there.
TEST(MscclRefused, RightOutOfPlaceOnly) {
  std::string xml =
      "<algo name=\"x\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"2\" coll=\"allreduce\" HOW>\n";
  for (int r = 0; r < 2; ++r) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"0\">", r);
    xml += fmt::format("<tb id=\"0\" send=\"{}\" recv=\"{}\" chan=\"0\">", 1 - r, 1 - r);
    xml += cases::step(0, "cpy", "i0", "o0") + cases::step(1, "s", "i0", "o0") + cases::step(2, "r", "i0", "o0") +
           cases::step(3, "re", "i0", "o0") + "</tb></gpu>\n";
  }
  xml += "</algo>";
  EXPECT_TRUE(verdict_of(with(xml, "HOW", "inplace=\"0\"")).ok());
  expect_finding(with(xml, "HOW", "inplace=\"1\" outofplace=\"1\""), "V11", 0, "", "");
  expect_finding(with(xml, "HOW", "inplace=\"1\""), "V11", 0, "", "");
}

// Two ranks add in their own order and have the same bits, three have not: a + b is b + a, no more.
std::string own_order(int n) {
  std::string xml = fmt::format(
      "<algo name=\"x\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"1\" ngpus=\"{}\" coll=\"allreduce\">\n", n);
  for (int r = 0; r < n; ++r) {
    xml += fmt::format("<gpu id=\"{}\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"{}\">", r, n);
    for (int q = 0; q < n; ++q) {
      if (q == r) continue;
      xml += fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"0\">", q, q, q);
      xml += cases::step(0, "s", "i0", "s0") + cases::step(1, "r", "i0", cases::at("s", q), 1, -1, -1, 1) + "</tb>";
    }
    xml += fmt::format("<tb id=\"{}\" send=\"-1\" recv=\"-1\" chan=\"0\">", r) + cases::step(0, "cpy", "i0", "o0");
    for (int q = 0, s = 1; q < n; ++q)
      if (q != r) xml += cases::step(s++, "re", cases::at("s", q), "o0", 1, q, 1);
    xml += "</tb></gpu>\n";
  }
  return xml + "</algo>";
}
TEST(MscclRefused, OtherBitsOnEveryRank) {
  EXPECT_TRUE(verdict_of(own_order(2)).ok());
  expect_finding(own_order(3), "V12", 2, "", "");
}

// A custom collective's result is not known, all else is checked.
TEST(MscclRefused, CustomIsCheckedForAllButItsResult) {
  const std::string text = cases::text("to_next"), whole = "srcoff=\"0\" dstbuf=\"o\" dstoff=\"0\" cnt=\"2\"",
                    half = "srcoff=\"1\" dstbuf=\"o\" dstoff=\"1\" cnt=\"1\"";
  EXPECT_TRUE(verdict_of(with(text, "inplace=\"0\"", "inplace=\"1\"")).ok());
  EXPECT_TRUE(verdict_of(with(with(text, whole, half), whole, half, 1)).ok());  // from 0 to 1, both half
  expect_finding(with(text, whole, half), "V7", 1, "tb0", "s1");
  expect_finding(with(text, "type=\"r\"", "type=\"nop\""), "V8", 0, "tb0", "s0");
}

}  // namespace
}  // namespace weft::foreign
