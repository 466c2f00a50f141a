// Pieces of a line of plan text. Internal to the plan room.
//
// A plan's statements nest brackets and expressions, but never need more than "split here, outside brackets": so the
// reader works on views into the line, and a view's place in the line is its column in an error.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "weft/base/text.h"

namespace weft::plan::scan {

using Piece = std::string_view;  // always a view into SourceLine::text

inline bool in_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// A name of a plan: no dots, since `lane.label` needs them.
inline bool is_name(Piece text) { return is_identifier(text) && text.find('.') == Piece::npos; }

// First place of `token` outside brackets, from `from` on, or npos. Tokens that begin with a letter match whole words.
size_t find_top(Piece text, Piece token, size_t from = 0);
// First place of any of the words outside brackets, or npos.
size_t find_top_word(Piece text, std::initializer_list<Piece> words);
// Trimmed pieces between separators outside brackets; no piece at all for an empty text.
std::vector<Piece> split_pieces(Piece text, Piece separator);
// Takes the next word (up to a space) off the front; empty at the end.
Piece take_word(Piece& rest);
// Takes all before the first of the words (outside brackets); everything where none is there.
Piece take_until(Piece& rest, std::initializer_list<Piece> words);
// The place of the bracket that closes the one at `open`, or npos.
size_t closing(Piece text, size_t open);

}  // namespace weft::plan::scan
