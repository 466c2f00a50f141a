// Graphviz lays out; we only say what is next to what. Colours: state green, input grey, communication orange,
// computation white, output bold. A scheduled program and a naive one are drawn alike, so that they can be compared.
#include "weft/view/graph.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <set>

#include "weft/base/error.h"
#include "weft/base/file.h"
#include "weft/ir/ops.h"

namespace weft::view {
namespace {

std::string dot_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\l";
      continue;
    }
    out += c;
  }
  return out + "\"";
}

std::string node(const ir::Program& program, const ir::Op& op) {
  const bool moves = op.def->op_class == ir::OpClass::communication;
  const char* fill = moves ? "#ffd9a8" : "white";
  const int width = ir::is_out(program, op.name) ? 3 : 1;
  std::string text = ir::print(op);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return fmt::format("  {} [label={}, shape=box, style=filled, fillcolor=\"{}\", penwidth={}];\n", dot_string(op.name),
                     dot_string(text), fill, width);
}

void edges(const ir::Op& op, const ir::Types& types, std::string& out) {
  for (const ir::Name& arg : op.args)
    out += fmt::format("  {} -> {} [label={}, fontsize=9];\n", dot_string(arg), dot_string(op.name),
                       dot_string(ir::print(types.at(arg))));
}

void step_lines(const plan::Body& body, int depth, std::string& out) {
  const std::string pad(static_cast<size_t>(depth) * 2, ' ');
  for (const plan::Item& item : body) {
    if (const auto* step = std::get_if<plan::Step>(&item)) {
      out += pad + plan::print(*step) + "\n";
    } else if (const auto* loop = std::get_if<plan::Loop>(&item)) {
      out += pad + "loop " + join(loop->spaces, " ") + "\n";
      step_lines(loop->body, depth + 1, out);
    } else if (const auto* repeat = std::get_if<plan::For>(&item)) {
      out += pad + fmt::format("for {} in {}..{}\n", repeat->var, expr::print(repeat->lo, expr::Syntax::plan),
                               expr::print(repeat->hi, expr::Syntax::plan));
      step_lines(repeat->body, depth + 1, out);
    } else if (const auto* when = std::get_if<plan::When>(&item)) {
      out += pad + "when " + expr::print(when->cond, expr::Syntax::plan) + "\n";
      step_lines(when->body, depth + 1, out);
    }
  }
}

// Buffers and families that a lane reads or writes.
void touched(const plan::Body& body, const plan::Id& lane, std::set<std::string>& reads,
             std::set<std::string>& writes) {
  const auto note = [&](const plan::Operand& operand, std::set<std::string>& into) {
    if (operand.kind == plan::Operand::Kind::constant) return;
    const bool link = operand.kind != plan::Operand::Kind::slice;
    into.insert((link ? "link " : "") + (operand.name.empty() ? lane : operand.name));
  };
  for (const plan::Item& item : body) {
    if (const auto* step = std::get_if<plan::Step>(&item)) {
      for (const plan::Operand& operand : step->reduced) note(operand, reads);
      for (const plan::Operand& operand : step->others) note(operand, reads);
      for (const plan::Operand& operand : step->targets) note(operand, writes);
    } else if (const auto* loop = std::get_if<plan::Loop>(&item)) {
      touched(loop->body, lane, reads, writes);
    } else if (const auto* repeat = std::get_if<plan::For>(&item)) {
      touched(repeat->body, lane, reads, writes);
    } else if (const auto* when = std::get_if<plan::When>(&item)) {
      touched(when->body, lane, reads, writes);
    }
  }
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    const int file = mkstemp(path_.data());
    if (file < 0) fail(ErrorKind::io, "cannot write a temporary file {}", path_);
    close(file);
    write_file(path_, text);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (std::filesystem::temp_directory_path() / "weft-graph-XXXXXX").string();
};

}  // namespace

std::string dot(const ir::Program& program) {
  const ir::Types types = ir::infer(program);
  std::string out = fmt::format("digraph {} {{\n  rankdir=TB;\n  node [fontname=\"monospace\", fontsize=10];\n",
                                dot_string(program.name));
  for (const ir::TensorDecl& tensor : program.tensors)
    out += fmt::format("  {} [label={}, shape=ellipse, style=filled, fillcolor=\"{}\"];\n", dot_string(tensor.name),
                       dot_string((tensor.state ? "state " : "in ") + tensor.name + "\n" + ir::print(tensor.type)),
                       tensor.state ? "#cdeccd" : "#e4e4e4");
  for (const ir::Op& op : program.ops) {
    out += node(program, op);
    edges(op, types, out);
  }
  for (const ir::Block& block : program.blocks) {
    out += fmt::format("  subgraph {} {{\n    label={}; style=rounded; color=\"#4060c0\";\n",
                       dot_string("cluster_" + block.name),
                       dot_string((block.kind == ir::Block::Kind::fuse ? "fuse " : "overlap ") + block.name));
    for (const ir::Name& member : block.members) out += fmt::format("    {};\n", dot_string(member));
    out += "  }\n";
  }
  for (const ir::Update& update : program.updates)
    out += fmt::format("  {} -> {} [style=dashed, label=\"update\", fontsize=9, constraint=false];\n",
                       dot_string(update.value), dot_string(update.state));
  return out + "}\n";
}

std::string dot(const plan::Plan& plan) {
  std::string out = fmt::format("digraph {} {{\n  rankdir=LR;\n  node [fontname=\"monospace\", fontsize=10];\n",
                                dot_string(plan.name));
  for (const plan::Buffer& buffer : plan.buffers)
    out += fmt::format("  {} [label={}, shape=ellipse, style=filled, fillcolor=\"#e4e4e4\"];\n",
                       dot_string(buffer.name), dot_string(buffer.name + " " + buffer.dtype));
  for (const plan::Family& family : plan.families)
    out += fmt::format("  {} [label={}, shape=cds, style=filled, fillcolor=\"#ffd9a8\"];\n",
                       dot_string("link " + family.name), dot_string("link " + family.name));
  for (const plan::Lane& lane : plan.lanes) {
    std::string steps = "lane " + lane.name + "\n";
    step_lines(lane.body, 1, steps);
    out += fmt::format("  {} [label={}, shape=box];\n", dot_string("lane " + lane.name), dot_string(steps));
    std::set<std::string> reads, writes;
    touched(lane.body, lane.name, reads, writes);
    for (const std::string& name : reads)
      out += fmt::format("  {} -> {};\n", dot_string(name), dot_string("lane " + lane.name));
    for (const std::string& name : writes)
      out += fmt::format("  {} -> {};\n", dot_string("lane " + lane.name), dot_string(name));
  }
  return out + "}\n";
}

std::string svg(const std::string& dot_text) {
  const TemporaryFile file(dot_text);
  FILE* pipe = popen(fmt::format("dot -Tsvg '{}' 2>/dev/null", file.path()).c_str(), "r");
  if (!pipe) fail(ErrorKind::io, "cannot start `dot`");
  std::string out;
  std::array<char, 65536> piece;
  for (size_t got; (got = fread(piece.data(), 1, piece.size(), pipe)) > 0;) out.append(piece.data(), got);
  if (pclose(pipe) != 0 || out.empty())
    throw Error(ErrorKind::unsupported, "pictures need graphviz's `dot`, which did not run here",
                "apt-get install graphviz, or take --as dot");
  return out;
}

}  // namespace weft::view
