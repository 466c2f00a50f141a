// XML to numbers. pugixml reads the text; here every attribute is asked for by name, must be there, and must be a whole
// number of its range: a misspelt depid would else be a dependency that silently is not.
#include "weft/foreign/msccl_file.h"

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>

#include "weft/base/text.h"

namespace weft::foreign {
namespace {

constexpr int64_t most_ranks = 4096, most_chunks = 1 << 20, most_blocks = 4096;

constexpr StepType types[] = {
    // name  receives reads  writes sends  folds
    {"s", false, true, false, true, false},    {"r", true, false, true, false, false},
    {"rcs", true, false, true, true, false},   {"rrs", true, true, false, true, false},
    {"rrc", true, true, true, false, false},   {"rrcs", true, true, true, true, false},
    {"cpy", false, true, true, false, false},  {"re", false, true, true, false, true},
    {"nop", false, false, false, false, false}};

class FileReader {
 public:
  explicit FileReader(std::string_view text) { file_.text = text; }

  File read() {
    pugi::xml_document document;
    const pugi::xml_parse_result result =
        document.load_buffer(file_.text.data(), file_.text.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result)
      refuse(file_, static_cast<size_t>(std::max<ptrdiff_t>(result.offset, 0)), "V1",
             fmt::format("this is no XML: {}", result.description()), "an MSCCL schedule is one element <algo ...>");
    const pugi::xml_node top = document.document_element();
    if (std::string_view(top.name()) != "algo")
      refuse(file_, place(top), "V1", fmt::format("the first element is <{}>", top.name()),
             "an MSCCL schedule is one element <algo ...>");
    algorithm(top);
    return std::move(file_);
  }

 private:
  static size_t place(const pugi::xml_node& node) {
    const ptrdiff_t name = node.offset_debug();  // of the name, behind the bracket
    return name > 0 ? static_cast<size_t>(name) - 1 : 0;
  }

  [[noreturn]] void fault(const pugi::xml_node& node, const std::string& message, const std::string& remedy) const {
    refuse(file_, place(node), "V1", where_ + message, remedy);
  }

  std::string text(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_attribute found = node.attribute(name);
    if (!found) fault(node, fmt::format("<{}> has no {}", node.name(), name), fmt::format("{}=\"...\"", name));
    return found.value();
  }

  int64_t number(const pugi::xml_node& node, const char* name, int64_t least, int64_t most) const {
    const std::string value = text(node, name);
    int64_t result = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), result);
    if (error != std::errc() || end != value.data() + value.size() || result < least || result > most)
      fault(node, fmt::format("{}=\"{}\"", name, value), fmt::format("a whole number from {} to {}", least, most));
    return result;
  }

  int64_t number_or(const pugi::xml_node& node, const char* name, int64_t least, int64_t most, int64_t other) const {
    return node.attribute(name) ? number(node, name, least, most) : other;
  }

  // The elements in a node, which are all of one name.
  std::vector<pugi::xml_node> elements(const pugi::xml_node& node, std::string_view name) const {
    std::vector<pugi::xml_node> list;
    for (const pugi::xml_node& child : node.children()) {
      if (child.type() != pugi::node_element) continue;
      if (child.name() == std::string_view("op"))
        refuse(file_, place(child), "", where_ + "<op> belongs to a later form of the format, which is not read",
               "write it with old_format=True: <step s= type= srcbuf= ...>", ErrorKind::unsupported);
      if (child.name() != name)
        fault(child, fmt::format("<{}> in <{}>", child.name(), node.name()),
              fmt::format("only <{}> is known there", name));
      list.push_back(child);
    }
    return list;
  }

  void algorithm(const pugi::xml_node& node) {
    file_.at = place(node);
    file_.name = text(node, "name");
    file_.collective = text(node, "coll");
    file_.protocol = text(node, "proto");
    file_.reduction = node.attribute("redop").value();
    file_.chunks_per_loop = number(node, "nchunksperloop", 1, most_chunks);
    file_.in_place = number_or(node, "inplace", 0, 1, 0) == 1;
    file_.out_of_place = number_or(node, "outofplace", 0, 1, file_.in_place ? 0 : 1) == 1;
    const int64_t ranks = number(node, "ngpus", 1, most_ranks);
    file_.root = number_or(node, "root", 0, ranks - 1, 0);
    std::map<int64_t, FileGpu> gpus;
    for (const pugi::xml_node& child : elements(node, "gpu")) {
      where_.clear();
      const int64_t id = number(child, "id", 0, ranks - 1);
      where_ = fmt::format("gpu {}: ", id);
      if (gpus.count(id)) fault(child, "is there twice", "one <gpu> for each id");
      gpus.emplace(id, gpu(child, ranks, id));
    }
    where_.clear();
    for (int64_t id = 0; id < ranks; ++id) {
      if (!gpus.count(id))
        fault(node, fmt::format("there is no <gpu id=\"{}\">, of {}", id, ranks),
              "one <gpu> for each id from 0 to ngpus-1");
      file_.gpus.push_back(std::move(gpus.at(id)));
    }
  }

  FileGpu gpu(const pugi::xml_node& node, int64_t ranks, int64_t id) {
    FileGpu gpu;
    gpu.at = place(node);
    gpu.chunks = {number(node, "i_chunks", 0, most_chunks), number(node, "o_chunks", 0, most_chunks),
                  number(node, "s_chunks", 0, most_chunks)};
    for (const pugi::xml_node& child : elements(node, "tb")) {
      where_ = fmt::format("gpu {}: ", id);
      FileBlock block;
      block.at = place(child);
      block.id = number(child, "id", 0, most_blocks - 1);
      where_ = fmt::format("gpu {} threadblock {}: ", id, block.id);
      if (gpu.blocks.count(block.id)) fault(child, "is there twice", "one <tb> for each id");
      block.send = number(child, "send", -1, ranks - 1);
      block.receive = number(child, "recv", -1, ranks - 1);
      block.channel = number(child, "chan", -1, most_blocks - 1);
      if (block.channel < 0 && (block.send >= 0 || block.receive >= 0))
        fault(child, "has a peer and no channel", "chan=\"0\" or more");
      read_steps(child, block);
      gpu.blocks.emplace(block.id, std::move(block));
    }
    return gpu;
  }

  void read_steps(const pugi::xml_node& node, FileBlock& block) {
    const std::string outside = where_;
    for (const pugi::xml_node& child : elements(node, "step")) {
      where_ = outside;
      const auto here = static_cast<int64_t>(block.steps.size());
      const int64_t said = number(child, "s", 0, most_chunks);
      where_ = fmt::format("{} step {}: ", outside.substr(0, outside.size() - 2), said);
      if (said != here)
        fault(child, fmt::format("stands at place {}", here), "steps are numbered 0, 1, 2 ... in the order they run");
      block.steps.push_back(read_step(child));
    }
    where_ = outside;
  }

  FileStep read_step(const pugi::xml_node& node) const {
    FileStep step;
    step.at = place(node);
    const std::string name = text(node, "type");
    step.type = &step_type(name);
    if (step.type->name.empty())
      refuse(file_, step.at, "", where_ + fmt::format("steps of type {} are not read", name),
             "s, r, rcs, rrc, rrs, rrcs, cpy, re or nop", ErrorKind::unsupported);
    step.count = number(node, "cnt", 0, most_chunks);
    step.source = chunks(node, "srcbuf", "srcoff", step.type->reads);
    step.target = chunks(node, "dstbuf", "dstoff", step.type->writes);
    step.after_block = number(node, "depid", -1, most_blocks - 1);
    step.after_step = number(node, "deps", -1, most_chunks);
    step.awaited = number(node, "hasdep", 0, 1) == 1;
    return step;
  }

  // An operand that its type does not have says anything (usually what the peer does): only its presence is checked.
  Chunks chunks(const pugi::xml_node& node, const char* buffer, const char* offset, bool used) const {
    const std::string name = text(node, buffer);
    const size_t at = std::string_view("ios").find(name);
    if (name.size() != 1 || at == std::string_view::npos)
      fault(node, fmt::format("{}=\"{}\"", buffer, name), "i, o or s");
    return {static_cast<Place>(at), number(node, offset, used ? 0 : -1, most_chunks)};
  }

  File file_;
  std::string where_;
};

}  // namespace

const StepType& step_type(std::string_view name) {
  static constexpr StepType unknown{};
  const auto* found =
      std::find_if(std::begin(types), std::end(types), [name](const StepType& type) { return type.name == name; });
  return found == std::end(types) ? unknown : *found;
}

File read_file_text(std::string_view text) { return FileReader(text).read(); }

void refuse(const File& file, size_t at, std::string_view rule, const std::string& message, const std::string& remedy,
            ErrorKind kind) {
  const std::string_view text = file.text;
  at = std::min(at, text.size());
  const size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const size_t end = std::min({text.find('\n', at), text.find('>', at) + 1, at + 160, text.size()});
  SourceLine line;
  line.number = 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
  line.indent = static_cast<int>(at - begin);
  line.text = trim(text.substr(at, std::max(end, at) - at));
  fail_at_column(kind, line, 0, 1, rule, message, remedy);
}

}  // namespace weft::foreign
