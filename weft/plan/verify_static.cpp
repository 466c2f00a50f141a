// What needs no run: form (V1), peers (V3), ends of links (V4), roles (V5), awaits (V6, V13), bounded messages (V14),
// grain (V16). Every instance of a step on every rank is looked at, since the text only shows itself in its numbers.
#include <algorithm>
#include <functional>

#include "weft/plan/verify_post.h"
#include "weft/plan/verify_run.h"

namespace weft::plan {

namespace {

class StaticCheck {
 public:
  StaticCheck(const Subject& subject, const VerifyOptions& options, Findings& findings)
      : subject_(subject), options_(options), findings_(findings), plan_(subject.instance.plan()) {}

  void check() {
    for (const Buffer& buffer : plan_.buffers) check_alias(buffer);
    for (const Space& space : plan_.spaces) check_grain(space);
    for (const Family& family : plan_.families)
      if (family.slots < 1 || family.slots > 4096)
        declare("V14", fmt::format("link {} has {} slots. Remedy: 1 to 4096", family.name, family.slots), family.name);
    for (size_t lane = 0; lane < plan_.lanes.size(); ++lane)
      for (const Step* step : subject_.text[lane]) check_form(plan_.lanes[lane].name, *step);
    each_step([&](int lane, int block, int step) {
      check_links(lane, block, step);
      check_slices(lane, block, step);
      check_awaits(lane, block, step);
    });
  }

 private:
  template <typename F>
  void each_step(F&& f) {
    for (size_t lane = 0; lane < subject_.assembly.lanes.size(); ++lane)
      for (size_t block = 0; block < subject_.assembly.lanes[lane].blocks.size(); ++block)
        for (size_t step = 0; step < subject_.assembly.lanes[lane].blocks[block].steps.size(); ++step)
          f(static_cast<int>(lane), static_cast<int>(block), static_cast<int>(step));
  }
  const AssembledBlock& block_of(int lane, int block) const {
    return at(at(subject_.assembly.lanes, lane).blocks, block);
  }

  void declare(const std::string& rule, const std::string& message, const std::string& name) {
    Finding finding;
    finding.rule = rule;
    finding.message = message;
    findings_.add(finding, name);
  }
  void fault(int lane, int block, int step, const std::string& rule, const std::string& message,
             const std::string& kind) {
    findings_.add(subject_.at(lane, block, step, rule, message), kind);
  }

  // ---- declarations
  void check_alias(const Buffer& buffer) {
    if (buffer.depth < 0)
      declare("V1", fmt::format("buffer {} has depth {}. Remedy: at least 1", buffer.name, buffer.depth), buffer.name);
    if (buffer.alias.empty()) return;
    const int mine = find_buffer(plan_, buffer.name), other = find_buffer(plan_, buffer.alias);
    if (other < 0 || at(plan_.buffers, other).space != buffer.space ||
        size_bytes(subject_.instance.dtype(mine)) != size_bytes(subject_.instance.dtype(other)) ||
        at(plan_.buffers, other).depth != buffer.depth)
      declare("V5",
              fmt::format("{} cannot lie where {} lies: space, element size or depth differ. Remedy: alias buffers of "
                          "one space and size",
                          buffer.name, buffer.alias),
              buffer.name);
  }

  void check_grain(const Space& space) {
    if (space.grain < 1)
      declare("V16", fmt::format("space {} has grain {}. Remedy: at least 1", space.name, space.grain), space.name);
    if (space.derived != Space::Derived::block || !space.block) return;
    const int of = find_space(plan_, space.of);
    PostNumbers numbers(subject_.instance);
    numbers.begin(0);
    const int64_t block = numbers(space.block);
    if (block < 1 || at(plan_.spaces, of).grain % block != 0)
      declare("V16",
              fmt::format("{} has one element per {} elements of {}, whose grain is {}: a block could be cut. Remedy: "
                          "space {} ... grain {}",
                          space.name, block, space.of, at(plan_.spaces, of).grain, space.of, block),
              space.name);
  }

  // ---- the text of a step
  void check_form(const Id& lane, const Step& step) {
    const auto say = [&](const std::string& message) {
      Finding finding;
      finding.rule = "V1";
      finding.lane = lane;
      finding.step = step.label.empty() ? print(step) : step.label;
      finding.message = message;
      findings_.add(finding, "form");
    };
    const size_t values = (step.reduced.empty() ? 0 : 1) + step.others.size();
    if (values == 0 && step.targets.empty()) return;
    if (step.targets.empty()) return say("sources and no target. Remedy: write the value somewhere");
    if (values == 0) return say("targets and no source. Remedy: name what is written, 0 for instance");
    if (step.kernel.name.empty()) {
      if (values != 1)
        say(fmt::format("{} values and no kernel. Remedy: reduce them, sum(a, b), or name a kernel", values));
      return;
    }
    const int index = find_kernel(plan_, step.kernel.name);
    if (index < 0) return say(fmt::format("no kernel {}. Remedy: write its body into the plan", step.kernel.name));
    const kernel::Kernel& kernel = at(plan_.kernels, index);
    if (kernel.inputs.size() != values)
      say(fmt::format("kernel {} takes {} values and gets {}", kernel.name, kernel.inputs.size(), values));
    if (kernel.scalars.size() != step.kernel.scalars.size())
      say(fmt::format("kernel {} takes {} scalars and gets {}", kernel.name, kernel.scalars.size(),
                      step.kernel.scalars.size()));
    if (kernel.outputs.size() > step.targets.size())
      say(fmt::format("kernel {} makes {} values for {} targets. Remedy: a target for each", kernel.name,
                      kernel.outputs.size(), step.targets.size()));
  }

  // ---- links
  void check_links(int lane, int block, int step) {
    const AssembledStep& what = at(block_of(lane, block).steps, step);
    for (const auto* list : {&what.receives, &what.sends})
      for (int index : *list) {
        const Link& link = at(subject_.assembly.links, index);
        const bool sends = list == &what.sends;
        if (link.from == link.to)
          fault(lane, block, step, "V3",
                fmt::format("rank {} has a link {} to itself. Remedy: a copy, or a peer that is `none` where n is 1",
                            link.from, at(plan_.families, link.family).name),
                "self");
        const auto [place, fresh] = ends_.try_emplace({index, sends}, lane);
        if (!fresh && place->second != lane)
          fault(lane, block, step, "V4",
                fmt::format("this end of link {} is also used by lane {}. Remedy: another family for one of them",
                            at(plan_.families, link.family).name,
                            at(plan_.lanes, at(subject_.assembly.lanes, place->second).lane).name),
                "ends");
      }
    if (what.receives.empty() && what.sends.empty()) return;
    const AssembledBlock& where = block_of(lane, block);
    const int main = main_operand(subject_.instance, where, what.flat);
    if (main < 0 || where.head.loop) return;
    const int space = subject_.instance.buffer_space(at(what.flat.operands, main).name);
    if (at(plan_.spaces, space).kind != Space::Kind::fixed)
      fault(lane, block, step, "V14",
            fmt::format(
                "a message holds a whole part of {}, however large. Remedy: send it in a loop over {}, chunk by chunk",
                at(plan_.spaces, space).name, at(plan_.spaces, space).name),
            "slot");
  }

  // ---- slices
  void check_slices(int lane, int block, int step) {
    const FlatStep& flat = at(block_of(lane, block).steps, step).flat;
    const int rank = at(subject_.assembly.lanes, lane).rank;
    for (size_t i = 0; i < flat.operands.size(); ++i) {
      const FlatOperand& operand = flat.operands[i];
      if (operand.kind != Operand::Kind::slice) continue;
      const bool writes = i >= size_t{flat.reduced} + flat.others;
      const Buffer& buffer = at(plan_.buffers, operand.name);
      if (writes && buffer.role == Buffer::Role::in)
        fault(lane, block, step, "V5",
              fmt::format("writes the input {}. Remedy: an `out` buffer, `alias {}` if it may lie there", buffer.name,
                          buffer.name),
              buffer.name);
      if (buffer.depth > 0 && !block_of(lane, block).head.loop)
        fault(lane, block, step, "V2",
              fmt::format("{} holds {} chunks in turn, and this step is in no loop. Remedy: no depth", buffer.name,
                          buffer.depth),
              buffer.name);
      for (int p = 0; p < operand.peer_count; ++p) {
        const int where = operand.here ? rank : (operand.peer_first + p) % subject_.instance.ranks();
        check_place(lane, block, step, operand, where);
      }
    }
  }

  void check_place(int lane, int block, int step, const FlatOperand& operand, int where) {
    const int rank = at(subject_.assembly.lanes, lane).rank;
    const Buffer& buffer = at(plan_.buffers, operand.name);
    if (where != rank && !buffer.mapped)
      fault(lane, block, step, "V3",
            fmt::format("accesses {}@{}, which is not mapped. Remedy: declare it `mapped`, or send a message",
                        buffer.name, where),
            buffer.name);
    if (where != rank && options_.mappable && !options_.mappable(rank, where))
      fault(lane, block, step, "V3",
            fmt::format("rank {} cannot map memory of rank {}. Remedy: an algorithm with messages between them", rank,
                        where),
            "machine");
    const int64_t own = subject_.instance.own_part(operand.name, where);
    if (own == -1) return;
    const int64_t parts = subject_.instance.parts(subject_.instance.buffer_space(operand.name));
    for (int64_t i = 0; i < operand.part_count; ++i)
      if (part_at(operand, i, parts) != own)
        fault(lane, block, step, "V5",
              fmt::format(
                  "part {} of {} does not exist on rank {}, which owns part {}. Remedy: name that part, or drop `own`",
                  part_at(operand, i, parts), buffer.name, where, own),
              buffer.name);
  }

  // ---- awaits
  bool in_text(int lane, int label) const {
    const Id& name = subject_.instance.label(label);
    const auto& steps = at(subject_.text, lane);
    return std::any_of(steps.begin(), steps.end(), [&](const Step* step) { return step->label == name; });
  }

  void check_awaits(int lane, int block, int step) {
    const AssembledStep& what = at(block_of(lane, block).steps, step);
    for (const FlatAwait& await : what.flat.after) {
      const std::string name =
          fmt::format("{}.{}", at(plan_.lanes, await.lane).name, subject_.instance.label(await.label));
      if (!in_text(await.lane, await.label))
        fault(lane, block, step, "V6", fmt::format("awaits {}, which is no step. Remedy: a label of that lane", name),
              name);
      else if (await.has_index)
        check_index(lane, block, step, await, name);
    }
    for (const Awaited& awaited : what.after) check_pair(lane, block, step, awaited);
  }

  void check_index(int lane, int block, int step, const FlatAwait& await, const std::string& name) {
    const int n = subject_.instance.ranks(), channels = subject_.instance.channels();
    for (int p = 0; p < await.peer_count; ++p)
      for (int c = 0; c < await.channel_count; ++c) {
        const int rank = (await.peer_first + p) % n;
        const int target = subject_.assembly.find(rank, await.lane, (await.channel_first + c) % channels);
        bool found = false;
        if (target >= 0)
          for (const AssembledBlock& other : at(subject_.assembly.lanes, target).blocks)
            for (const AssembledStep& candidate : other.steps)
              found |= candidate.flat.label == await.label && candidate.flat.index == await.index;
        if (!found)
          fault(lane, block, step, "V6",
                fmt::format(
                    "awaits {}({}) on rank {}, which does not exist there. Remedy: an index that its `for` reaches",
                    name, await.index.empty() ? 0 : await.index[0], rank),
                name);
      }
  }

  void check_pair(int lane, int block, int step, const Awaited& awaited) {
    const Block& here = block_of(lane, block).head;
    const Block& there = block_of(awaited.lane, awaited.block).head;
    const std::string name = subject_.assembly.describe(awaited.lane, awaited.block, awaited.step);
    if (awaited.lag > 0 && !(here.loop && there.loop && here.spaces == there.spaces))
      fault(lane, block, step, "V6",
            fmt::format("a lag counts chunks, and {} is in no loop over the same spaces. Remedy: no lag, or one loop",
                        name),
            "lag");
    if (!here.loop || !there.loop ||
        at(subject_.assembly.lanes, lane).rank == at(subject_.assembly.lanes, awaited.lane).rank)
      return;
    const auto given = [&](const Block& head) {
      return std::any_of(head.spaces.begin(), head.spaces.end(),
                         [&](uint16_t s) { return plan_.spaces[s].kind == Space::Kind::given; });
    };
    if (given(here) || given(there))
      fault(lane, block, step, "V13",
            fmt::format("awaits {} chunk by chunk, but ranks do not agree how many chunks a `given` space has. Remedy: "
                        "a message per chunk, or an await outside the loop",
                        name),
            "agreed");
  }

  const Subject& subject_;
  const VerifyOptions& options_;
  Findings& findings_;
  const Plan& plan_;
  std::map<std::pair<int, bool>, int> ends_;
};

}  // namespace

void check_static(const Subject& subject, const VerifyOptions& options, Findings& findings) {
  StaticCheck(subject, options, findings).check();
}

Finding Subject::at(int lane, int block, int step, std::string rule, std::string message) const {
  const AssembledLane& where = assembly.lanes[static_cast<size_t>(lane)];
  Finding finding;
  finding.rule = std::move(rule);
  finding.rank = where.rank;
  finding.lane = instance.plan().lanes[static_cast<size_t>(where.lane)].name;
  finding.channel = where.channel;
  finding.step = assembly.describe_step(lane, block, step);
  finding.message = std::move(message);
  return finding;
}

Subject make_subject(const Instance& instance, const Assembly& assembly, Terms& terms, KernelTerms& kernels) {
  Subject subject{instance, assembly, terms, kernels, {}, {}, {}};
  for (const Lane& lane : instance.plan().lanes) subject.text.push_back(text_steps(lane.body));
  int total = 0;
  for (size_t s = 0; s < instance.plan().spaces.size(); ++s) {
    const Space& space = instance.plan().spaces[s];
    const bool counted = space.kind == Space::Kind::given && space.by_buffer.empty();
    subject.given_base.push_back(counted ? total : -1);
    if (counted) total += instance.ranks() * static_cast<int>(instance.parts(static_cast<int>(s)));
  }
  for (int i = 0; i < total; ++i) subject.given_class.push_back(i);
  const auto place = [&](int space, int rank, int part) {
    return at(subject.given_base, space) < 0
               ? -1
               : at(subject.given_base, space) + rank * static_cast<int>(instance.parts(space)) + part;
  };
  if (total > 0)
    join_given_counts(instance, [&](int a, int rank_a, int part_a, int b, int rank_b, int part_b) {
      const int x = place(a, rank_a, part_a), y = place(b, rank_b, part_b);
      if (x < 0 || y < 0) return;
      const int from = std::max(at(subject.given_class, x), at(subject.given_class, y)),
                to = std::min(at(subject.given_class, x), at(subject.given_class, y));
      std::replace(subject.given_class.begin(), subject.given_class.end(), from, to);
    });
  return subject;
}

}  // namespace weft::plan
