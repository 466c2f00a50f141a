// weft topo: what a machine consists of, listed and drawn.
#include <cstdio>
#include <filesystem>

#include "tools/sim.h"
#include "weft/base/file.h"
#include "weft/topo/layout.h"
#include "weft/view/graph.h"

namespace weft::tools {
namespace {

struct Options {
  std::string machine, out;
  bool dot = false;
};

topo::Layout layout_of(const std::string& machine) {
  if (machine.empty()) return topo::layout_here();
  if (std::filesystem::is_regular_file(machine) && topo::is_nccl_topology(file_text(machine)))
    return topo::read_nccl_topology(machine);
  return topo::layout_of(find_cluster(machine));
}

void topo_verb(const Options& options) {
  const topo::Layout layout = layout_of(options.machine);
  const std::string drawn = options.dot || !options.out.empty() ? topo::dot(layout) : "";
  if (!options.out.empty()) write_file(options.out, options.dot ? drawn : view::svg(drawn));
  if (options.out.empty()) std::fputs((options.dot ? drawn : topo::print(layout)).c_str(), stdout);
}

}  // namespace

Verb add_topo(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("topo", "list or draw this machine, a cluster file, or an NCCL topology");
  verb->footer(
      "  weft topo                                     this machine: packages, caches, cores, GPUs and NICs\n"
      "  weft topo --machine dgx_a100:4 -o dgx.svg     draw a machine of machines/ with four nodes\n"
      "  weft topo --machine topo.xml                  what NCCL wrote with NCCL_TOPO_DUMP_FILE, and how its GPUs "
      "reach\n"
      "                                                each other (NV4, PIX, PXB, PHB, SYS)");
  verb->add_option("-m,--machine", options->machine,
                   "a machine's name or its cluster file, NAME:NODES, or an NCCL topology (.xml); else this machine");
  verb->add_option("-o,--output", options->out, "draw into this file (SVG, by graphviz)");
  verb->add_flag("--dot", options->dot, "DOT text instead");
  return [options] { topo_verb(*options); };
}

}  // namespace weft::tools
