// Ranks and programs that run on them, on the caller's memory.
//
// A rank is this process (it met the others at a file), or a thread of it. Arrays come in as DLPack or buffers and are
// used where they lie: contiguous CPU memory of the declared dtype, else Error(user). Launches release the GIL.
#include <optional>

#include "python/src/bindings.h"
#include "weft/api/memory.h"
#include "weft/api/weft.h"
#include "weft/transport/rendezvous.h"

namespace weft::python {
namespace {

using Array = nb::ndarray<nb::ro, nb::device::cpu>;
using Writable = nb::ndarray<nb::device::cpu>;

struct OwnRank {  // a process among others
  std::unique_ptr<transport::Transport> transport;
  std::unique_ptr<Rank> rank;
};

// What prepare() gives; arrays that are bound stay alive as long as it.
struct Prepared {
  Executable executable;
  ir::Sizes sizes;
  ir::Program program;
  std::map<std::string, std::vector<nb::object>> kept = {};

  Dtype dtype(const std::string& name) const {
    const int buffer = api::buffer_of(executable.lowered(), name);
    if (buffer < 0)
      throw Error(ErrorKind::user, fmt::format("{} has no input, output or state {}", program.name, name));
    return *parse_dtype(executable.lowered().plan.buffers[static_cast<size_t>(buffer)].dtype);
  }
};

struct CodeRow {
  Dtype dtype;
  nb::dlpack::dtype_code code;
};
constexpr CodeRow rows[] = {
    {Dtype::f64, nb::dlpack::dtype_code::Float},   {Dtype::f32, nb::dlpack::dtype_code::Float},
    {Dtype::f16, nb::dlpack::dtype_code::Float},   {Dtype::bf16, nb::dlpack::dtype_code::Bfloat},
    {Dtype::i64, nb::dlpack::dtype_code::Int},     {Dtype::i32, nb::dlpack::dtype_code::Int},
    {Dtype::i16, nb::dlpack::dtype_code::Int},     {Dtype::i8, nb::dlpack::dtype_code::Int},
    {Dtype::u64, nb::dlpack::dtype_code::UInt},    {Dtype::u32, nb::dlpack::dtype_code::UInt},
    {Dtype::u16, nb::dlpack::dtype_code::UInt},    {Dtype::u8, nb::dlpack::dtype_code::UInt},
    {Dtype::boolean, nb::dlpack::dtype_code::Bool}};

nb::dlpack::dtype dlpack_of(Dtype dtype) {
  for (const CodeRow& row : rows)
    if (row.dtype == dtype) return {static_cast<uint8_t>(row.code), static_cast<uint8_t>(8 * size_bytes(dtype)), 1};
  return {static_cast<uint8_t>(nb::dlpack::dtype_code::UInt), 8, 1};  // f8: as bytes
}

// The address of an array that may be used as it is. 16-bit integers of the same size stand for bf16 and f16, which
// NumPy lacks or has.
void* address(const std::string& name, const Array& array, Dtype dtype, int64_t elements) {
  const auto want = dlpack_of(dtype);
  const bool bits = array.dtype().code == static_cast<uint8_t>(nb::dlpack::dtype_code::UInt) && dtype == Dtype::bf16;
  if (!(array.dtype() == want) && !(bits && array.dtype().bits == want.bits))
    throw Error(ErrorKind::user,
                fmt::format("{} has dtype {}, the array has another (DLPack code {}, {} bits)", name, weft::name(dtype),
                            static_cast<int>(array.dtype().code), static_cast<int>(array.dtype().bits)),
                "convert the array; nothing is copied here");
  int64_t stride = 1;
  for (size_t d = array.ndim(); d-- > 0; stride *= static_cast<int64_t>(array.shape(d)))
    if (array.shape(d) > 1 && array.size() > 0 && array.stride(d) != stride)
      throw Error(ErrorKind::user, fmt::format("the array for {} is not contiguous", name),
                  "give numpy.ascontiguousarray(x), or x.contiguous()");
  if (static_cast<int64_t>(array.size()) != elements)
    throw Error(ErrorKind::user, fmt::format("{} takes {} elements here, {} were given", name, elements, array.size()),
                "a value stored sliced takes this rank's part");
  return const_cast<void*>(array.data());
}

// Inputs may be read-only; what a launch writes may not.
Array array_of(const Prepared& self, const std::string& name, const nb::object& object) {
  const ir::TensorDecl* declared = ir::find_tensor(self.program, name);
  const bool read = declared && !declared->state;
  Array array;
  Writable writable;
  if (nb::try_cast(object, array) && (read || nb::try_cast(object, writable))) return array;
  throw Error(ErrorKind::user,
              fmt::format("what is given for {} is not {}array in CPU memory", name, read ? "an " : "a writable "),
              "give NumPy arrays, torch tensors, or what has DLPack or the buffer protocol");
}

void bind_one(Prepared& self, const std::string& name, nb::object object) {
  const Dtype dtype = self.dtype(name);
  void* data = address(name, array_of(self, name, object), dtype, self.executable.bytes(name) / size_bytes(dtype));
  self.executable.bind(name, data);
  self.kept[name] = {object};
}

void bind_list(Prepared& self, const std::string& name, const std::string& list, std::vector<nb::object> objects) {
  const Dtype dtype = self.dtype(name);
  const std::vector<int64_t> lengths = ir::tensors_lengths(self.sizes, list);
  if (lengths.size() != objects.size())
    throw Error(ErrorKind::user,
                fmt::format("{} is a list of {} tensors, {} were given", name, lengths.size(), objects.size()));
  std::vector<void*> data;
  for (size_t i = 0; i < objects.size(); ++i)
    data.push_back(address(fmt::format("{}[{}]", name, i), array_of(self, name, objects[i]), dtype, lengths[i]));
  self.executable.bind(name, data);
  self.kept[name] = std::move(objects);
}

nb::object view(nb::object self, void* data, Dtype dtype, int64_t elements) {
  size_t shape[] = {static_cast<size_t>(elements)};
  nb::dlpack::dtype type = dlpack_of(dtype);
  if (dtype == Dtype::bf16) type.code = static_cast<uint8_t>(nb::dlpack::dtype_code::UInt);  // NumPy has no bf16
  return nb::ndarray<nb::numpy>(data, 1, shape, self, nullptr, type).cast();
}

nb::object memory(nb::object object, const std::string& name) {
  auto& self = nb::cast<Prepared&>(object);
  const Dtype dtype = self.dtype(name);
  return view(object, self.executable.data(name), dtype, self.executable.bytes(name) / size_bytes(dtype));
}

nb::list memories(nb::object object, const std::string& name, const std::string& list) {
  auto& self = nb::cast<Prepared&>(object);
  const Dtype dtype = self.dtype(name);
  const std::vector<int64_t> lengths = ir::tensors_lengths(self.sizes, list);
  const std::vector<void*> data = self.executable.tensors(name);
  nb::list out;
  if (data.size() != lengths.size()) {  // stored sliced: one piece
    out.append(view(object, data[0], dtype, self.executable.bytes(name) / size_bytes(dtype)));
    return out;
  }
  for (size_t i = 0; i < data.size(); ++i) out.append(view(object, data[i], dtype, lengths[i]));
  return out;
}

nb::bytes read_state(Prepared& self, const std::string& name) {
  std::vector<std::byte> whole;
  {
    nb::gil_scoped_release release;
    whole = self.executable.read_state(name);
  }
  return nb::bytes(whole.data(), whole.size());
}

void write_state(Prepared& self, const std::string& name, nb::bytes whole) {
  self.executable.write_state(name, {static_cast<const std::byte*>(whole.data()), whole.size()});
}

Prepared prepare(Rank& rank, const ir::Program& program, const ir::Sizes& sizes, const std::string& schedule,
                 bool own_buffers) {
  nb::gil_scoped_release release;
  PrepareOptions options;
  options.sizes = sizes;
  options.sizes.ranks = rank.size();
  options.schedule = schedule;
  options.own_buffers = own_buffers;
  return {rank.prepare(program, options), options.sizes, program};
}

std::unique_ptr<OwnRank> join(const std::string& file, int rank, int ranks, double timeout_s) {
  nb::gil_scoped_release release;
  std::optional<transport::JoinOptions> options;
  if (file.empty())
    options = transport::join_from_environment();
  else
    options = transport::JoinOptions{rank, ranks, file};
  if (!options)
    throw Error(ErrorKind::user, "no launcher has said which rank this process is",
                "start it by torchrun or mpirun, or call weft.join(file, rank, ranks)");
  if (timeout_s > 0) options->timeout_ns = static_cast<int64_t>(timeout_s * 1e9);
  auto out = std::make_unique<OwnRank>();
  out->transport = transport::join_job(*options);
  out->rank = std::make_unique<Rank>(*out->transport);
  return out;
}

// Ranks as threads of this process: `body(rank)` runs in each with the GIL, launches run without it.
void run_threads(int ranks, nb::callable body, double timeout_s) {
  nb::gil_scoped_release release;
  RunOptions options;
  options.threads = true;
  options.pin = false;
  options.timeout_s = timeout_s;
  weft::run(
      ranks,
      [&](Rank& rank) {
        nb::gil_scoped_acquire acquire;
        body(nb::cast(&rank, nb::rv_policy::reference));
      },
      options);
}

void close(OwnRank& own) {
  nb::gil_scoped_release release;
  own.rank.reset();
  own.transport.reset();
}

}  // namespace

void bind_ranks(nb::module_& module) {
  nb::class_<Prepared>(module, "Prepared", "A program ready to run on one rank (see weft.Executable).")
      .def("bind", &bind_one, nb::arg("name"), nb::arg("array"))
      .def("bind_list", &bind_list, nb::arg("name"), nb::arg("list"), nb::arg("arrays"))
      .def(
          "launch", [](Prepared& self, const std::map<std::string, double>& s) { self.executable.launch(s); },
          nb::arg("scalars"), nb::call_guard<nb::gil_scoped_release>())
      .def(
          "bytes", [](Prepared& self, const std::string& name) { return self.executable.bytes(name); }, nb::arg("name"))
      .def(
          "dtype", [](Prepared& self, const std::string& name) { return std::string(weft::name(self.dtype(name))); },
          nb::arg("name"))
      .def_prop_ro("schedule", [](Prepared& self) { return schedule::print(self.executable.schedule()); })
      .def_prop_ro("plan", [](Prepared& self) { return plan::print(self.executable.lowered().plan); })
      .def("read_state", &read_state, nb::arg("name"))
      .def("write_state", &write_state, nb::arg("name"), nb::arg("whole"));
  module.def("memory", &memory, nb::arg("prepared"), nb::arg("name"));
  module.def("memories", &memories, nb::arg("prepared"), nb::arg("name"), nb::arg("list"));
  nb::class_<Rank>(module, "Rank", "One rank of a job.")
      .def_prop_ro("rank", &Rank::rank)
      .def_prop_ro("size", &Rank::size)
      .def("prepare", &prepare, nb::arg("program"), nb::arg("sizes"), nb::arg("schedule"), nb::arg("own_buffers"),
           nb::keep_alive<0, 1>());
  nb::class_<OwnRank>(module, "OwnRank", "This process as a rank.")
      .def_prop_ro(
          "rank", [](OwnRank& own) { return own.rank.get(); }, nb::rv_policy::reference_internal)
      .def("close", &close);
  module.def("join", &join, nb::arg("file"), nb::arg("rank"), nb::arg("ranks"), nb::arg("timeout_s"));
  module.def("run_threads", &run_threads, nb::arg("ranks"), nb::arg("body"), nb::arg("timeout_s"));
}

}  // namespace weft::python
