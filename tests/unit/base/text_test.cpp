// Lines, carets, words and numbers of the text forms.
#include "weft/base/text.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "weft/base/printable.h"

using namespace weft;

namespace {

template <typename F>
std::string what_of(F f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "no error";
}

}  // namespace

TEST(Text, LinesHaveNumbersIndentsAndNoComments) {
  const auto lines =
      source_lines("program 1 x   # why\n\n# all comment\n  a = b[#P] #\n    in g f32[T, #P] local\r\nlast");
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].text, "program 1 x");
  EXPECT_EQ(lines[1].number, 4);
  EXPECT_EQ(lines[1].indent, 2);
  EXPECT_EQ(lines[1].text, "a = b[#P]");
  EXPECT_EQ(lines[2].text, "in g f32[T, #P] local");
  EXPECT_EQ(lines[2].indent, 4);
  EXPECT_EQ(lines[3].number, 6);
  EXPECT_TRUE(source_lines("").empty());
}

TEST(Text, TabsAndOddIndentsAreRefused) {
  EXPECT_NE(what_of([] { source_lines("a\n\tb"); }).find("2:1: F1: a tab"), std::string::npos);
  EXPECT_NE(what_of([] { source_lines("a\n   b"); }).find("2:4: F1: indented by 3"), std::string::npos);
}

TEST(Text, ControlBytesAreRefusedEverywhere) {
  using namespace std::string_literals;
  EXPECT_EQ(what_of([] { source_lines("a = b\nx\0y = c\n"s); }),
            "2:2: F1: a control byte, 0x00\n    x?y = c\n     ^\n    delete it, or save the file as plain text");
  EXPECT_NE(what_of([] { source_lines("a = b # why\x1b[31m\n"); }).find("1:12: F1: a control byte, 0x1b"),
            std::string::npos);
  EXPECT_NE(what_of([] { source_lines("a\rb\n"); }).find("1:2: F1: a control byte, 0x0d"), std::string::npos);
  EXPECT_NE(what_of([] { source_lines("  \x7f\n"); }).find("1:3: F1: a control byte, 0x7f"), std::string::npos);
  EXPECT_EQ(source_lines("a\r\nb\r\n").size(), 2u);
}

TEST(Text, TheCaretIsUnderTheCharacterThatIsNotAscii) {
  EXPECT_EQ(what_of([] { source_lines("in gr\xc3\xbc\xc3\x9f = x + y\n"); }),
            "1:6: F1: a character that is not ASCII\n    in gr\xc3\xbc\xc3\x9f = x + y\n         ^\n    "
            "names are letters, digits and _; comments may have any text");
  EXPECT_NE(what_of([] { source_lines("a\xff\n"); }).find("1:2: F1: a character that is not ASCII"), std::string::npos);
  EXPECT_EQ(source_lines("a = b # gr\xc3\xbc\xc3\x9f\n# \xe2\x86\x92\n").size(), 1u);
}

TEST(Text, ErrorsShowLineCaretAndRemedy) {
  const SourceLine line{19, 0, "y = zz + 1.0"};
  EXPECT_EQ(what_of([&] { fail_at(ErrorKind::user, line, "zz", "L7", "zz is a pending sum", "finish it first"); }),
            "19:5: L7: zz is a pending sum\n    y = zz + 1.0\n        ^^\n    finish it first");
  const SourceLine inner{3, 4, "y = xx + x"};
  EXPECT_EQ(what_of([&] { fail_at(ErrorKind::plan, inner, "x", "V1", "x"); }),
            "3:14: V1: x\n    y = xx + x\n             ^");
  EXPECT_EQ(what_of([&] { fail_at(ErrorKind::user, {2, 0, "x.s x"}, "x", "", "m"); }), "2:5: m\n    x.s x\n        ^");
  try {
    fail_at(ErrorKind::user, line, "zz", "L7", "m", "r");
  } catch (const Error& e) {
    EXPECT_EQ(e.rule(), "L7");
    EXPECT_EQ(e.message(), "m");
    EXPECT_EQ(e.remedy(), "r");
    EXPECT_EQ(e.kind(), ErrorKind::user);
  }
}

TEST(Text, SplitsAndJoins) {
  EXPECT_EQ(split(" a , b,,c ", ','), (std::vector<std::string>{"a", "b", "", "c"}));
  EXPECT_EQ(split_top("f(a, b), x[1, 2], c", ','), (std::vector<std::string>{"f(a, b)", "x[1, 2]", "c"}));
  EXPECT_TRUE(split("", ',').empty());
  EXPECT_EQ(words("  a  bc d "), (std::vector<std::string>{"a", "bc", "d"}));
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
}

TEST(Text, Identifiers) {
  for (const char* good : {"x", "x.s", "_a1", "z.h1", "n.h1.p", "a.1"}) EXPECT_TRUE(is_identifier(good)) << good;
  for (const char* bad : {"", "1x", ".s", "x.", "x..s", "a b", "a-b"}) EXPECT_FALSE(is_identifier(bad)) << bad;
}

TEST(Text, ShortestReadsBack) {
  EXPECT_EQ(shortest(0.1), "0.1");
  EXPECT_EQ(shortest(1e-8), "1e-08");
  EXPECT_EQ(shortest(1), "1.0");
  EXPECT_EQ(shortest(-0.0), "-0.0");
  EXPECT_EQ(shortest(1e16), "1e+16");
  EXPECT_EQ(shortest(INFINITY), "inf");
  EXPECT_EQ(shortest(NAN), "nan");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::strtod(shortest(value).c_str(), nullptr), value);
  }
}

TEST(Text, CountsAndUnits) {
  EXPECT_EQ(parse_count("128M"), int64_t{128} << 20);
  EXPECT_EQ(parse_count("16Mi"), int64_t{16} << 20);
  EXPECT_EQ(parse_count("4KiB"), 4096);
  EXPECT_EQ(parse_count(" 77 "), 77);
  for (const char* bad : {"", "x", "-1", "1.5M", "3X", "9999999999999999999", "99999999T", "1Mx"})
    EXPECT_THROW(parse_count(bad), Error) << bad;
  EXPECT_EQ(human_bytes(3.5e9), "3.5 GB");
  EXPECT_EQ(human_bytes(8), "8 B");
  EXPECT_EQ(human_ns(3.52e6), "3.52 ms");
  EXPECT_EQ(human_ns(250), "250 ns");
}

TEST(Lines, CaretsStayInSightOnLongAndBinaryLines) {
  const std::string wide = std::string(300, 'a') + " bad " + std::string(300, 'b');
  const std::string what = what_of([&] { fail_at(ErrorKind::user, {1, 0, wide}, "bad", "F0", "m"); });
  const std::string shown = what.substr(what.find('\n') + 1), caret = shown.substr(shown.find('\n') + 1);
  EXPECT_LT(shown.find('\n'), 130u);
  EXPECT_EQ(shown.substr(caret.find('^'), 3), "bad");
  const SourceLine binary{1, 0, "\x1b[2J\xff\x01 x"};
  EXPECT_EQ(what_of([&] { fail_at_column(ErrorKind::user, binary, 7, 1, "F0", "m"); }),
            "1:8: F0: m\n    ?[2J?? x\n           ^");
  EXPECT_EQ(what_of([&] {
              fail_at(ErrorKind::user, {1, 0, "a = \u00e9\u00e9 bad"}, "bad", "F0", "m");
            }),
            "1:10: F0: m\n    a = \u00e9\u00e9 bad\n           ^^^");
}

TEST(Lines, AByteOrderMarkMeansNothing) {
  const auto lines = source_lines("\xef\xbb\xbfprogram 1 x\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].text, "program 1 x");
  EXPECT_EQ(lines[0].indent, 0);
}

TEST(Printable, KeepsTextAndDropsWhatGarbles) {
  EXPECT_EQ(printable("a\nb\tc\x7f"), "a?b?c?");
  EXPECT_EQ(printable("a\nb", true), "a\nb");
  EXPECT_EQ(printable("\u00e9\u20ac"), "\u00e9\u20ac");
  EXPECT_EQ(printable("\xc3"), "?");
  EXPECT_EQ(printable("\xc2\x9b x"), "? x");
  EXPECT_EQ(characters("\u00e9x"), 2);
  EXPECT_EQ(clipped_lines("abcdef\nab\n", 3), "abc...\nab\n");
  EXPECT_EQ(clipped_lines("a\u00e9", 2), "a...");
}
