// The verbs of the `weft` command: each file adds its own to the parser and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "weft/ir/evaluate.h"
#include "weft/ir/program.h"
#include "weft/plan/launch.h"
#include "weft/schedule/schedule.h"

namespace weft::tools {

using Verb = std::function<void()>;  // throws weft::Error

Verb add_tune(CLI::App& app);
Verb add_run(CLI::App& app);
Verb add_show(CLI::App& app);
Verb add_explain(CLI::App& app);
Verb add_verify(CLI::App& app);
Verb add_calibrate(CLI::App& app);
Verb add_env(CLI::App& app);
Verb add_ops(CLI::App& app);
Verb add_bench(CLI::App& app);
Verb add_sim(CLI::App& app);
Verb add_topo(CLI::App& app);
Verb add_trace(CLI::App& app);

// What most verbs take: a program, its sizes, ranks.
struct ProgramOptions {
  std::string file;
  int ranks = 2;
  std::vector<std::string> sizes;    // P=16Mi, N=1024
  std::vector<std::string> scalars;  // lr=0.001
  std::string model, shapes;         // bert-base | a shapes file
  bool threads = false, json = false;
  std::string transport;  // "": processes, or threads
};
std::string transport_of(const ProgramOptions& options);  // Error(user) for words that are none
void add_program_options(CLI::App& verb, ProgramOptions& options);
void add_numerics_option(CLI::App& verb, std::string& numerics);  // --numerics keep | loose
// A file's text, read once: what is asked for again may be a pipe.
const std::string& file_text(const std::string& file);
ir::Program read_program(const std::string& file);
// Sizes of every dim and `tensors` of the program. Error(user) lists what is missing.
ir::Sizes sizes_of(const ir::Program& program, const ProgramOptions& options);
std::map<std::string, double> scalars_of(const ir::Program& program, const ProgramOptions& options);

// Name and value of NAME=VALUE. Error(user) names the option and the example.
std::pair<std::string, std::string> key_value(const std::string& text, const std::string& option,
                                              const std::string& example);
// The count that an option was given, such as 128M, or behind NAME=. Error(user) names the option.
int64_t count_option(const std::string& option, const std::string& text, const std::string& name = "");
CLI::Validator finite_positive();  // numbers above 0 that are neither nan nor inf

// The launch configuration of a schedule, every coordinate said: algorithm, protocol, channels, chunk_bytes, stream.
nlohmann::json launch_json(const schedule::Schedule& schedule);

// What a plan will do on each rank, and the lower bound of what it has to exchange; as a table or JSON.
std::string plan_stats(const plan::Plan& plan, int ranks, const plan::LaunchArgs& args,
                       const std::vector<int64_t>& chunk_elements, bool json);
// Extents for a plan that comes without a program: SPACE=ELEMENTS, 1 Mi where nothing is said.
plan::LaunchArgs plan_sizes(const plan::Plan& plan, int ranks, const std::vector<std::string>& sizes);
const plan::SegmentTable* one_segment(int64_t elements);  // a list of one tensor, kept as long as the process

// A plan, or what is read into one: a text file that begins with "plan ", or an MSCCL schedule.
bool is_plan_file(const std::string& file);
struct PlanFile {
  plan::Plan plan;
  std::optional<int> ranks;  // it is for this number only
  bool stated = true;        // it says what its results must be
};
PlanFile read_plan(const std::string& file);

// A line that the next one replaces: on a terminal only.
void progress_line(const std::string& text);
void end_progress();

}  // namespace weft::tools
