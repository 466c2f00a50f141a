// The one error type: its text, and what the command line makes of its kind.
#include "weft/base/error.h"

namespace weft {
namespace {

std::string compose(const std::string& where, const std::string& rule, const std::string& message,
                    const std::string& excerpt, const std::string& remedy) {
  std::string text = where;
  if (!rule.empty()) text += rule + ": ";
  text += message;
  if (!excerpt.empty()) text += "\n" + excerpt;
  if (!remedy.empty()) text += "\n    " + remedy;
  return text;
}

}  // namespace

std::string_view name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user: return "user";
    case ErrorKind::plan: return "plan";
    case ErrorKind::agreement: return "agreement";
    case ErrorKind::io: return "io";
    case ErrorKind::timeout: return "timeout";
    case ErrorKind::peer: return "peer";
    case ErrorKind::unsupported: return "unsupported";
    case ErrorKind::internal: return "internal";
  }
  return "internal";
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::user:
    case ErrorKind::plan:
    case ErrorKind::unsupported: return 1;
    case ErrorKind::agreement:
    case ErrorKind::io:
    case ErrorKind::timeout:
    case ErrorKind::peer: return 2;
    case ErrorKind::internal: return 3;
  }
  return 3;
}

Error::Error(ErrorKind kind, std::string message, std::string remedy, std::string rule)
    : std::runtime_error(compose("", rule, message, "", remedy)),
      kind_(kind),
      message_(std::move(message)),
      remedy_(std::move(remedy)),
      rule_(std::move(rule)) {}

Error::Error(ErrorKind kind, const std::string& where, const std::string& excerpt, std::string message,
             std::string remedy, std::string rule)
    : std::runtime_error(compose(where, rule, message, excerpt, remedy)),
      kind_(kind),
      message_(std::move(message)),
      remedy_(std::move(remedy)),
      rule_(std::move(rule)) {}

void internal_failure(const char* file, int line, const char* condition, const std::string& message) {
  throw Error(ErrorKind::internal, fmt::format("{}:{}: {} does not hold: {}", file, line, condition, message),
              "this is a mistake in Weft; please report it with the command and its input");
}

}  // namespace weft
