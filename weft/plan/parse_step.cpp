// Plan text -> Plan: lanes, steps, operands, awaits and posts.
#include <algorithm>
#include <charconv>

#include "weft/plan/reader.h"

namespace weft::plan {
namespace {

using scan::Piece;

// `NAME(` at the front: the place of the bracket, or npos.
size_t call_bracket(Piece text) {
  size_t at = 0;
  while (at < text.size() && scan::in_word(text[at])) ++at;
  return at > 0 && at < text.size() && text[at] == '(' ? at : Piece::npos;
}

bool parse_number(Piece text, double& value) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), value);
  return r.ec == std::errc() && r.ptr == text.data() + text.size();
}

}  // namespace

// ---- lanes

void Reader::lane() {
  line_ = &lines_[at_++];
  if (line_->text.back() != ':') refuse(line_->text, "a lane's line ends with a colon", fmt::format("lane {}:", lane_));
  plan_.lanes[static_cast<size_t>(find_lane(plan_, lane_))].body = body(2);
}

Body Reader::body(int indent) {
  const SourceLine* head = line_;
  Body body;
  while (at_ < lines_.size() && lines_[at_].indent >= indent) {
    line_ = &lines_[at_];
    if (line_->indent > indent) refuse(line_->text, "indented too far", fmt::format("{} spaces here", indent));
    body.push_back(item());
  }
  line_ = head;
  if (body.empty()) refuse(line_->text, "an empty block", "indent its steps by two spaces below it");
  return body;
}

Item Reader::item() {
  Piece rest = line_->text;
  ++at_;
  const Piece word = scan::take_word(rest);
  const bool block = word == "for" || word == "when" || word == "loop";
  if (!block) return step(line_->text);
  if (rest.empty() || rest.back() != ':')
    refuse(line_->text, fmt::format("{} ends with a colon", word), "NAME in A..B: / COND: / SPACES [slices K]:");
  rest = trim(rest.substr(0, rest.size() - 1));
  if (word == "for") return for_item(rest);
  if (word == "loop") return loop_item(rest);
  When when;
  when.cond = expression(required(rest, word, "the condition"));
  when.body = body(line_->indent + 2);
  return when;
}

For Reader::for_item(Piece text) {
  For loop;
  const Piece var = scan::take_word(text);
  std::set<Id> others(numbers_);
  if (std::count(variables_.begin(), variables_.end(), var))
    refuse(var, fmt::format("{} is already a variable around this place", var), "rename it");
  loop.var = declare(var, others, "variable");
  expect_word(text, "in", var);
  const std::vector<Piece> bounds = scan::split_pieces(text, "..");
  if (bounds.size() != 2) refuse(text.empty() ? var : trim(text), "the range of a for is A..B", "for j in 0..n:");
  loop.lo = expression(required(bounds[0], text, "the lower bound"));
  loop.hi = expression(required(bounds[1], text, "the upper bound"));
  variables_.push_back(loop.var);
  loop.body = body(line_->indent + 2);
  variables_.pop_back();
  return loop;
}

Loop Reader::loop_item(Piece text) {
  if (in_loop_) refuse(text, "a loop in a loop", "a loop goes over the chunks of all its spaces: loop a b:");
  Loop loop;
  for (Piece word = scan::take_word(text); !word.empty(); word = scan::take_word(text)) {
    if (word == "slices") {
      loop.slices = static_cast<int>(
          literal(required(scan::take_word(text), word, "the number of slices"), 1, "a number of slices"));
      finished(text);
      break;
    }
    loop.spaces.push_back(declared(word, find_space(plan_, Id(word)), "space"));
  }
  if (loop.spaces.empty()) refuse(line_->text, "a loop over no space", "loop s:");
  in_loop_ = true;
  loop.body = body(line_->indent + 2);
  in_loop_ = false;
  return loop;
}

// ---- steps

Step Reader::step(Piece text) {
  Step step;
  const size_t colon = text.find(':');
  if (colon != Piece::npos && scan::is_name(text.substr(0, colon)) &&
      (colon + 1 == text.size() || text[colon + 1] == ' ')) {
    step.label = Id(text.substr(0, colon));
    text = trim(text.substr(colon + 1));
  }
  const size_t after = scan::find_top(text, "after");
  if (after != Piece::npos) step.after = awaits(trim(text.substr(after + 5)));
  text = trim(text.substr(0, after));
  const std::vector<Piece> pieces = scan::split_pieces(text, "->");
  if (pieces.empty()) return step;
  if (pieces.size() == 1) refuse(text, "a step with sources but no target", "SOURCES -> TARGETS");
  if (pieces.size() > 3) refuse(pieces[3], "a step has one kernel", "SOURCES -> KERNEL -> TARGETS");
  sources(step, pieces[0]);
  if (pieces.size() == 3) step.kernel = kernel_call(pieces[1]);
  step.targets = operands(pieces.back(), true);
  if (step.targets.empty()) refuse(text, "a step with sources but no target", "SOURCES -> TARGETS");
  check_arity(step, pieces.size() == 3 ? pieces[1] : pieces[0]);
  return step;
}

void Reader::sources(Step& step, Piece text) {
  std::vector<Piece> list = scan::split_pieces(text, ",");
  if (list.empty())
    refuse(text, "a step without sources", "0 -> TARGET sets a constant; a step without operands has no arrow");
  const size_t open = call_bracket(list[0]);
  if (open != Piece::npos) {
    const Piece name = list[0].substr(0, open);
    if (!names_reduction(name, step.reduction, step.reduction_param))
      refuse(name, fmt::format("no reduction {}", name),
             "sum prod min max bit_and bit_or bit_xor logical_and logical_or, or a parameter that names one");
    if (scan::closing(list[0], open) != list[0].size() - 1) refuse(list[0], "the reduction is not closed", "sum(A, B)");
    step.reduced = operands(list[0].substr(open + 1, list[0].size() - open - 2), false);
    if (step.reduced.empty()) refuse(list[0], "a reduction of nothing", "sum(A, B)");
    list.erase(list.begin());
  }
  for (const Piece piece : list) {
    if (call_bracket(piece) != Piece::npos)
      refuse(piece, "a step reduces once, and first", "sum(A, B), C, D -> KERNEL -> TARGETS");
    step.others.push_back(operand(piece, false));
  }
}

void Reader::check_arity(const Step& step, Piece at) const {
  const size_t sources = step.others.size() + (step.reduced.empty() ? 0 : 1);
  if (step.kernel.name.empty()) {
    if (sources != 1)
      refuse(at, fmt::format("{} values and no kernel to join them", sources),
             "reduce them with sum(...), or name a kernel");
    return;
  }
  const int index = find_kernel(plan_, step.kernel.name);
  if (index < 0)
    refuse(at, fmt::format("no kernel {}", step.kernel.name), "declare it: kernel NAME(scalars): inputs -> outputs");
  const kernel::Kernel& kernel = plan_.kernels[static_cast<size_t>(index)];
  if (sources != kernel.inputs.size())
    refuse(at, fmt::format("kernel {} takes {} values, not {}", kernel.name, kernel.inputs.size(), sources),
           kernel::print(kernel));
  if (step.kernel.scalars.size() != kernel.scalars.size())
    refuse(at,
           fmt::format("kernel {} takes {} scalars, not {}", kernel.name, kernel.scalars.size(),
                       step.kernel.scalars.size()),
           kernel::print(kernel));
  if (kernel.outputs.size() > step.targets.size())
    refuse(
        at,
        fmt::format("kernel {} gives {} values to {} targets", kernel.name, kernel.outputs.size(), step.targets.size()),
        "outputs go to the targets in order");
}

bool Reader::names_reduction(Piece text, kernel::Reduction& reduction, Id& param) const {
  const Param* p = find_param(text);
  const std::optional<kernel::Reduction> found = kernel::parse_reduction(p ? Piece(p->value) : text);
  if (found) reduction = *found;
  if (found && p) param = p->name;
  return found.has_value();
}

KernelCall Reader::kernel_call(Piece text) {
  KernelCall call;
  const size_t open = call_bracket(text);
  const Piece name = trim(text.substr(0, open));
  if (!is_identifier(name)) refuse(text, fmt::format("`{}` is not a kernel", text), "KERNEL or KERNEL(scalars)");
  call.name = Id(name);
  if (open == Piece::npos) return call;
  if (scan::closing(text, open) != text.size() - 1)
    refuse(text, "the kernel's scalars are not closed", "KERNEL(scalars)");
  call.scalars = scalar_names(text.substr(open + 1, text.size() - open - 2));
  return call;
}

std::vector<Id> Reader::scalar_names(Piece list) const {
  std::vector<Id> names;
  for (const Piece name : scan::split_pieces(list, ",")) {
    if (!is_identifier(name))
      refuse(name.empty() ? list : name, fmt::format("`{}` is not a scalar of the launch", name),
             "names only; expressions belong to the kernel's body");
    names.emplace_back(name);
  }
  return names;
}

// ---- operands

std::vector<Operand> Reader::operands(Piece list, bool target) {
  std::vector<Operand> result;
  for (const Piece piece : scan::split_pieces(list, ","))
    result.push_back(operand(required(piece, list, "an operand"), target));
  return result;
}

Operand Reader::operand(Piece text, bool target) {
  required(text, line_->text, "an operand");
  double value = 0;
  Operand result;
  const bool accumulate = text[0] == '+' && text.size() > 1;
  const Piece bare = accumulate ? trim(text.substr(1)) : text;
  size_t name = 0;
  while (name < bare.size() && scan::in_word(bare[name])) ++name;
  const char sign = name < bare.size() ? bare[name] : '\0';
  if (sign == '<' || sign == '>')
    result = link_operand(bare, name);
  else if (name > 0 && (sign == '[' || sign == '@'))
    result = slice_operand(bare);
  else if (parse_number(bare, value))
    result.kind = Operand::Kind::constant, result.value = value;
  else
    refuse(text, fmt::format("`{}` is not an operand", text), "x[p], x@q[p], <q, >q, fam<q, fam>q, +q[p] or a number");
  if (target ? result.kind == Operand::Kind::recv : result.kind == Operand::Kind::send)
    refuse(text, target ? "a target cannot be received from" : "a source cannot be sent to",
           "< receives and is a source, > sends and is a target");
  if (target && result.kind == Operand::Kind::constant)
    refuse(text, "a constant cannot be written", "targets are buffers and links");
  if (accumulate && (!target || result.kind != Operand::Kind::slice))
    refuse(text, "only a buffer that is a target accumulates", "SOURCES -> KERNEL -> +q[p]");
  result.accumulate = accumulate;
  return result;
}

Operand Reader::link_operand(Piece text, size_t sign) {
  Operand result;
  result.kind = text[sign] == '<' ? Operand::Kind::recv : Operand::Kind::send;
  const Piece name = text.substr(0, sign);
  const Id family = name.empty() ? lane_ : Id(name);
  if (find_family(plan_, family) < 0)
    refuse(name.empty() ? text : name, fmt::format("no link {}", family),
           fmt::format("declare it: link {} simple slots 4", family));
  if (family != lane_) result.name = family;
  result.peers = peers(required(trim(text.substr(sign + 1)), text, "the peer"));
  return result;
}

Operand Reader::slice_operand(Piece text) {
  Operand result;
  const size_t open = scan::find_top(text, "["), at = scan::find_top(text.substr(0, open), "@");
  const Piece name = text.substr(0, std::min(at, open));
  result.name = declared(name, find_buffer(plan_, Id(name)), "buffer");
  if (open == Piece::npos || scan::closing(text, open) != text.size() - 1)
    refuse(text, "the parts are missing", "x[p] or x@q[p]");
  if (at != Piece::npos) result.peers = peers(required(trim(text.substr(at + 1, open - at - 1)), text, "the peer"));
  result.parts = parts(required(trim(text.substr(open + 1, text.size() - open - 2)), text, "the part"));
  return result;
}

Peers Reader::peers(Piece text) {
  const std::vector<Piece> ends = scan::split_pieces(text, "..");
  if (ends.size() > 2) refuse(text, "a range of peers is A..B", "the ranks A to B-1");
  Peers result;
  result.first = expression(required(ends[0], text, "the first peer"));
  if (ends.size() == 2) result.last = expression(required(ends[1], text, "the end of the range"));
  return result;
}

Parts Reader::parts(Piece text) {
  Parts result;
  const size_t colon = scan::find_top(text, ":");
  result.first = expression(required(trim(text.substr(0, colon)), text, "the first part"));
  if (colon == Piece::npos) return result;
  Piece rest = text.substr(colon + 1);
  result.count = expression(required(scan::take_until(rest, {"by", "run"}), text, "the number of parts"));
  if (scan::find_top(rest, "by") == 0) {
    scan::take_word(rest);
    result.by = expression(required(scan::take_until(rest, {"run"}), text, "the stride"));
  }
  if (scan::find_top(rest, "run") == 0) {
    scan::take_word(rest);
    result.run = expression(required(trim(rest), text, "the length of the runs"));
    rest = {};
  }
  finished(rest);
  return result;
}

// ---- awaits

std::vector<Await> Reader::awaits(Piece list) {
  std::vector<Await> result;
  for (const Piece piece : scan::split_pieces(list, ","))
    result.push_back(await(required(piece, list, "what is awaited")));
  if (result.empty()) refuse(line_->text, "`after` what?", "after [LANE.]LABEL[(indices)][@PEERS] [lag K]");
  return result;
}

Await Reader::await(Piece text) {
  Await result;
  const size_t lag = scan::find_top(text, "lag");
  if (lag != Piece::npos) result.lag = static_cast<int>(literal(trim(text.substr(lag + 3)), 1, "a lag in chunks"));
  Piece rest = trim(text.substr(0, lag));
  const size_t at = scan::find_top(rest, "@");
  if (at != Piece::npos) result.peers = peers(required(trim(rest.substr(at + 1)), text, "the peer"));
  rest = trim(rest.substr(0, at));
  const size_t open = rest.find('(');
  if (open != Piece::npos) {
    if (scan::closing(rest, open) != rest.size() - 1) refuse(rest, "the indices are not closed", "LABEL(i, j)");
    result.has_index = true;
    const Piece list = rest.substr(open + 1, rest.size() - open - 2);
    for (const Piece index : scan::split_pieces(list, ","))
      result.index.push_back(expression(required(index, list, "an index")));
    rest = rest.substr(0, open);
  }
  const size_t dot = scan::find_top(rest, ".");
  if (dot != Piece::npos) await_lane(result, trim(rest.substr(0, dot)));
  const Piece label = dot == Piece::npos ? rest : trim(rest.substr(dot + 1));
  if (!scan::is_name(label))
    refuse(label.empty() ? text : label, fmt::format("`{}` is not a label", label),
           "after [LANE.]LABEL[(indices)][@PEERS] [lag K]");
  result.label = Id(label);
  return result;
}

void Reader::await_lane(Await& await, Piece text) {
  const size_t brace = text.find('{');
  const Piece name = trim(text.substr(0, brace));
  if (find_lane(plan_, Id(name)) < 0)
    refuse(name.empty() ? text : name, fmt::format("no lane {}", name), "name a lane of this plan");
  if (brace != Piece::npos) {
    if (scan::closing(text, brace) != text.size() - 1)
      refuse(text, "the channel is not closed", "LANE{0}.LABEL or LANE{*}.LABEL");
    const Piece channel = required(trim(text.substr(brace + 1, text.size() - brace - 2)), text, "the channel");
    await.all_channels = channel == "*";
    if (!await.all_channels) await.channel = expression(channel);
  }
  if (name != lane_ || brace != Piece::npos) await.lane = Id(name);
}

// ---- posts

void Reader::post(Piece rest) {
  const size_t equals = scan::find_top(rest, "=");
  if (equals == Piece::npos)
    refuse(trim(rest).empty() ? Piece(line_->text) : trim(rest), "a post without a value",
           "post y[p] = sum(i in 0..n: x@i[p])");
  Post post;
  const Piece targets = required(trim(rest.substr(0, equals)), rest, "what the post is about");
  const size_t open = targets.find('['), close = open == Piece::npos ? open : scan::closing(targets, open);
  const Piece var = close == Piece::npos ? Piece() : trim(targets.substr(open + 1, close - open - 1));
  if (scan::is_name(var) && !known_number(Id(var), Scope::rank)) {
    std::set<Id> others(numbers_);
    post.var = declare(var, others, "variable");
    variables_.push_back(post.var);
  }
  post.targets = operands(targets, true);
  post.value = term(required(trim(rest.substr(equals + 1)), rest, "the value"));
  variables_.clear();
  for (const Operand& target : post.targets)
    if (target.kind != Operand::Kind::slice || target.peers || target.accumulate)
      refuse(targets, "a post is about buffers of this rank", "post y[p] = ...");
  plan_.posts.push_back(std::move(post));
}

PostTerm Reader::term(Piece text) {
  const size_t open = call_bracket(text);
  if (open != Piece::npos) {
    kernel::Reduction reduction;
    Id param;
    const Piece name = text.substr(0, open);
    const bool ranges = names_reduction(name, reduction, param) || find_space(plan_, Id(name)) >= 0;
    return ranges ? reduce_term(text, open) : call_term(text, open);
  }
  PostTerm result;
  const Operand operand = this->operand(text, false);
  if (operand.kind == Operand::Kind::recv) refuse(text, "a post is about buffers, not messages", "x@i[p]");
  result.kind = operand.kind == Operand::Kind::constant ? PostTerm::Kind::constant : PostTerm::Kind::cell;
  result.value = operand.value;
  if (result.kind == PostTerm::Kind::cell) result.cell = operand;
  return result;
}

PostTerm Reader::reduce_term(Piece text, size_t open) {
  PostTerm result;
  result.kind = PostTerm::Kind::reduce;
  if (!names_reduction(text.substr(0, open), result.reduction, result.reduction_param))
    result.reduction_param =
        Id(text.substr(0, open));  // a space: its elements in these parts, which a tile reads whole
  if (scan::closing(text, open) != text.size() - 1)
    refuse(text, "the reduction is not closed", "sum(i in 0..n: x@i[p])");
  const Piece inside = text.substr(open + 1, text.size() - open - 2);
  const size_t colon = scan::find_top(inside, ":");
  if (colon == Piece::npos) refuse(inside, "a reduction without its range", "sum(i in 0..n: x@i[p])");
  Piece range = inside.substr(0, colon);
  const Piece var = scan::take_word(range);
  std::set<Id> others(numbers_);
  if (std::count(variables_.begin(), variables_.end(), var))
    refuse(var, fmt::format("{} is already a variable around this place", var), "rename it");
  result.var = declare(var, others, "variable");
  expect_word(range, "in", var);
  const std::vector<Piece> bounds = scan::split_pieces(range, "..");
  if (bounds.size() != 2) refuse(inside, "the range of a reduction is A..B", "sum(i in 0..n: x@i[p])");
  result.lo = expression(required(bounds[0], inside, "the lower bound"));
  result.hi = expression(required(bounds[1], inside, "the upper bound"));
  variables_.push_back(result.var);
  result.args.push_back(term(required(trim(inside.substr(colon + 1)), inside, "what is reduced")));
  variables_.pop_back();
  return result;
}

// NAME(scalars)(terms), or NAME(terms) for a kernel without scalars.
PostTerm Reader::call_term(Piece text, size_t open) {
  PostTerm result;
  result.kind = PostTerm::Kind::kernel;
  result.call.name = Id(text.substr(0, open));
  size_t close = scan::closing(text, open);
  if (close != Piece::npos && close + 1 < text.size() && text[close + 1] == '(') {
    result.call.scalars = scalar_names(text.substr(open + 1, close - open - 1));
    open = close + 1;
    close = scan::closing(text, open);
  }
  if (close != text.size() - 1) refuse(text, "the call is not closed", "KERNEL(scalars)(terms)");
  const int index = find_kernel(plan_, result.call.name);
  if (index < 0)
    refuse(text.substr(0, result.call.name.size()), fmt::format("no kernel or reduction {}", result.call.name),
           "declare the kernel");
  for (const Piece piece : scan::split_pieces(text.substr(open + 1, close - open - 1), ","))
    result.args.push_back(term(required(piece, text, "a term")));
  const kernel::Kernel& kernel = plan_.kernels[static_cast<size_t>(index)];
  if (kernel.inputs.size() != result.args.size() || kernel.scalars.size() != result.call.scalars.size())
    refuse(text,
           fmt::format("kernel {} takes {} scalars and {} values, not {} and {}", kernel.name, kernel.scalars.size(),
                       kernel.inputs.size(), result.call.scalars.size(), result.args.size()),
           kernel::print(kernel));
  return result;
}

}  // namespace weft::plan
