// Plan text: what is canonical round-trips byte for byte, what is wrong is V1 with line, caret and remedy.
#include <gtest/gtest.h>

#include "tests/unit/plan/cases.h"

namespace weft::plan {
namespace {

TEST(PlanText, CasesAreCanonicalByteForByte) {
  const std::vector<std::string> names = cases::names();
  ASSERT_GE(names.size(), 22u);
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const std::string text = cases::text(name);
    const Plan plan = parse(text);
    EXPECT_EQ(print(plan), text);
    EXPECT_EQ(plan.name, name);
  }
}

TEST(PlanText, HashIsOfTheCanonicalText) {
  const std::string text = cases::text("ring_all_reduce");
  std::string loose = text;
  loose.replace(loose.find("(r+1) % n"), 9, "(r + 1)%n");
  loose += "# a comment\n";
  EXPECT_EQ(hash(parse(text)), hash(parse(loose)));
  std::string other = text;
  other.replace(other.find("slots 4"), 7, "slots 8");
  EXPECT_NE(hash(parse(text)), hash(parse(other)));
}

// LAMB as its specification first had it, norms as pairs in one buffer. What it left to prose is not here: the post, and
// the kernels' real bodies (these have the right arity and nothing else).
TEST(PlanText, LambWithPairs) {
  const std::string text = R"(plan 1 fused_ring_lamb
order any
round hops
let next = sel(n > 1, (r+1) % n, none)
let prev = sel(n > 1, (r+n-1) % n, none)
channels 2
space s parts n even
space t parts 4 fixed T of s by segment
buffer g s f16 in
buffer m s f32 state own r
buffer v s f32 state own r
buffer w s f32 state own r
buffer u s f32 scratch own r
buffer q t f64x2 scratch
buffer p s f16 out
link main simple slots 4 wire f16
link norm ll slots 1
kernel lamb_direction(step): a, m, v, w -> m, v, w
  m = m + a * step
kernel squares: w, u -> q
  q = sum(w * u)
kernel lamb_update(lr): w, u, q -> w, u
  w = w - lr * q
lane main:
  zero: 0 -> q[c]
  loop s slices 2:
    feed: g[r-1] -> >next
    for j in 2..n:
      red: sum(<prev, g[r-j]) -> >next
    fin: sum(<prev, g[r]), m[r], v[r], w[r] -> lamb_direction(step) -> m[r], v[r], u[r]
    nrm: w[r], u[r] -> squares -> +q[c]
  when c == 0:
    loc: sum(q[0], q[1]) -> q[2] after main{*}.nrm
    put: q[2] -> norm>0..r, norm>r+1..n
    tot: sum(norm<0..r, q[2], norm<r+1..n) -> q[3]
  loop s slices 2:
    upd: w[r], u[r], q[3] -> lamb_update(lr) -> w[r], p[r], >next after main{0}.tot
    for j in 1..n-1:
      fwd: <prev -> p[r-j], >next
    last: <prev -> p[r+1]
)";
  EXPECT_EQ(print(parse(text)), text);
}

// Every statement and every option once, in canonical form.
const char* const everything = R"(plan 1 everything
order fixed
round once
param k = 2
param T = bf16
param op = max
require n % k == 0
table ring[k][n] = 0 2 1 3 ; 3 1 2 0
table one[n] = 0 1 2 3
let at = ring[c][r]
let next = sel(one[r] == none, none, (at+1) % n)
channels k
space s parts n even grain 16
space e parts n equal
space o parts 2 equal like e
space v parts n given by counts
space w parts n given
space f parts n fixed
space z parts k+2 fixed 3 grain 2
space t parts 4 fixed N of s by segment
space l parts n even of s by row
space h parts n even of s by column
space b parts n even of s by block 16*k grain 4
buffer counts f i64 in
buffer x s T in mapped
buffer y s T out mapped own r alias x
buffer q t f64 scratch
buffer d s f32 scratch own (r+1) % n repl depth 2
buffer a v T inout
buffer g w T state
link main simple slots 4 wire T
link other ll128 slots 2
link fast ll slots 1
post y[p] = op(i in 0..n: x@i[p])
post d[p], y[p] = both(lr, step)(sum(i in 0..n: x@i[p]), one(x[p]), 1.5)
kernel both(lr, step): a, b, c -> d, e
  d = a + lr * b
  e = c * step
kernel one: a -> b
  b = a * 2.0
lane main:
  start:
  x[0] -> y[0]
  0 -> d[0]
  -2.5 -> d[1]
  for i in 0..n-1:
    for j in i..n:
      when i != j and not j == 0:
        dbl: op(x@0..n[j : k by -i run 2], <r+1) -> >r+i, y@next[0 : 2] after start, other{0}.go(i)@next, other{*}.red(i, j)@0..n lag 2, other.go
  loop s b slices 4:
    both: sum(<next, x[r]), x[r+1], 0 -> both(lr, step) -> y[r], +d[0 : n run 2], other>next
lane other:
  go: one<next -> y[0]
  loop v w:
    red: x[0] -> one -> y[0]
)";

TEST(PlanText, EveryStatementRoundTrips) {
  std::string text = everything;
  text.replace(text.find("one<next"), 8, "<next");  // `one` is a kernel, no link
  const Plan plan = parse(text);
  EXPECT_EQ(print(plan), text);
  EXPECT_EQ(print(parse(print(plan))), text);
  EXPECT_EQ(plan.spaces[4].kind, Space::Kind::given);
  EXPECT_EQ(plan.spaces[9].derived, Space::Derived::column);
  EXPECT_EQ(plan.buffers[4].depth, 2);
  EXPECT_TRUE(plan.buffers[4].repl);
  EXPECT_EQ(plan.families[2].protocol, Protocol::ll);
  EXPECT_EQ(plan.posts[0].var, "p");
  EXPECT_EQ(plan.posts[0].value.reduction_param, "op");
}

TEST(PlanText, StatementsComeInAnyOrderAndPrintInOne) {
  const Plan plan = parse(
      "plan 1 p\nspace s parts 1 even\nlet a = r\nbuffer x s f32 in\nround hops\norder any\nlane main:\n  x[a] -> k -> "
      "x[0]\nkernel k: a -> b\n  b = a + a\nchannels 2\n");
  EXPECT_EQ(print(plan),
            "plan 1 p\norder any\nround hops\nlet a = r\nchannels 2\nspace s parts 1 even\nbuffer x s f32 in\nkernel "
            "k: a -> b\n  b = a + a\nlane main:\n  x[a] -> k -> x[0]\n");
}

TEST(PlanText, OwnFamilyAndLaneAreLeftOut) {
  const Plan plan = parse(
      "plan 1 p\nspace s parts n even\nbuffer x s f32 in\nlink main simple slots 4\nlane main:\n  loop s:\n    a: "
      "main<r-1 -> x[r] after main.b\n    b: x[r] -> main>r+1 after main{c+1}.a\n");
  EXPECT_NE(print(plan).find("a: <r-1 -> x[r] after b\n"), std::string::npos);
  EXPECT_NE(print(plan).find("b: x[r] -> >r+1 after main{c+1}.a\n"), std::string::npos);
}

TEST(PlanText, BuiltPlansPrintLikeReadOnes) {
  Plan plan = cases::load("ring_all_reduce");
  auto& loop = std::get<Loop>(plan.lanes[0].body[0]);
  auto& feed = std::get<Step>(loop.body[0]);
  feed.targets[0].name = "main";  // the lane's own, said aloud
  EXPECT_EQ(print(plan), cases::text("ring_all_reduce"));
  EXPECT_EQ(print(feed), "feed: x[r-1] -> main>next");  // without the lane it cannot be left out
  EXPECT_EQ(print(feed.reduced.empty() ? feed.others[0] : feed.reduced[0]), "x[r-1]");
}

TEST(PlanText, FindsByName) {
  const Plan plan = cases::load("fused_ring_adam");
  EXPECT_EQ(find_space(plan, "s"), 0);
  EXPECT_EQ(find_buffer(plan, "w"), 3);
  EXPECT_EQ(find_family(plan, "main"), 0);
  EXPECT_EQ(find_lane(plan, "main"), 0);
  EXPECT_EQ(find_kernel(plan, "adam"), 0);
  EXPECT_EQ(find_buffer(plan, "nobody"), -1);
  EXPECT_EQ(space_of(plan, "w").name, "s");
  EXPECT_THROW(space_of(plan, "nobody"), Error);
}

// ---- V1: each refusal with its place

struct Wrong {
  const char* what;
  std::string from, to, where, message;
};

// A plan that is right, in which each row replaces one thing.
const char* const right = R"(plan 1 right
order any
round hops
param k = 2
param T = f32
require n % k == 0
table ring[n] = 0 1
let next = (r+1) % n
channels 2
space s parts n even
buffer x s T in
buffer y s T out alias x
link main simple slots 4
post y[p] = sum(i in 0..n: x@i[p])
kernel twice(lr): a, b -> d, e
  d = a + b
  e = lr * b
lane main:
  loop s slices 2:
    feed: x[r-1] -> >next
    for j in 2..n:
      red: sum(<next, x[r-j]) -> >next after feed
    fin: sum(<next, x[r]), x[r] -> twice(lr) -> y[r], >next
)";

const Wrong wrongs[] = {
    {"version", "plan 1", "plan 7", "1:6", "form 7, this program reads form 1"},
    {"no version", "plan 1 right", "plan right", "1:6", "is not a version"},
    {"no plan line", "plan 1 right", "program 1 right", "1:1", "begins with its form"},
    {"statement", "channels 2", "chanels 2", "9:1", "no statement `chanels`"},
    {"order", "order any", "order some", "2:7", "no order some"},
    {"order twice", "round hops", "order rank", "3:1", "stated twice"},
    {"round", "round hops", "round up", "3:7", "no rounding up"},
    {"param value", "param k = 2", "param k = two", "4:11", "no value of a parameter"},
    {"param twice", "param T = f32", "param k = f32", "5:7", "number k is declared twice"},
    {"unknown name", "let next = (r+1) % n", "let next = (rank+1) % n", "8:13", "no number rank"},
    {"name later", "let next = (r+1) % n", "let next = next+1", "8:12", "no number next"},
    {"r in require", "require n % k == 0", "require r % k == 0", "6:9", "same on all ranks"},
    {"r in channels", "channels 2", "channels r", "9:10", "same on all ranks"},
    {"dtype as number", "channels 2", "channels T", "9:10", "T is f32, not an integer"},
    {"taken name", "let next", "let c", "8:5", "c cannot name a number"},
    {"float", "channels 2", "channels 2.5", "9:10", "not an integer"},
    {"function", "(r+1) % n", "mod(r+1, n)", "8:12", "no function mod"},
    {"function arity", "(r+1) % n", "sel(r, n)", "8:12", "sel takes 3 arguments"},
    {"table", "let next = (r+1) % n", "let next = rings[r]", "8:12", "no table rings"},
    {"table rows", "= 0 1", "= 0 1 ; 2", "7:23", "rows of different lengths"},
    {"space kind", "parts n even", "parts n uneven", "10:15", "even, equal, given or fixed"},
    {"space twice", "buffer x s T in", "space s parts n even", "11:7", "space s is declared twice"},
    {"space of buffer", "buffer x s", "buffer x z", "11:10", "no space z"},
    {"dtype", "buffer x s T in", "buffer x s f31 in", "11:12", "no dtype f31"},
    {"role", "s T out alias", "s T result alias", "12:14", "no role result"},
    {"option", "alias x", "like x", "12:18", "`like` is not expected here"},
    {"alias later", "alias x", "alias z", "12:24", "no buffer z"},
    {"buffer name r", "buffer x s T in", "buffer r s T in", "11:8", "r cannot name a buffer"},
    {"grain", "parts n even", "parts n even grain 0", "10:28", "not a grain"},
    {"protocol", "link main simple", "link main tcp", "13:11", "no protocol tcp"},
    {"slots", "slots 4", "slots none", "13:24", "not a number of slots"},
    {"link", "-> >next\n    for", "-> up>next\n    for", "20:21", "no link up"},
    {"no link of the lane", "link main", "link other", "20:21", "no link main"},
    {"post buffer", "post y[p]", "post z[p]", "14:6", "no buffer z"},
    {"post without range", "sum(i in 0..n: x@i[p])", "sum(x@0..n[p])", "14:17", "a reduction without its range"},
    {"post kernel", "sum(i in 0..n: x@i[p])", "half(x[p])", "14:13", "no kernel or reduction half"},
    {"empty block", "      red: sum(<next, x[r-j]) -> >next after feed\n", "", "21:5", "an empty block"},
    {"loop in a loop", "for j in 2..n:", "loop s:", "21:10", "a loop in a loop"},
    {"loop space", "loop s slices 2", "loop z slices 2", "19:8", "no space z"},
    {"variable taken", "for j in 2..n:", "for next in 2..n:", "21:9", "declared twice"},
    {"range", "for j in 2..n:", "for j in n:", "21:14", "A..B"},
    {"colon", "for j in 2..n:", "for j in 2..n", "21:5", "ends with a colon"},
    {"indent", "    feed: x", "      feed: x", "20:7", "indented too far"},
    {"buffer of step", "feed: x[r-1]", "feed: z[r-1]", "20:11", "no buffer z"},
    {"variable outside", "x[r-1] -> >next\n", "x[r-j] -> >next\n", "20:15", "no number j"},
    {"no target", "feed: x[r-1] -> >next\n", "feed: x[r-1]\n", "20:11", "no target"},
    {"target received", "feed: x[r-1] -> >next", "feed: x[r-1] -> <next", "20:21", "cannot be received from"},
    {"source sent", "feed: x[r-1] -> >next", "feed: >next -> x[r-1]", "20:11", "cannot be sent to"},
    {"constant target", "feed: x[r-1] -> >next", "feed: x[r-1] -> 0", "20:21", "a constant cannot be written"},
    {"accumulating source", "feed: x[r-1] -> >next", "feed: +x[r-1] -> >next", "20:11", "accumulates"},
    {"accumulating link", "feed: x[r-1] -> >next", "feed: x[r-1] -> +>next", "20:21", "accumulates"},
    {"operand", "feed: x[r-1] -> >next", "feed: x -> >next", "20:11", "`x` is not an operand"},
    {"two values no kernel", "feed: x[r-1] -> >next", "feed: x[r-1], x[r] -> >next", "20:11", "no kernel to join"},
    {"reduction", "red: sum(", "red: total(", "22:12", "no reduction total"},
    {"second reduction", "x[r]), x[r] -> twice", "x[r]), sum(x[r]) -> twice", "23:28", "reduces once"},
    {"kernel", "-> twice(lr)", "-> thrice(lr)", "23:36", "no kernel thrice"},
    {"kernel inputs", "x[r]), x[r] -> twice", "x[r]) -> twice", "23:30", "takes 2 values, not 1"},
    {"kernel scalars", "-> twice(lr)", "-> twice", "23:36", "takes 1 scalars, not 0"},
    {"kernel outputs", "-> y[r], >next\n", "-> y[r]\n", "23:36", "gives 2 values to 1 targets"},
    {"kernel twice", "kernel twice(lr): a, b -> d, e\n",
     "kernel twice(lr): a, b -> d\n  d = a + b * lr\nkernel twice(lr): a, b -> d, e\n", "17:8", "declared twice"},
    {"await lane", "after feed", "after up.feed", "22:46", "no lane up"},
    {"await nothing", "after feed", "after", "22:7", "`after` what?"},
    {"lag", "after feed", "after feed lag 0", "22:55", "not a lag"},
    {"margin", "channels 2", "  channels 2", "9:3", "outside a block"},
    {"odd indent", "    feed: x", "   feed: x", "", "indented by 3 spaces"},
};

TEST(PlanText, TheRightPlanIsRight) { EXPECT_EQ(print(parse(right)), right); }

TEST(PlanText, WrongPlansAreV1WithTheirPlace) {
  for (const Wrong& wrong : wrongs) {
    SCOPED_TRACE(wrong.what);
    std::string text = right;
    const size_t at = text.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.from;
    text.replace(at, wrong.from.size(), wrong.to);
    try {
      parse(text);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      const std::string what = e.what();
      EXPECT_EQ(e.kind(), ErrorKind::plan);
      EXPECT_EQ(e.rule(), "V1");
      EXPECT_NE(what.find(wrong.message), std::string::npos) << what;
      if (!wrong.where.empty()) { EXPECT_EQ(what.substr(0, what.find(": ")), wrong.where) << what; }
    }
  }
}

TEST(PlanText, ErrorsPointAndHelp) {
  std::string text = right;
  text.replace(text.find("buffer x s T in"), 15, "buffer x s f31 in");
  try {
    parse(text);
    FAIL();
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find("11:12: V1: no dtype f31\n    buffer x s f31 in\n               ^^^\n"), 0u) << what;
    EXPECT_FALSE(e.remedy().empty());
  }
}

TEST(PlanText, HostileTextIsAnError) {
  const std::string deep(100000, '(');
  for (const std::string& text :
       {std::string(), std::string("\n\n"), std::string("plan"), std::string("plan 1"), "plan 1 p\nlet a = " + deep,
        "plan 1 p\nlane main:\n  x[" + deep, std::string("plan 1 p\nlane main:\n  :"),
        std::string("plan 1 p\nlane main:"), std::string("plan 1 p\nlane"), std::string("plan 1 p\nspace"),
        std::string("plan 1 p\nbuffer"), std::string("plan 1 p\nlink"), std::string("plan 1 p\npost"),
        std::string("plan 1 p\npost ="), std::string("plan 1 p\ntable ="), std::string("plan 1 p\ntable t[ = 1")})
    EXPECT_THROW(parse(text), Error) << text.substr(0, 40);
}

// Cutting any valid plan short, anywhere, gives a plan or an Error, never anything else.
TEST(PlanText, EveryPrefixParsesOrThrowsError) {
  const std::string text = right;
  int refused = 0;
  for (size_t length = 0; length < text.size(); ++length) try {
      parse(text.substr(0, length));
    } catch (const Error& e) {
      ++refused;
      EXPECT_NE(e.kind(), ErrorKind::internal) << e.what();
    }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace weft::plan
