"""Ranks, and programs that run on them on NumPy arrays, torch tensors or anything with DLPack or the buffer protocol.

    def body(rank):
        step = rank.prepare(sgd, P=[(100, 30), (30,)], own=True)
        step.bind(g=gradients, m=moments, w1=weights)   # w1 is the state w's new value: one memory
        step.launch(lr=1e-3)

    weft.run(2, body)                 # two ranks as threads of this process
    rank = weft.join()                # or this process is a rank: torchrun, mpirun, srun, or join(file, rank, ranks)
"""

from . import _weft
from .errors import Error
from .programs import sizes_of


def _list_of(program, name):
    """The list of tensors that a value goes over, or None."""
    shape = program.type_of(name).split("[", 1)[-1].split("]", 1)[0]
    return shape if shape in program.lists else None


def _plain(array):
    """A torch parameter without its graph: the same memory."""
    return array.detach() if getattr(array, "requires_grad", False) else array


class Executable:
    """A program on one rank. Calls are collective: all ranks make them in the same order."""

    def __init__(self, native, program, size):
        self._native, self._program, self._size = native, program, size

    @property
    def schedule(self):
        """Text of the schedule that was taken."""
        return self._native.schedule

    @property
    def plan(self):
        """Text of the plan that runs."""
        return self._native.plan

    def bind(self, **arrays):
        """The caller's memory for inputs, states and outputs by name; nothing is copied, and it is kept alive.

        An array is contiguous, on the CPU, of the declared dtype, with as many elements as this rank holds (bf16 may come
        as uint16). A value over a list of tensors takes a list of arrays. Error(user) says what does not fit.
        """
        for name, value in arrays.items():
            over = self._value_list(name)
            if over and isinstance(value, (list, tuple)):
                self._native.bind_list(name, over, [_plain(one) for one in value])
            else:
                self._native.bind(name, _plain(value))

    def _value_list(self, name):
        return _list_of(self._program, name)

    def data(self, name):
        """Weft's memory of a value as a flat NumPy array (bf16 as uint16), or a list of them for a list of tensors. Not
        with own=True. States that the schedule keeps sliced: this rank's part."""
        over = self._value_list(name)
        return _weft.memories(self._native, name, over) if over else _weft.memory(self._native, name)

    def launch(self, **scalars):
        """Runs the program once. The GIL is released."""
        self._native.launch(scalars)

    def __call__(self, **named):
        """bind what is an array, launch with what is a number."""
        scalars = {name: value for name, value in named.items() if name in self._program.scalars}
        self.bind(**{name: value for name, value in named.items() if name not in scalars})
        self.launch(**scalars)

    def bytes(self, name):
        """Bytes that this rank holds of a value."""
        return self._native.bytes(name)

    def read_state(self, name):
        """A state as a whole value, as bytes in its dtype, whatever the schedule keeps where."""
        return self._native.read_state(name)

    def write_state(self, name, whole):
        """The reverse: every rank gives the whole value (bytes, or a contiguous array)."""
        self._native.write_state(name, whole if isinstance(whole, bytes) else memoryview(whole).cast("B").tobytes())


class Rank:
    """One rank of a job."""

    def __init__(self, native, owner=None):
        self._native, self._owner = native, owner

    @property
    def rank(self):
        """From 0."""
        return self._native.rank

    @property
    def size(self):
        """Number of ranks."""
        return self._native.size

    def prepare(self, program, schedule="tuned", own=False, **sizes):
        """An Executable. Collective.

        schedule: "plain", "fused", "tuned", "tune" (measure now), a name, a file, a text, or what tune() gave.
        own: the caller binds memory of its own (data then go through links); else Weft allocates memory that peers map,
        and data() gives it. sizes: numbers, and lists of shapes for lists of tensors.
        """
        native = self._native.prepare(program._native, sizes_of(program, self.size, sizes), str(schedule), own)
        return Executable(native, program, self.size)

    def close(self):
        """Ends this rank (join() only). Executables of it must not be used any more."""
        if self._owner is not None:
            self._owner.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def join(file="", rank=0, ranks=1, timeout=0):
    """This process as a rank, from what torchrun, mpirun or srun left in the environment, or by a path that all are given.

    timeout: seconds of every wait, 0 for WEFT_TIMEOUT_S. Collective. One host.
    """
    owner = _weft.join(str(file), rank, ranks, timeout)
    return Rank(owner.rank, owner)


def run(ranks, body, timeout=0):
    """body(rank) on so many ranks, as threads of this process; what it returns, by rank. The first error is raised."""
    results, errors = [None] * ranks, []

    def on_rank(native):
        try:
            results[native.rank] = body(Rank(native))
        except BaseException as error:
            errors.append(error)
            raise

    try:
        _weft.run_threads(ranks, on_rank, timeout)
    except Exception as error:
        first = next((e for e in errors if not isinstance(e, Error) or e.kind != "peer"), error)
        raise first from None
    return results
