// The vectorised evaluator: a body as register code over blocks of elements.
//
// A tree walked per element costs an indirect call each; walked per block of 512 the call is paid once for 512 elements
// and each operation is a tight loop (MonetDB/X100's vectors). A register is a block of one dtype; the block is short
// enough for registers to stay in the first-level cache. What does not differ between elements (hoisted scalars,
// broadcast inputs) is spread over a register once per run and remembered between runs with the same scalars.
// A block's results are kept in registers until all of it is computed, so an output may be the memory of an input.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "weft/expr/body_ops.h"

namespace weft::expr {
namespace {

constexpr int64_t block_elements = 512;

struct Instruction {
  Loop loop;
  int d, a, b, c;  // slots; -1 where the loop has no such operand
  int input = -1;  // a load: skipped where this input is broadcast
};

struct Slot {
  enum Kind { scratch, spread, direct, position } kind;  // spread: hoisted; direct: an input's own memory
  Dtype dtype;
  int64_t offset = 0;  // in the workspace
};

// Per thread: registers, and whose hoisted values they hold.
struct Workspace {
  uint64_t owner = 0;
  int64_t spread = 0;  // elements of the hoisted registers that are filled
  std::vector<ScalarValue> scalars;
  std::vector<unsigned char> memory;
  std::vector<const void*> pointers;

  unsigned char* at(int64_t offset) {
    const auto base = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + ((base + 63) / 64 * 64 - base) + offset;
  }
};

Workspace& workspace() {
  static thread_local Workspace w;
  return w;
}

bool same(const ScalarValue& a, const ScalarValue& b) {
  return a.is_integer == b.is_integer &&
         (a.is_integer ? a.integer == b.integer : std::memcmp(&a.number, &b.number, sizeof a.number) == 0);
}

template <class T>
void repeat(void* to, const void* value, int64_t n) {
  T v;
  std::memcpy(&v, value, sizeof v);
  std::fill_n(static_cast<T*>(to), n, v);
}

void spread(int64_t bytes, void* to, const void* value, int64_t n) {
  if (bytes == 8)
    repeat<uint64_t>(to, value, n);
  else if (bytes == 4)
    repeat<uint32_t>(to, value, n);
  else if (bytes == 2)
    repeat<uint16_t>(to, value, n);
  else
    repeat<uint8_t>(to, value, n);
}

std::atomic<uint64_t> next_owner{1};

// The compiled body. What runs is in the last part of this file.
struct Machine {
  const uint64_t owner = next_owner++;
  TypedBody typed;
  std::map<std::string, size_t> scalar_index;
  size_t scalar_count = 0;
  std::vector<Slot> slots;
  std::vector<Instruction> code;
  std::vector<int> hoisted_slot, value_slot, input_register;  // input_register: where a broadcast input is spread
  int position_slot = -1;
  int64_t workspace_bytes = 0;

  explicit Machine(const Body& body);

  void check_operands(size_t scalars, size_t inputs, size_t outputs) const;
  void fill_hoisted(Workspace& w, std::span<const ScalarValue> scalars, int64_t n) const;
  void fill_broadcast(Workspace& w, std::span<const void* const> inputs, const bool* broadcast, int64_t n) const;
  void point(std::vector<const void*>& pointers, std::span<const void* const> inputs, const bool* broadcast,
             int64_t begin) const;
  void store(const std::vector<const void*>& pointers, std::span<void* const> outputs, int64_t begin, int64_t n) const;
};

// Terms to instructions; registers of inner terms are given back as soon as they are read.
class Compiler {
 public:
  Compiler(Machine& out, const Loops& loops);
  void run();

 private:
  int slot(Slot::Kind kind, Dtype dtype);
  int take(Dtype dtype);
  void give(int s);
  int emit(const Term& t);
  int value(int index);
  void input(int index);
  void count_uses(const Term& t);

  Machine& out_;
  const Loops& loops_;
  std::vector<int> uses_;                     // of values, still to come
  std::map<int64_t, std::vector<int>> free_;  // by size of an element
};

Compiler::Compiler(Machine& out, const Loops& loops) : out_(out), loops_(loops), uses_(out.typed.values.size(), 0) {}

void Compiler::count_uses(const Term& t) {
  if (t.code == Code::value) ++uses_[static_cast<size_t>(t.index)];
  for (const TermPtr& a : t.args) count_uses(*a);
}

int Compiler::slot(Slot::Kind kind, Dtype dtype) {
  Slot s{kind, dtype, out_.workspace_bytes};
  if (kind != Slot::direct)
    out_.workspace_bytes += block_elements * size_bytes(dtype) + 64;  // 64: no two registers in the same cache sets
  out_.slots.push_back(s);
  return static_cast<int>(out_.slots.size()) - 1;
}

int Compiler::take(Dtype dtype) {
  std::vector<int>& list = free_[size_bytes(dtype)];
  if (list.empty()) return slot(Slot::scratch, dtype);
  const int s = list.back();
  list.pop_back();
  return s;
}

void Compiler::give(int s) {
  if (out_.slots[static_cast<size_t>(s)].kind == Slot::scratch)
    free_[size_bytes(out_.slots[static_cast<size_t>(s)].dtype)].push_back(s);
}

void Compiler::input(int index) {
  const Dtype dtype = out_.typed.values[static_cast<size_t>(index)].dtype;
  const Loop load = loops_.load(dtype);
  const int reg = slot(Slot::spread, compute_dtype(dtype));  // never given back: it may hold a broadcast
  out_.input_register[static_cast<size_t>(index)] = reg;
  const int memory = slot(Slot::direct, dtype);
  out_.value_slot[static_cast<size_t>(index)] = load ? reg : memory;
  if (load) out_.code.push_back({load, reg, memory, -1, -1, index});
}

int Compiler::value(int index) {
  const int s = out_.value_slot[static_cast<size_t>(index)];
  WEFT_CHECK(s >= 0, "value {} is read before it is computed", index);
  return s;
}

int Compiler::emit(const Term& t) {
  if (t.code == Code::hoisted) return out_.hoisted_slot[static_cast<size_t>(t.index)];
  if (t.code == Code::value) return value(t.index);
  int args[3] = {-1, -1, -1};
  for (size_t i = 0; i < t.args.size(); ++i) args[i] = emit(*t.args[i]);
  const Dtype from = t.args.empty() ? t.dtype : t.args.back()->dtype;
  const Loop loop = t.code == Code::convert ? loops_.convert(from, t.dtype)
                    : t.code == Code::round ? loops_.round(from, t.narrow)
                                            : loops_.operation(t.code, from);
  WEFT_CHECK(loop, "no loop for operation {} of {}", static_cast<int>(t.code), weft::name(from));
  const int d = take(t.dtype);
  const bool placed = t.code == Code::uniform || t.code == Code::position || t.code == Code::position_of;
  out_.code.push_back({loop, d, args[0], args[1], placed ? out_.position_slot : args[2], -1});
  for (size_t i = 0; i < t.args.size(); ++i)
    if (t.args[i]->code != Code::value)
      give(args[i]);
    else if (--uses_[static_cast<size_t>(t.args[i]->index)] == 0)
      give(args[i]);
  return d;
}

void Compiler::run() {
  const TypedBody& typed = out_.typed;
  out_.value_slot.assign(typed.values.size(), -1);
  out_.input_register.assign(typed.inputs, -1);
  for (const HoistedValue& h : typed.hoisted) out_.hoisted_slot.push_back(slot(Slot::spread, h.dtype));
  out_.position_slot = slot(Slot::position, Dtype::i64);
  for (const auto& v : typed.values)
    if (v.term) count_uses(*v.term);
  for (int o : typed.outputs) ++uses_[static_cast<size_t>(o)];  // kept until the end of the block
  for (size_t i = 0; i < typed.inputs; ++i) input(static_cast<int>(i));
  for (size_t i = typed.inputs; i < typed.values.size(); ++i) {
    if (uses_[i] == 0) continue;  // nobody reads it
    const Term& t = *typed.values[i].term;
    out_.value_slot[i] = emit(t);
    if (t.code == Code::value)
      uses_[static_cast<size_t>(t.index)] = uses_[i] = 1 << 30;  // two names, one register: never given back
  }
}

Machine::Machine(const Body& body) : typed(type_body(body)), scalar_count(body.scalars.size()) {
  for (size_t i = 0; i < body.scalars.size(); ++i) scalar_index[body.scalars[i].name] = i;
  Compiler(*this, best_loops()).run();
}

void Machine::check_operands(size_t scalars, size_t inputs, size_t outputs) const {
  WEFT_CHECK(scalars == scalar_count && inputs == typed.inputs && outputs == typed.outputs.size(),
             "a body of {} scalars, {} inputs, {} outputs is given {}, {}, {}", scalar_count, typed.inputs,
             typed.outputs.size(), scalars, inputs, outputs);
}

void Machine::fill_hoisted(Workspace& w, std::span<const ScalarValue> scalars, int64_t n) const {
  const bool known = w.owner == owner && w.spread >= n && w.scalars.size() == scalars.size() &&
                     std::equal(scalars.begin(), scalars.end(), w.scalars.begin(), same);
  if (known) return;
  w.owner = 0;  // an error below leaves nothing half filled
  for (size_t i = 0; i < typed.hoisted.size(); ++i) {
    const HoistedValue& h = typed.hoisted[i];
    const ScalarValue v =
        h.literal ? h.constant
                  : evaluate_scalar(h.value, [&](const std::string& name) { return scalars[scalar_index.at(name)]; });
    alignas(16) unsigned char memory[16];
    if (v.is_integer)
      store_i64(h.dtype, memory, v.integer);
    else
      store_f64(h.dtype, memory, v.number);
    spread(size_bytes(h.dtype), w.at(slots[static_cast<size_t>(hoisted_slot[i])].offset), memory, n);
  }
  w.scalars.assign(scalars.begin(), scalars.end());
  w.spread = n;
  w.owner = owner;
}

void Machine::fill_broadcast(Workspace& w, std::span<const void* const> inputs, const bool* broadcast,
                             int64_t n) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!broadcast || !broadcast[i]) continue;
    const Dtype dtype = typed.values[i].dtype, reg = compute_dtype(dtype);
    alignas(16) unsigned char memory[16];
    if (const Loop load = best_loops().load(dtype))
      load(memory, inputs[i], nullptr, nullptr, 1);
    else
      std::memcpy(memory, inputs[i], static_cast<size_t>(size_bytes(dtype)));
    spread(size_bytes(reg), w.at(slots[static_cast<size_t>(input_register[i])].offset), memory, n);
  }
}

// Inputs that no load copies are read where they lie; broadcast ones from their register.
void Machine::point(std::vector<const void*>& pointers, std::span<const void* const> inputs, const bool* broadcast,
                    int64_t begin) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto reg = static_cast<size_t>(input_register[i]);
    const void* own = static_cast<const unsigned char*>(inputs[i]) + begin * size_bytes(typed.values[i].dtype);
    pointers[reg + 1] = broadcast && broadcast[i] ? pointers[reg] : own;  // the direct slot follows the register
  }
}

void Machine::store(const std::vector<const void*>& pointers, std::span<void* const> outputs, int64_t begin,
                    int64_t n) const {
  for (size_t k = 0; k < outputs.size(); ++k) {
    const auto v = static_cast<size_t>(typed.outputs[k]);
    const Dtype dtype = typed.values[v].dtype;
    void* to = static_cast<unsigned char*>(outputs[k]) + begin * size_bytes(dtype);
    const void* from = pointers[static_cast<size_t>(value_slot[v])];
    const Loop narrow = compute_dtype(dtype) != dtype ? best_loops().store(dtype) : nullptr;
    if (narrow)
      narrow(to, from, nullptr, nullptr, n);
    else if (to != from)
      std::memmove(to, from, static_cast<size_t>(n * size_bytes(dtype)));
  }
}

}  // namespace

struct BodyCode::Impl : Machine {
  using Machine::Machine;
};

BodyCode::BodyCode(const Body& body) : impl_(std::make_unique<Impl>(body)) {}
BodyCode::~BodyCode() = default;
BodyCode::BodyCode(BodyCode&&) noexcept = default;

void BodyCode::run(std::span<const ScalarValue> scalars, std::span<const void* const> inputs, const bool* broadcast,
                   std::span<void* const> outputs, int64_t count, int64_t position) const {
  const Impl& m = *impl_;
  m.check_operands(scalars.size(), inputs.size(), outputs.size());
  if (count <= 0) return;
  Workspace& w = workspace();
  if (static_cast<int64_t>(w.memory.size()) < m.workspace_bytes + 128)
    w.memory.resize(static_cast<size_t>(m.workspace_bytes) + 128), w.owner = 0;
  const int64_t widest = std::min(count, block_elements);
  m.fill_hoisted(w, scalars, widest);
  m.fill_broadcast(w, inputs, broadcast, widest);
  std::vector<const void*>& pointers = w.pointers;
  pointers.resize(m.slots.size());
  for (size_t s = 0; s < m.slots.size(); ++s) pointers[s] = w.at(m.slots[s].offset);
  const auto pointer = [&](int s) { return s < 0 ? nullptr : pointers[static_cast<size_t>(s)]; };
  for (int64_t begin = 0; begin < count; begin += block_elements) {
    const int64_t n = std::min(block_elements, count - begin), at = position + begin;
    std::memcpy(w.at(m.slots[static_cast<size_t>(m.position_slot)].offset), &at, sizeof at);
    m.point(pointers, inputs, broadcast, begin);
    for (const Instruction& i : m.code) {
      if (i.input >= 0 && broadcast && broadcast[i.input]) continue;
      i.loop(const_cast<void*>(pointer(i.d)), pointer(i.a), pointer(i.b), pointer(i.c), n);
    }
    m.store(pointers, outputs, begin, n);
  }
}

}  // namespace weft::expr
