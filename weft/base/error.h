// One error type for all of Weft.
//
// Problem: a user must be told what was wrong, with which value, and what to do about it; a program that calls the
// library must be able to tell its own mistake from a dead peer. Ways: error codes (forgotten), many exception classes
// (nobody knows which to catch), one class with a kind. We take the last. Library code throws only this type and never
// aborts; worker threads never let it cross a thread, they hand it to the communicator.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

enum class ErrorKind {
  user,         // the caller's text, arguments or files
  plan,         // a plan that breaks a verifier rule
  agreement,    // ranks that disagree about what they run
  io,           // the operating system refused something
  timeout,      // a wait that passed its deadline
  peer,         // another rank failed or died
  unsupported,  // meant to exist, does not exist here
  internal,     // our own mistake
};

std::string_view name(ErrorKind kind);

// The exit status of the command line: user, plan, unsupported 1; agreement, io, timeout, peer 2; internal 3.
int exit_code(ErrorKind kind);

class Error : public std::runtime_error {
 public:
  // `message` says what was wrong and with which value, `remedy` what to do (may be empty), `rule` the number of the
  // broken rule (docs/program.md, docs/plan.md), such as "L7" or "V9", or nothing.
  Error(ErrorKind kind, std::string message, std::string remedy = "", std::string rule = "");

  // The same with a place in a text: `where` ("12:5: ") stands before the rule in what(), `excerpt` (the line and a
  // caret below it) after the message. text.h's fail_at makes both.
  Error(ErrorKind kind, const std::string& where, const std::string& excerpt, std::string message, std::string remedy,
        std::string rule);

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& remedy() const { return remedy_; }
  const std::string& rule() const { return rule_; }
  // what(): "RULE: MESSAGE\n    REMEDY" with the absent pieces left out.

 private:
  ErrorKind kind_;
  std::string message_, remedy_, rule_;
};

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(kind, fmt::format(text, std::forward<Args>(args)...));
}

// For what cannot happen unless we made a mistake: throws ErrorKind::internal with file, line and condition.
[[noreturn]] void internal_failure(const char* file, int line, const char* condition, const std::string& message);

#define WEFT_CHECK(condition, ...)        \
  (static_cast<bool>(condition) ? void(0) \
                                : ::weft::internal_failure(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)))

}  // namespace weft
