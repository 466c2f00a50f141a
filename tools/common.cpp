// What verbs share: programs, sizes and scalars from the command line, checked before any work begins.
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tools/verbs.h"
#include "weft/base/file.h"
#include "weft/foreign/msccl.h"
#include "weft/ir/shapes.h"
#include "weft/transport/spec.h"
#include "weft/tune/configure.h"

namespace weft::tools {
namespace {

bool shown = false;

// One place gives the shapes of a list of tensors: two that both count would be added, two that do not be a riddle.
void require_one_source(const ProgramOptions& options, const std::vector<std::string>& lists) {
  std::vector<std::string> sources;
  if (!options.model.empty()) sources.push_back("--model " + options.model);
  if (!options.shapes.empty()) sources.push_back("--shapes " + options.shapes);
  for (const std::string& text : options.sizes)
    if (!lists.empty() && text.rfind(lists.front() + "=", 0) == 0) sources.push_back("--size " + text);
  if (sources.size() < 2) return;
  throw Error(ErrorKind::user, fmt::format("the shapes of {} are given twice: {}", lists.front(), join(sources, ", ")),
              "give one of them");
}

// A model's shapes lie beside the program, in the repository, or where the package was installed.
std::filesystem::path model_file(const std::string& program_file, const std::string& model) {
  const std::string name = model + ".shapes";
  const std::filesystem::path beside = std::filesystem::path(program_file).parent_path() / "shapes";
  std::set<std::string> known, looked;
  for (const std::filesystem::path& folder :
       {beside, std::filesystem::path("examples/shapes"), std::filesystem::path(WEFT_DATA_DIR) / "shapes"}) {
    if (std::filesystem::exists(folder / name)) return folder / name;
    looked.insert(folder.lexically_normal().string());
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      if (entry.path().extension() == ".shapes") known.insert(entry.path().stem().string());
  }
  const auto listed = [](const std::set<std::string>& names) { return join({names.begin(), names.end()}, ", "); };
  if (!known.empty())
    throw Error(ErrorKind::user, "no shapes of a model named " + model,
                fmt::format("models here: {}; or give a file with --shapes", listed(known)));
  throw Error(ErrorKind::user, fmt::format("no shapes of a model named {}: looked in {}", model, listed(looked)),
              "none of these folders has shapes: run in Weft's repository, where examples/shapes has bert-base and "
              "bert-large, or give a file with --shapes");
}

std::vector<std::string> tensors_of(const ir::Program& program) {
  std::vector<std::string> out;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* tensors = std::get_if<ir::TensorsDecl>(&decl)) out.push_back(tensors->name);
  return out;
}

void take_shapes(const std::filesystem::path& file, const ir::Program& program, ir::Sizes& sizes) {
  const std::vector<std::string> lists = tensors_of(program);
  if (lists.empty())
    throw Error(ErrorKind::user, fmt::format("{} has no `tensors` line, so a model's shapes do not fit", program.name),
                "give sizes with --size NAME=VALUE");
  for (const auto& tensor : ir::read_shapes(file.string())) sizes.tensors[lists.front()].push_back(tensor.shape);
}

}  // namespace

std::pair<std::string, std::string> key_value(const std::string& text, const std::string& option,
                                              const std::string& example) {
  const size_t at = text.find('=');
  if (at != std::string::npos && at > 0 && at + 1 == text.size())
    throw Error(ErrorKind::user, fmt::format("{} {}: the value is missing", option, text),
                fmt::format("for example {} {}", option, example));
  if (at == std::string::npos || at == 0)
    throw Error(ErrorKind::user, fmt::format("{} {}: want NAME=VALUE", option, text),
                fmt::format("for example {} {}", option, example));
  return {text.substr(0, at), text.substr(at + 1)};
}

void add_numerics_option(CLI::App& verb, std::string& numerics) {
  verb.add_option(
          "--numerics", numerics,
          "keep: the program's numbers; loose: also schedules that change them (bf16 wires, casts before a sum)")
      ->check(CLI::IsMember({"keep", "loose"}))
      ->capture_default_str();
}

void add_program_options(CLI::App& verb, ProgramOptions& options) {
  verb.add_option("file", options.file, "a program (.weft)")->required();
  verb.add_option("-r,--ranks", options.ranks, "ranks")->check(CLI::Range(1, 1024))->capture_default_str();
  verb.add_option("--size", options.sizes,
                  "a size: NAME=VALUE, with Ki, Mi, Gi; for `tensors P`, one tensor of so many elements");
  verb.add_option("--scalar", options.scalars,
                  "a launch scalar: NAME=VALUE (default: floats 0.001, integers the launch's number)");
  verb.add_option("--model", options.model, "shapes of a model for `tensors P`: bert-base, bert-large");
  verb.add_option("--shapes", options.shapes,
                  "a shapes file for `tensors P`: one tensor a line, NAME EXTENT EXTENT ...");
  auto* threads = verb.add_flag("--threads", options.threads, "ranks are threads of one process (else processes)");
  verb.add_option("--transport", options.transport,
                  "what lies between ranks: processes, threads, tcp, mixed:group=2, paced:alpha=5us,bw=1GB/s; "
                  "threads+tcp: ranks are threads")
      ->excludes(threads);
  verb.add_flag("--json", options.json, "print JSON instead of tables");
}

std::string transport_of(const ProgramOptions& options) {
  if (options.transport.empty()) return options.threads ? "threads" : "processes";
  transport::check_spec(options.transport);
  return options.transport;
}

const std::string& file_text(const std::string& file) {
  static std::map<std::string, std::string> known;
  const auto found = known.find(file);
  return found != known.end() ? found->second : known.emplace(file, read_file(file)).first->second;
}

ir::Program read_program(const std::string& file) { return ir::parse(file_text(file)); }

// What a program's file suggests, where nothing else is said: `# sizes N=16Mi H=1024`.
static void take_suggested(const std::string& file, const std::vector<std::string>& lists, ir::Sizes& sizes) {
  std::istringstream lines(file_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# sizes ")) continue;
    for (const std::string& text : words(line.substr(8))) {
      const auto [name, value] = key_value(text, "# sizes", "N=16Mi");
      if (sizes.dims.count(name) || sizes.tensors.count(name)) continue;
      if (std::find(lists.begin(), lists.end(), name) != lists.end())
        sizes.tensors[name] = {{parse_count(value)}};
      else
        sizes.dims[name] = parse_count(value);
    }
  }
}

ir::Sizes sizes_of(const ir::Program& program, const ProgramOptions& options) {
  ir::Sizes sizes;
  sizes.ranks = options.ranks;
  const std::vector<std::string> lists = tensors_of(program);
  if (!lists.empty()) require_one_source(options, lists);
  if (!options.model.empty()) take_shapes(model_file(options.file, options.model), program, sizes);
  if (!options.shapes.empty()) take_shapes(options.shapes, program, sizes);
  for (const std::string& text : options.sizes) {
    const auto [name, value] = key_value(text, "--size", "N=16Mi");
    const int64_t count = count_option("--size", value, name);
    if (sizes.dims.count(name) || sizes.tensors.count(name))
      throw Error(ErrorKind::user, fmt::format("size {} is given twice", name), "give it once");
    if (std::find(lists.begin(), lists.end(), name) != lists.end())
      sizes.tensors[name] = {{count}};
    else
      sizes.dims[name] = count;
  }
  const std::vector<std::string> declared = ir::dims(program);
  for (const ir::HeaderDecl& decl : program.header)  // one count for each rank
    if (const auto* ragged = std::get_if<ir::RaggedDecl>(&decl))
      if (const ir::TensorDecl* counts = ir::find_tensor(program, ragged->counts);
          counts && !counts->type.shape.empty())
        sizes.dims.try_emplace(counts->type.shape[0].name, sizes.ranks);
  take_suggested(options.file, lists, sizes);
  for (const auto& [name, value] : sizes.dims)
    if (std::find(declared.begin(), declared.end(), name) == declared.end())
      throw Error(ErrorKind::user, fmt::format("{} has no size named {}", program.name, name),
                  "its sizes are " + join(declared, ", "));
  std::vector<std::string> missing;
  for (const std::string& name : declared)
    if (!sizes.dims.count(name) && !sizes.tensors.count(name)) missing.push_back(name);
  if (!missing.empty())
    throw Error(ErrorKind::user, fmt::format("{} needs its sizes: {}", program.name, join(missing, ", ")),
                fmt::format("give --size {}=16Mi{}", missing.front(), lists.empty() ? "" : ", or --model bert-base"));
  return sizes;
}

// Integers travel as f64, which holds each of them up to 2^53: 2^53 + 1 would silently become another.
static double scalar_of(const std::string& text, const std::string& name, const std::string& value, Dtype dtype) {
  constexpr int64_t most = int64_t{1} << 53;
  char* end = nullptr;
  const double number = std::strtod(value.c_str(), &end);
  const bool whole = is_integer(dtype);
  if (*end || std::isspace(static_cast<unsigned char>(value[0])))
    throw Error(ErrorKind::user, fmt::format("--scalar {}: {} is no number", text, value),
                fmt::format("{} is {}, for example --scalar {}=1", name, whole ? "an integer" : "a number", name));
  const bool digits = value.find_first_not_of("+-0123456789") == std::string::npos;
  if (std::isinf(number) && value.find_first_of("0123456789") != std::string::npos && !(whole && digits))
    throw Error(ErrorKind::user, fmt::format("--scalar {}: {} is too large for a 64-bit float", text, value),
                "up to 1.79e308 in magnitude; write inf where infinity is meant");
  if (!whole) return number;
  if (number != std::floor(number) || !std::isfinite(number))
    throw Error(ErrorKind::user, fmt::format("--scalar {}: {} is an integer", text, name),
                fmt::format("for example --scalar {}=1", name));
  int64_t exact = 0;
  const char* first = value.c_str() + (value[0] == '+' ? 1 : 0);
  const bool fits = !digits || std::from_chars(first, value.c_str() + value.size(), exact).ec == std::errc();
  if (!fits || std::abs(number) > static_cast<double>(most) || exact > most || exact < -most)
    throw Error(ErrorKind::user, fmt::format("--scalar {}: {} is out of range", text, value),
                fmt::format("{} is an integer from -2^53 to 2^53 ({}) here", name, most));
  return number;
}

std::map<std::string, double> scalars_of(const ir::Program& program, const ProgramOptions& options) {
  std::map<std::string, Dtype> known;
  for (const ir::HeaderDecl& decl : program.header)
    if (const auto* scalar = std::get_if<ir::ScalarDecl>(&decl)) known[scalar->name] = scalar->dtype;
  std::map<std::string, double> out;
  for (const std::string& text : options.scalars) {
    const auto [name, value] = key_value(text, "--scalar", "lr=0.001");
    if (!known.count(name))
      throw Error(ErrorKind::user, fmt::format("{} has no scalar named {}", program.name, name),
                  "see its `scalar` lines");
    if (out.count(name)) throw Error(ErrorKind::user, fmt::format("scalar {} is given twice", name), "give it once");
    out[name] = scalar_of(text, name, value, known[name]);
  }
  return out;
}

int64_t count_option(const std::string& option, const std::string& text, const std::string& name) {
  try {
    return parse_count(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{} {}{}: {}", option, name.empty() ? "" : name + "=", text, error.message()),
                error.remedy());
  }
}

CLI::Validator finite_positive() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        char* end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        if (!text.empty() && !*end && std::isfinite(value) && value > 0) return "";
        return fmt::format("{} is no number of seconds above 0", text);
      },
      "SECONDS");
}

nlohmann::json launch_json(const schedule::Schedule& schedule) {
  const schedule::LaunchConfig launch = tune::configuration_of(schedule);
  return {{"algorithm", launch.algorithm.value_or("")},
          {"protocol", launch.protocol.value_or("simple")},
          {"channels", launch.channels.value_or(1)},
          {"chunk_bytes", launch.chunk_bytes.value_or(tune::default_chunk_bytes)},
          {"stream", launch.stream.value_or(false)}};
}

bool is_plan_file(const std::string& file) {
  return trim(file_text(file)).rfind("plan ", 0) == 0 || foreign::is_msccl(file_text(file));
}

PlanFile read_plan(const std::string& file) {
  if (!foreign::is_msccl(file_text(file))) return {plan::parse(file_text(file)), std::nullopt, true};
  foreign::Msccl schedule = foreign::read_msccl(file_text(file));
  return {std::move(schedule.plan), schedule.ranks, schedule.stated};
}

void progress_line(const std::string& text) {
  if (!isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\033[K%s", text.substr(0, 110).c_str());
  std::fflush(stderr);
  shown = true;
}

void end_progress() {
  if (shown) std::fprintf(stderr, "\r\033[K");
  shown = false;
}

}  // namespace weft::tools
