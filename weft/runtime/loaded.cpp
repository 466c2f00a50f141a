// Loading: steps laid out, code found, links opened, awaits connected (loaded.h).
#include "weft/runtime/loaded.h"

#include <algorithm>

#include "weft/base/hash.h"
#include "weft/base/limits.h"
#include "weft/base/text.h"
#include "weft/plan/verify_here.h"
#include "weft/runtime/bound.h"

namespace weft::runtime {
namespace {

static_assert(max_channels == most_channels, "every channel of a plan has a header on the board");

constexpr int64_t default_payload_bytes = 256 << 10;  // of a slot: four of them fit a second-level cache

std::string params_text(const LoadOptions& options) {
  std::string text;
  for (const auto& [name, value] : options.params) text += name + " = " + value + "\n";
  return text;
}

std::string settings_text(const std::vector<int64_t>& chunks, bool stream, std::string_view library) {
  std::vector<std::string> list;
  for (int64_t chunk : chunks) list.push_back(std::to_string(chunk));
  return fmt::format("chunk_elements {}\nstream {}\nkernels {}", join(list, " "), stream, library);
}

// Verification is the same everywhere, so one rank does it and tells the others.
void verify_once(transport::Transport& transport, const plan::Plan& plan, const LoadOptions& options) {
  std::string problem;
  if (transport.rank() == 0) {
    try {
      plan::VerifyOptions verify;
      verify.params = options.params;
      // A plan is verified for more ranks than there are here: those are like the ones that are.
      bool all = true;
      for (int peer = 0; peer < transport.size(); ++peer) all &= transport.mappable(peer);
      verify.mappable = [&transport, all](int, int peer) {
        return peer < transport.size() ? transport.mappable(peer) : all;
      };
      plan::require_verified_here(plan, transport.size(), verify);
    } catch (const Error& error) { problem = error.what(); }
  }
  const std::string told = transport.exchange(problem, "verify a plan")[0];
  if (!told.empty()) throw Error(ErrorKind::plan, told);
}

std::vector<int64_t> chunks_for(const plan::Instance& instance, const LoadOptions& options) {
  std::vector<int64_t> chunks = plan::default_chunk(instance, default_payload_bytes);
  for (size_t s = 0; s < std::min(chunks.size(), options.chunk_elements.size()); ++s)
    if (options.chunk_elements[s] > 0) chunks[s] = options.chunk_elements[s];
  return chunks;
}

}  // namespace

Loaded::Loaded(Communicator::Impl& of, const plan::Plan& plan, const LoadOptions& with)
    : owner(of), options(with), instance(plan, of.transport.size(), with.params) {
  transport::Transport& transport = owner.transport;
  chunk_elements = chunks_for(instance, options);
  const std::string text = plan::print(plan), params = params_text(options),
                    settings = settings_text(chunk_elements, options.stream, owner.kernels.name());
  agree_on_load(transport, "load a plan",
                {{"plan", text},
                 {"parameters", params},
                 {"program, schedule and machine", options.identity},
                 {"settings", settings}});
  identity = hash64(text + "\n" + params + "\n" + options.identity + "\n" + settings);
  if (options.verify) verify_once(transport, plan, options);
  assembly = plan::assemble(instance);
  typing = std::make_unique<Typing>(assembly);
  scalar_names = plan::launch_scalars(plan);
  lay_out();
  find_code();
  open_links(nullptr);
  connect_awaits();
}

Loaded::~Loaded() = default;

int Loaded::rank() const { return owner.transport.rank(); }

std::string Loaded::describe(const LoadedLane& lane, int block, int step) const {
  const plan::FlatStep& flat = lane.blocks[static_cast<size_t>(block)].steps[static_cast<size_t>(step)].text->flat;
  return fmt::format("{} `{}`", assembly.describe(lane.assembled, block, step), text_of(lane.lane, flat.source_step));
}

std::string Loaded::text_of(int lane, int source_step) const {
  const auto steps = plan::text_steps(instance.plan().lanes[static_cast<size_t>(lane)].body);
  return plan::print(*steps[static_cast<size_t>(source_step)]);
}

void Loaded::lay_out() {
  for (size_t i = 0; i < assembly.lanes.size(); ++i) {
    const plan::AssembledLane& from = assembly.lanes[i];
    if (from.rank != rank()) continue;
    LoadedLane& lane = lanes.emplace_back();
    lane.assembled = static_cast<int>(i), lane.lane = from.lane, lane.channel = from.channel;
    for (size_t b = 0; b < from.blocks.size(); ++b) {
      LoadedBlock& block = lane.blocks.emplace_back();
      block.text = &from.blocks[b];
      block.counter = counters_.emplace_back(std::make_unique<BlockCounter>()).get();
      int64_t* done = done_.emplace_back(new int64_t[from.blocks[b].steps.size()]()).get();
      for (const plan::AssembledStep& step : from.blocks[b].steps) {
        LoadedStep& loaded = block.steps.emplace_back();
        loaded.text = &step;
        loaded.typing = typing->step(from, from.blocks[b], step, options.stream);
        loaded.done = done++;
      }
    }
  }
}

// All shapes are asked for together, so that a compiler can work on them side by side.
void Loaded::find_code() {
  std::vector<kernel::StepShape> shapes;
  std::map<std::string, size_t> known;
  std::vector<std::pair<LoadedStep*, size_t>> users;
  std::map<std::pair<size_t, std::vector<int>>, int> uses;
  for (LoadedLane& lane : lanes)
    for (LoadedBlock& block : lane.blocks)
      for (LoadedStep& step : block.steps) {
        if (step.typing.idle) continue;
        const auto [place, fresh] = known.try_emplace(step.typing.shape.key(), shapes.size());
        if (fresh) shapes.push_back(step.typing.shape);
        users.emplace_back(&step, place->second);
      }
  const std::vector<kernel::StepCode> codes =
      shapes.empty() ? std::vector<kernel::StepCode>() : owner.kernels.find(shapes);
  for (LoadedLane& lane : lanes) {
    const std::vector<const plan::Step*> text =
        plan::text_steps(instance.plan().lanes[static_cast<size_t>(lane.lane)].body);
    for (LoadedBlock& block : lane.blocks)
      for (LoadedStep& step : block.steps) {
        if (step.typing.idle) continue;
        const size_t shape = known.at(step.typing.shape.key());
        step.code = codes[shape];
        std::vector<int> scalars;
        for (const plan::Id& name : text[step.text->flat.source_step]->kernel.scalars)
          scalars.push_back(
              static_cast<int>(std::find(scalar_names.begin(), scalar_names.end(), name) - scalar_names.begin()));
        const auto [use, fresh] = uses.try_emplace({shape, scalars}, static_cast<int>(code_uses.size()));
        if (fresh) {
          code_uses.push_back({codes[shape], scalars, hoisted_bytes});
          hoisted_bytes += (codes[shape].hoisted_bytes + 63) / 64 * 64;
        }
        step.code_use = use->second;
      }
  }
}

}  // namespace weft::runtime
