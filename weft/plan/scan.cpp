// Words of a line, with columns kept for carets. A generated lexer would want a grammar file for what is five character
// classes; errors need the column of every word, so words are found by hand and never copied before they are accepted.
#include "weft/plan/scan.h"

#include <algorithm>

namespace weft::plan::scan {
namespace {

int nesting(char c) {
  if (c == '(' || c == '[' || c == '{') return 1;
  return c == ')' || c == ']' || c == '}' ? -1 : 0;
}

bool stands_alone(Piece text, size_t at, size_t width) {
  const bool left = at > 0 && in_word(text[at - 1]) && in_word(text[at]);
  const size_t end = at + width;
  return !left && !(end < text.size() && in_word(text[end]) && in_word(text[end - 1]));
}

}  // namespace

size_t find_top(Piece text, Piece token, size_t from) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && i >= from && text.substr(i, token.size()) == token && stands_alone(text, i, token.size()))
      return i;
    depth = std::max(0, depth + nesting(text[i]));
  }
  return Piece::npos;
}

size_t find_top_word(Piece text, std::initializer_list<Piece> words) {
  size_t first = Piece::npos;
  for (const Piece word : words) first = std::min(first, find_top(text, word));
  return first;
}

std::vector<Piece> split_pieces(Piece text, Piece separator) {
  std::vector<Piece> pieces;
  if (trim(text).empty()) return pieces;
  size_t begin = 0;
  for (size_t at = find_top(text, separator); at != Piece::npos; at = find_top(text, separator, begin)) {
    pieces.push_back(trim(text.substr(begin, at - begin)));
    begin = at + separator.size();
  }
  pieces.push_back(trim(text.substr(begin)));
  return pieces;
}

Piece take_word(Piece& rest) {
  rest = trim(rest);
  const Piece word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(word.size());
  return word;
}

Piece take_until(Piece& rest, std::initializer_list<Piece> words) {
  const size_t at = std::min(find_top_word(rest, words), rest.size());
  const Piece taken = trim(rest.substr(0, at));
  rest.remove_prefix(at);
  return taken;
}

size_t closing(Piece text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    depth += nesting(text[i]);
    if (depth == 0) return i;
  }
  return Piece::npos;
}

}  // namespace weft::plan::scan
