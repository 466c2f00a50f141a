// Helpers for the text forms: lines with indentation, positions, carets, numbers.
//
// All forms (program, schedule, plan, machine) are lines, blocks by two spaces, comments behind '#', and a first line
// "FORM VERSION NAME". What they share is here; their grammars are in their rooms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace weft {

struct SourceLine {
  int number = 0;    // from 1
  int indent = 0;    // leading spaces
  std::string text;  // without indentation, comment and trailing space
};

// Non-empty lines without comments. Tabs and indentation that is not a multiple of two are F1 errors.
std::vector<SourceLine> source_lines(std::string_view text);

// Throws kind user (or plan) with "LINE:COLUMN: RULE: MESSAGE", the line, a caret below `token` and the remedy.
// `token` is looked up in the line as a whole word; not found or empty: the caret is under the first column.
[[noreturn]] void fail_at(ErrorKind kind, const SourceLine& line, std::string_view token, std::string_view rule,
                          std::string_view message, std::string_view remedy = "");
// The same with the column known (0-based in line.text).
[[noreturn]] void fail_at_column(ErrorKind kind, const SourceLine& line, int column, int width, std::string_view rule,
                                 std::string_view message, std::string_view remedy = "");

std::vector<std::string> split(std::string_view text, char separator);      // trims the pieces
std::vector<std::string> split_top(std::string_view text, char separator);  // not inside ( ) [ ] { }
std::vector<std::string> words(std::string_view text);
std::string_view trim(std::string_view text);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
bool is_identifier(std::string_view text);  // [A-Za-z_][A-Za-z0-9_]*, with dots allowed inside (x.s, z.h1)

// The shortest text that reads back as the same f64 ("0.1", "1e-08", "1.0", "inf", "nan").
std::string shortest(double value);
// Integers with an optional binary suffix: 16Mi, 4Ki, 2Gi, 128M (= 2^20 as in nccl-tests), plain digits. kind user else.
int64_t parse_count(std::string_view text);
std::string human_bytes(double bytes);  // "3.5 GB" (decimal units)
std::string human_ns(double ns);        // "3.52 ms"

}  // namespace weft
