// From the file's numbers to a plan, in two halves: the head (spaces, buffers, links, posts) is written as plan text,
// which says it best; lanes are built, since they are long.
//
// Spaces. MSCCL cuts a call's data into nchunksperloop equal chunks, and runs only where they are equal. So the parts of
// all spaces are equal, and scratch is as large as its chunks. The pass over the buffers (MSCCL's loop over what a slot
// holds) is the plan's loop: nothing is reused from one chunk to the next, dependencies are between the same chunks.
//
// In place. The result lies where the input lies, or around it: one buffer, and the other name means places in it. Only
// then may the input be written.
//
// Links. A connection of NCCL has 8 slots; a message of the simple protocol takes 4 of them, one of LL and LL128 one. A
// schedule that needs more hangs there, so it must not pass here.
#include "weft/foreign/msccl.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "weft/base/text.h"
#include "weft/foreign/msccl_file.h"

namespace weft::foreign {
namespace {

using plan::Operand;

// What a collective's buffers hold: a block for each rank, or one. `b` is the number of chunks of a block, R the root.
// Posts of the result y where x is the input; in place, of the one buffer, which is called as the larger of both.
struct Collective {
  std::string_view name, other_name;
  bool input_blocks, output_blocks;  // larger by a block for each rank
  bool reduces;
  const char *post, *post_in_place;
};

constexpr Collective collectives[] = {
    {"allreduce", "all_reduce", false, false, true, "y[p] = OP(q in 0..n: x@q[p])", "x[p] = OP(q in 0..n: x@q[p])"},
    {"allgather", "all_gather", false, true, false, "y[p] = x@(p/B)[p%B]", "y[p] = y@(p/B)[p]"},
    {"reduce_scatter", "reducescatter", true, false, true, "y[p] = OP(q in 0..n: x@q[r*B+p])",
     "x[p] = OP(q in 0..n: x@sel(p/B == r, q, none)[p])"},
    {"alltoall", "all_to_all", true, true, false, "y[p] = x@(p/B)[r*B+p%B]", "x[p] = x@(p/B)[r*B+p%B]"},
    {"broadcast", "", false, false, false, "y[p] = x@ROOT[p]", "x[p] = x@ROOT[p]"},
    {"reduce", "", false, false, true, "y[p] = OP(q in 0..n: x@sel(r == ROOT, q, none)[p])",
     "x[p] = OP(q in 0..n: x@sel(r == ROOT, q, none)[p])"},
    {"gather", "", false, true, false, "y[p] = x@sel(r == ROOT, p/B, none)[p%B]",
     "y[p] = y@sel(r == ROOT, p/B, none)[p]"},
    {"scatter", "", true, false, false, "y[p] = x@ROOT[r*B+p]", "x[p] = x@sel(p/B == r, ROOT, none)[p]"},
    {"custom", "", false, false, false, "y[p] = y@none[p]", "x[p] = x@none[p]"}};

class Importer {
 public:
  explicit Importer(std::string_view text) : file_(read_file_text(text)), ranks_(static_cast<int>(file_.gpus.size())) {}

  Msccl read() {
    find_collective();
    count_chunks();
    Msccl result;
    result.plan = plan::parse(head());
    std::set<int64_t> blocks;
    for (const FileGpu& gpu : file_.gpus)
      for (const auto& [id, block] : gpu.blocks)
        if (!block.steps.empty()) blocks.insert(id);
    for (const int64_t id : blocks) result.plan.lanes.push_back(lane(id, result.plan.spaces));
    result.ranks = ranks_;
    result.collective = std::string(collective_->name);
    result.stated = collective_->name != "custom";
    result.root = static_cast<int>(file_.root);
    result.block = block_;
    return result;
  }

 private:
  void find_collective() {
    const std::string& name = file_.collective;
    for (const Collective& c : collectives)
      if (name == c.name || (!c.other_name.empty() && name == c.other_name)) collective_ = &c;
    if (!collective_)
      refuse(file_, file_.at, "", fmt::format("what coll=\"{}\" must compute is not known", name),
             "allreduce, allgather, reduce_scatter, alltoall, broadcast, reduce, gather, scatter; or custom, of which "
             "everything but the result is checked",
             ErrorKind::unsupported);
    if (!file_.in_place && !file_.out_of_place)
      refuse(file_, file_.at, "V1", "it runs neither in place nor out of place", "inplace=\"1\" or outofplace=\"1\"");
  }

  void count_chunks() {
    const int64_t whole = file_.chunks_per_loop;
    input_chunks_ = output_chunks_ = whole;
    if (collective_->name == "custom") {
      input_chunks_ = output_chunks_ = 0;
      for (const FileGpu& gpu : file_.gpus) {
        input_chunks_ = std::max(input_chunks_, gpu.chunks[0]);
        output_chunks_ = std::max(output_chunks_, gpu.chunks[1]);
      }
      if (single()) input_chunks_ = output_chunks_ = std::max(input_chunks_, output_chunks_);
      if (input_chunks_ + output_chunks_ == 0)
        refuse(file_, file_.at, "V1", "no GPU has an input or an output", "i_chunks or o_chunks above 0");
    } else if (collective_->input_blocks || collective_->output_blocks) {
      if (whole % ranks_ != 0)
        refuse(file_, file_.at, "V1",
               fmt::format("nchunksperloop=\"{}\" is no multiple of ngpus=\"{}\"", whole, ranks_),
               fmt::format("{} moves a block for each GPU, of equally many chunks", collective_->name));
      block_ = whole / ranks_;
      if (!collective_->input_blocks) input_chunks_ = block_;
      if (!collective_->output_blocks) output_chunks_ = block_;
    }
    for (const FileGpu& gpu : file_.gpus) scratch_chunks_ = std::max(scratch_chunks_, gpu.chunks[2]);
  }

  // One buffer for input and result. What runs in both ways has two where it can be seen in both: as x and y, its alias.
  bool single() const { return file_.in_place && !file_.out_of_place; }
  bool output_is_whole() const { return output_chunks_ > input_chunks_; }

  // ---- the head
  std::string head() const {
    const std::string reduction =
        std::set<std::string>{"prod", "min", "max"}.count(file_.reduction) ? file_.reduction : "sum";
    std::string text = fmt::format("plan 1 {}\norder any\nround hops\nparam T = f32\n", identifier(file_.name));
    if (collective_->reduces || folds()) text += fmt::format("param op = {}\n", reduction);
    text += fmt::format("require n == {}\nchannels 1\n", ranks_);
    text += spaces();
    const std::string protocol = protocol_name();
    for (const int64_t channel : channels())
      text += fmt::format("link ch{} {} slots {}\n", channel, protocol, protocol == "simple" ? 2 : 8);
    return text + "post " + post() + "\n";
  }

  std::string spaces() const {
    std::vector<std::pair<const char*, int64_t>> list;
    std::string buffers;
    if (single()) {
      const bool whole = output_is_whole();
      list.emplace_back(whole ? "o" : "i", std::max(input_chunks_, output_chunks_));
      buffers = whole ? "buffer y o T inout\n" : "buffer x i T inout\n";
    } else {
      if (input_chunks_ > 0) list.emplace_back("i", input_chunks_), buffers = "buffer x i T in\n";
      if (output_chunks_ > 0 && !shared_space()) list.emplace_back("o", output_chunks_);
      if (output_chunks_ > 0) buffers += shared_space() ? "buffer y i T out alias x\n" : "buffer y o T out\n";
    }
    if (scratch_chunks_ > 0) list.emplace_back("s", scratch_chunks_), buffers += "buffer t s T scratch\n";
    std::string text;
    for (const auto& [name, chunks] : list)
      text += fmt::format("space {} parts {} equal{}\n", name, chunks,
                          text.empty() ? "" : fmt::format(" like {}", list[0].first));
    return text + buffers;
  }

  // Memory can be shared as it stands: then one space serves both.
  bool shared_space() const { return file_.in_place && input_chunks_ == output_chunks_; }

  std::string post() const {
    std::string text = single() ? collective_->post_in_place : collective_->post;
    if (output_chunks_ == 0) text = "x[p] = x@none[p]";
    const auto put = [&text](std::string_view word, const std::string& by) {
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
        text.replace(at, word.size(), by);
    };
    put("ROOT", std::to_string(file_.root));
    put("OP", "op");
    put("B", std::to_string(block_));
    return text;
  }

  static std::string identifier(const std::string& name) {
    std::string text;
    for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) text = "msccl_" + text;
    return text;
  }

  std::string protocol_name() const {
    std::string lower;
    for (const char c : file_.protocol) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (lower != "simple" && lower != "ll" && lower != "ll128")
      refuse(file_, file_.at, "", fmt::format("proto=\"{}\" is not known", file_.protocol), "Simple, LL or LL128",
             ErrorKind::unsupported);
    return lower;
  }

  bool folds() const {
    return any_step([](const FileStep& step) { return step.type->folds || (step.type->receives && step.type->reads); });
  }

  template <typename F>
  bool any_step(F&& f) const {
    for (const FileGpu& gpu : file_.gpus)
      for (const auto& [id, block] : gpu.blocks)
        if (std::any_of(block.steps.begin(), block.steps.end(), f)) return true;
    return false;
  }

  std::set<int64_t> channels() const {
    std::set<int64_t> list;
    for (const FileGpu& gpu : file_.gpus)
      for (const auto& [id, block] : gpu.blocks)
        for (const FileStep& step : block.steps)
          if ((step.type->sends || step.type->receives) && block.channel >= 0) list.insert(block.channel);
    return list;
  }

  // ---- lanes
  plan::Lane lane(int64_t id, const std::vector<plan::Space>& spaces) const {
    plan::Loop loop;
    for (const plan::Space& space : spaces) loop.spaces.push_back(space.name);
    for (size_t rank = 0; rank < file_.gpus.size(); ++rank) {
      const auto found = file_.gpus[rank].blocks.find(id);
      if (found == file_.gpus[rank].blocks.end() || found->second.steps.empty()) continue;
      plan::When when;
      when.cond = expr::binary(expr::Op::eq, expr::name("r"), expr::integer(static_cast<int64_t>(rank)));
      for (size_t s = 0; s < found->second.steps.size(); ++s)
        when.body.push_back(step({static_cast<int64_t>(rank), &found->second, &found->second.steps[s], s}));
      loop.body.push_back(std::move(when));
    }
    return {fmt::format("tb{}", id), {std::move(loop)}};
  }

  struct Here {
    int64_t gpu;
    const FileBlock* block;
    const FileStep* step;
    size_t number;
  };

  [[noreturn]] void fault(const Here& here, std::string_view rule, const std::string& message,
                          const std::string& remedy) const {
    refuse(file_, here.step->at, rule,
           fmt::format("gpu {} threadblock {} step {}: {}", here.gpu, here.block->id, here.number, message), remedy);
  }

  plan::Step step(const Here& here) const {
    plan::Step result;
    result.label = fmt::format("s{}", here.number);
    const StepType& type = *here.step->type;
    if (here.step->count > 0) {
      if (type.receives) result.reduced.push_back(link(here, Operand::Kind::recv, here.block->receive, "recv"));
      if (type.folds) result.reduced.push_back(slice(here, here.step->target));
      if (type.reads) result.reduced.push_back(slice(here, here.step->source));
      if (type.writes) result.targets.push_back(slice(here, here.step->target));
      if (type.sends) result.targets.push_back(link(here, Operand::Kind::send, here.block->send, "send"));
      if (result.reduced.size() > 1)
        result.reduction_param = "op";
      else
        result.others.swap(result.reduced);
    }
    if (here.step->after_block >= 0) result.after.push_back(await(here));
    return result;
  }

  Operand link(const Here& here, Operand::Kind kind, int64_t peer, const char* attribute) const {
    if (peer < 0)
      fault(here, "V3", fmt::format("type {} in a block with {}=\"-1\"", here.step->type->name, attribute),
            fmt::format("say the peer: {}=\"...\"", attribute));
    if (peer == here.gpu)
      fault(here, "V3", fmt::format("{}=\"{}\" is this GPU itself", attribute, peer),
            "another GPU, or a step of type cpy or re");
    Operand operand;
    operand.kind = kind;
    operand.name = fmt::format("ch{}", here.block->channel);
    operand.peers = plan::Peers{expr::integer(peer), nullptr};
    return operand;
  }

  // Where chunks lie: the buffer and the part. In place, input and output are places in the one buffer.
  Operand slice(const Here& here, const Chunks& chunks) const {
    const int64_t sizes[] = {input_chunks_, output_chunks_, file_.gpus[static_cast<size_t>(here.gpu)].chunks[2]};
    const char* names[] = {"x", "y", "t"};
    const auto place = static_cast<size_t>(chunks.place);
    if (chunks.first + here.step->count > sizes[place])
      fault(here, "V2",
            fmt::format("chunks {} to {} of buffer {}, which has {}", chunks.first, chunks.first + here.step->count - 1,
                        "ios"[place], sizes[place]),
            place == 2 ? "a smaller offset or count, or a larger s_chunks"
                       : fmt::format("a smaller offset or count: {} with nchunksperloop=\"{}\" has so many",
                                     collective_->name, file_.chunks_per_loop));
    Operand operand;
    operand.name = names[place];
    int64_t first = chunks.first;
    if (single() && chunks.place != Place::scratch) {
      operand.name = output_is_whole() ? "y" : "x";
      const bool inside = sizes[place] < std::max(input_chunks_, output_chunks_);  // this GPU's block of the whole
      if (inside) first += here.gpu * block_;
    }
    operand.parts.first = expr::integer(first);
    if (here.step->count > 1) operand.parts.count = expr::integer(here.step->count);
    return operand;
  }

  plan::Await await(const Here& here) const {
    const auto& blocks = file_.gpus[static_cast<size_t>(here.gpu)].blocks;
    const int64_t id = here.step->after_block, number = here.step->after_step;
    const auto found = blocks.find(id);
    if (found == blocks.end() || number < 0 || number >= static_cast<int64_t>(found->second.steps.size()))
      fault(here, "V6", fmt::format("depid=\"{}\" deps=\"{}\" names no step of this GPU", id, number),
            "a threadblock's id and the number of one of its steps, or -1 and -1");
    if (!found->second.steps[static_cast<size_t>(number)].awaited)
      fault(here, "V6", fmt::format("waits for step {} of threadblock {}, which has hasdep=\"0\"", number, id),
            "hasdep=\"1\" there: MSCCL tells of a step's end only where it is asked to");
    plan::Await result;
    if (id != here.block->id) result.lane = fmt::format("tb{}", id);
    result.label = fmt::format("s{}", number);
    return result;
  }

  File file_;
  int ranks_;
  const Collective* collective_ = nullptr;
  int64_t input_chunks_ = 0, output_chunks_ = 0, scratch_chunks_ = 0, block_ = 1;
};

}  // namespace

Msccl read_msccl(std::string_view text) { return Importer(text).read(); }

bool is_msccl(std::string_view text) {
  text = trim(text);
  while (text.starts_with("<?") || text.starts_with("<!--")) {
    const std::string_view close = text.starts_with("<?") ? "?>" : "-->";
    const size_t end = text.find(close);
    if (end == std::string_view::npos) return false;
    text = trim(text.substr(end + close.size()));
  }
  return text.starts_with("<algo");
}

}  // namespace weft::foreign
