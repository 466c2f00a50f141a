// The text form of kernels, and the check of their shape (rule V1).
//
// A kernel is read in a plan, line by line, by the plan's parser; here is what one header line and one assignment line
// mean. Expressions are expr's; only `NAME = sum(...)` and `NAME = matmul(x, w)` are the kernel's own, and only as the
// whole right side, because a fold's value exists when the run is over and not where an element could use it. Line and
// column of every error are those of the plan's text.
#include <algorithm>

#include "weft/expr/functions.h"
#include "weft/kernel/kernel.h"

namespace weft::kernel {

namespace {

[[noreturn]] void fail_v1(const SourceLine& line, std::string_view token, std::string_view message,
                          std::string_view remedy = "") {
  fail_at(ErrorKind::plan, line, token, "V1", message, remedy);
}

[[noreturn]] void fail_kernel(const Kernel& kernel, const std::string& message, const std::string& remedy) {
  throw Error(ErrorKind::plan, fmt::format("kernel {}: {}", kernel.name, message), remedy, "V1");
}

std::vector<std::string> identifiers(const SourceLine& line, std::string_view text) {
  if (trim(text).empty()) return {};
  std::vector<std::string> list = split(text, ',');
  for (const std::string& item : list)
    if (!is_identifier(item))
      fail_v1(line, item, fmt::format("\"{}\" is no name", item),
              "names are letters, digits and _, with commas between");
  return list;
}

// The inside of `f(...)` where the closing parenthesis is the last character; npos else.
struct WholeCall {
  std::string function;
  size_t inside = std::string_view::npos;
};
WholeCall whole_call(std::string_view text) {
  const size_t open = text.find('(');
  if (open == std::string_view::npos || !is_identifier(text.substr(0, open)) || text.back() != ')') return {};
  int depth = 0;
  for (size_t i = open; i + 1 < text.size(); i++) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth == 0) return {};
  }
  return {std::string(text.substr(0, open)), open + 1};
}

bool is_fold(std::string_view function) {
  return function == "sum" || function == "prod" || function == "amax" || function == "amin";
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

void check_calls(const Kernel& kernel, const expr::Expr& value) {
  expr::visit(value, [&](const expr::Node& node) {
    if (node.op != expr::Op::call) return;
    if (is_fold(node.name) || node.name == "matmul")
      fail_kernel(kernel, fmt::format("{} stands inside an expression", node.name),
                  "write it alone, as the whole right side of a line: its value exists when the run is over");
    const expr::Function* function = expr::find_function(node.name);
    const bool known = function || parse_dtype(node.name) || node.name == "rand" || node.name == "index";
    if (!known)
      fail_kernel(kernel, fmt::format("unknown function {}", node.name), "docs/kernels.md lists the functions");
  });
}

void check_names(const Kernel& kernel) {
  std::vector<std::string> seen;
  for (const auto* list : {&kernel.scalars, &kernel.inputs})
    for (const std::string& name : *list) {
      if (!is_identifier(name))
        fail_kernel(kernel, fmt::format("\"{}\" is no name", name), "names are letters, digits and _");
      if (contains(seen, name))
        fail_kernel(kernel, fmt::format("{} is declared twice", name), "give each input and scalar its own name");
      if (name == "ranks") fail_kernel(kernel, "ranks is declared", "leave it out: it is always known");
      seen.push_back(name);
    }
}

void check_tile(const Kernel& kernel) {
  const Assignment& tile = kernel.body.front();
  const auto refuse = [&](const std::string& message) {
    fail_kernel(
        kernel, message,
        "a tile kernel is one line, `y = matmul(x, w)` of two inputs, with the scalars rows and cols (and batch)");
  };
  if (kernel.body.size() != 1) refuse("matmul stands beside other lines");
  if (tile.function != "matmul") refuse(fmt::format("unknown tile {}", tile.function));
  if (tile.args.size() != 2) refuse(fmt::format("matmul has {} operands, not 2", tile.args.size()));
  for (const std::string& arg : tile.args)
    if (!contains(kernel.inputs, arg)) refuse(fmt::format("matmul reads {}, which is no input", arg));
  if (kernel.inputs.size() != 2) refuse(fmt::format("{} inputs, not 2", kernel.inputs.size()));
  for (const char* need : {"rows", "cols"})
    if (!contains(kernel.scalars, need)) refuse(fmt::format("the scalar {} is missing", need));
  if (kernel.outputs.size() != 1 || kernel.outputs[0] != tile.name) refuse("its output is not the product");
}

// Every name is declared before use; a fold's value is an output and nothing else.
void check_body(const Kernel& kernel) {
  std::vector<std::string> known = kernel.inputs, folds;
  for (const Assignment& line : kernel.body) {
    if (!is_identifier(line.name))
      fail_kernel(kernel, fmt::format("\"{}\" is no name", line.name), "names are letters, digits and _");
    if (contains(kernel.scalars, line.name) || line.name == "ranks")
      fail_kernel(kernel, fmt::format("{} is a scalar and assigned to", line.name),
                  "scalars do not change in a launch; take another name");
    if (contains(folds, line.name))
      fail_kernel(kernel, fmt::format("the fold {} is assigned to again", line.name), "take another name");
    if (!line.value) fail_kernel(kernel, fmt::format("{} has no expression", line.name), "write NAME = EXPRESSION");
    check_calls(kernel, line.value);
    for (const std::string& name : expr::names(line.value)) {
      if (contains(folds, name))
        fail_kernel(kernel, fmt::format("{} reads the fold {}", line.name, name),
                    "a fold's value exists when the run is over: use it in a later step");
      if (!contains(known, name) && !contains(kernel.scalars, name) && name != "ranks")
        fail_kernel(kernel, fmt::format("{} reads {}, which is not declared", line.name, name),
                    "add it to the inputs or the scalars, or assign it first");
    }
    if (line.kind == AssignmentKind::fold) {
      if (!is_fold(line.function))
        fail_kernel(kernel, fmt::format("unknown fold {}", line.function), "folds are sum, prod, amax and amin");
      if (contains(known, line.name))
        fail_kernel(kernel, fmt::format("the fold {} has the name of an element", line.name), "take another name");
      folds.push_back(line.name);
    } else {
      known.push_back(line.name);
    }
  }
  for (const std::string& output : kernel.outputs)
    if (!contains(known, output) && !contains(folds, output))
      fail_kernel(kernel, fmt::format("output {} is never assigned", output), "assign it, or name an input");
  for (const std::string& fold : folds)
    if (!contains(kernel.outputs, fold))
      fail_kernel(kernel, fmt::format("nobody takes the fold {}", fold), "name it among the outputs");
}

}  // namespace

Kind kind(const Kernel& kernel) {
  Kind result = Kind::pointwise;
  for (const Assignment& line : kernel.body) {
    if (line.kind == AssignmentKind::tile) return Kind::tile;
    if (line.kind == AssignmentKind::fold) result = Kind::fold;
  }
  return result;
}

void check(const Kernel& kernel) {
  if (!is_identifier(kernel.name)) fail_kernel(kernel, "a kernel's name is letters, digits and _", "rename it");
  check_names(kernel);
  if (kernel.outputs.empty()) fail_kernel(kernel, "no outputs", "name what the targets get after ->");
  if (kind(kernel) == Kind::tile)
    check_tile(kernel);
  else
    check_body(kernel);
}

std::string print(const Kernel& kernel) {
  std::string text = "kernel " + kernel.name;
  if (!kernel.scalars.empty()) text += "(" + join(kernel.scalars, ", ") + ")";
  text += kernel.inputs.empty() ? ":" : ": " + join(kernel.inputs, ", ");
  text += " -> " + join(kernel.outputs, ", ");
  for (const Assignment& line : kernel.body) {
    text += "\n  " + line.name + " = ";
    if (line.kind == AssignmentKind::map) text += expr::print(line.value, expr::Syntax::program);
    if (line.kind == AssignmentKind::fold)
      text += line.function + "(" + expr::print(line.value, expr::Syntax::program) + ")";
    if (line.kind == AssignmentKind::tile) text += line.function + "(" + join(line.args, ", ") + ")";
  }
  return text;
}

Kernel parse_header(const SourceLine& line) {
  constexpr std::string_view form = "a kernel is written `kernel NAME(scalars): inputs -> outputs`";
  std::string_view text = trim(line.text);
  if (!text.starts_with("kernel ")) fail_v1(line, "", "no kernel's header", form);
  text.remove_prefix(7);
  const size_t colon = text.find(':'), arrow = text.find("->");
  if (colon == text.npos || arrow == text.npos || arrow < colon)
    fail_v1(line, "", "a kernel's header lacks `:` or `->`", form);
  Kernel kernel;
  std::string_view head = trim(text.substr(0, colon));
  const size_t open = head.find('(');
  if (open != head.npos) {
    if (head.back() != ')') fail_v1(line, "(", "the scalars' parenthesis is not closed", form);
    kernel.scalars = identifiers(line, head.substr(open + 1, head.size() - open - 2));
    head = trim(head.substr(0, open));
  }
  if (!is_identifier(head)) fail_v1(line, head, fmt::format("\"{}\" is no name", head), form);
  kernel.name = head;
  kernel.inputs = identifiers(line, text.substr(colon + 1, arrow - colon - 1));
  kernel.outputs = identifiers(line, text.substr(arrow + 2));
  if (kernel.outputs.empty()) fail_v1(line, "->", "a kernel without outputs", form);
  return kernel;
}

Assignment parse_assignment(const SourceLine& line) {
  const size_t equals = line.text.find('=');
  const std::string_view left =
      equals == std::string::npos ? std::string_view() : trim(std::string_view(line.text).substr(0, equals));
  if (!is_identifier(left)) fail_v1(line, left, "no assignment", "a kernel's body is lines of `NAME = EXPRESSION`");
  size_t begin = line.text.find_first_not_of(' ', equals + 1);
  if (begin == std::string::npos)
    fail_v1(line, left, fmt::format("{} is assigned nothing", left), "write NAME = EXPRESSION");
  const std::string_view right = trim(std::string_view(line.text).substr(begin));
  Assignment result;
  result.name = left;
  const WholeCall whole = whole_call(right);
  if (whole.function == "matmul") {
    result.kind = AssignmentKind::tile;
    result.function = whole.function;
    result.args = identifiers(line, right.substr(whole.inside, right.size() - whole.inside - 1));
    return result;
  }
  std::string_view value = right;
  if (is_fold(whole.function)) {
    result.kind = AssignmentKind::fold;
    result.function = whole.function;
    value = right.substr(whole.inside, right.size() - whole.inside - 1);
    begin += whole.inside;
  }
  result.value = expr::parse(value, expr::Syntax::program, line, static_cast<int>(begin));
  return result;
}

}  // namespace weft::kernel
