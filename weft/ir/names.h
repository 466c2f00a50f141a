// Names: which ones belong to the language, which to Weft, and which one a mistyped one was meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft::ir {

// What the language means by `name` ("an operation", "a function", ...), or nothing where it is free for users.
std::string_view meaning_of(std::string_view name);

// A statement's name: a word, then Weft's own suffixes: `.h1` of what was hoisted out of it (any number of them), then
// `.s` of its slice or `.p` of its pending form.
bool is_statement_name(std::string_view name);

// Of `known` the name closest to `name`: one or two letters away, "" where none is that close.
std::string nearest(std::string_view name, const std::vector<std::string>& known);
// "did you mean m1? " or nothing: what a remedy begins with.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& known);

}  // namespace weft::ir
