"""Programs in Python: a builder, and functions that become programs.

    @weft.program
    def sgd(P: weft.Tensors, lr: weft.Scalar, g: weft.In("f32[P]", weft.local),
            m: weft.State("f32[P]"), w: weft.State("f32[P]")):
        momentum = weft.let(0.9)
        a = weft.all_reduce(weft.avg, g)
        m1 = momentum * m + a
        w1 = w - lr * m1
        weft.update(m, m1)
        weft.update(w, w1)
        weft.out(w1)

`sgd` is then a weft.Program, with the text that the C++ builder and a .weft file give. An assignment of a term to a plain
name makes a statement of that name; for that the function's source is read (files and notebooks; elsewhere use Builder).
"""

import ast
import contextlib
import inspect
import textwrap
import threading

from . import terms
from .errors import Error
from .terms import Term, text_of


class Let:
    """`name = weft.let(value)`: a constant of the program."""

    def __init__(self, value):
        self.value = value


def let(value):
    """A constant: a number, or an expression of scalars, sizes and other constants."""
    return Let(value)


class Builder:
    """A program under construction, line by line; the methods are the lines of the text form (docs/program.md)."""

    def __init__(self, name):
        self.name = name
        self._header, self._tensors, self._body, self._ends = [], [], [], []
        self._indent = ""

    def dim(self, *names):
        """Sizes known at launch, on one header line. One Term, or a list of them."""
        self._header.append("dim " + " ".join(names))
        made = [Term(name) for name in names]
        return made[0] if len(made) == 1 else made

    def tensors(self, name):
        """A list of tensors given at launch by their shapes."""
        self._header.append(f"tensors {name}")
        return Term(name)

    def ragged(self, name, counts):
        """Rows: the sum of the tensor `counts`."""
        self._header.append(f"ragged {name} by {text_of(counts)}")
        return Term(name)

    def group(self, name, parts):
        """world.split(parts)."""
        self._header.append(f"group {name} = world.split({text_of(parts)})")
        return name

    def across(self, name, of):
        """Rank i of every group of the split `of`."""
        self._header.append(f"group {name} = {of}.across")
        return name

    def scalar(self, name, dtype="f64"):
        """A number given at each launch: f64 or i64."""
        self._header.append(f"scalar {name} {dtype}")
        return Term(name)

    def let(self, name, value):
        """A constant."""
        self._header.append(f"let {name} = {text_of(value)}")
        return Term(name)

    def require(self, condition):
        """Asked at launch."""
        self._header.append(f"require {text_of(condition)}")

    def _tensor(self, word, name, type_, layout, group):
        on = "" if group == "world" else f" on {group}"
        self._tensors.append(f"{word} {name} {type_} {text_of(layout)}{on}")
        return Term(name)

    def input(self, name, type_, layout="replicated", group="world"):
        """Given at each launch. type_: "f32[B, S]", the shape of the whole value whatever the layout."""
        return self._tensor("in", name, type_, layout, group)

    def state(self, name, type_, layout="replicated", group="world"):
        """Kept from launch to launch."""
        return self._tensor("state", name, type_, layout, group)

    def __call__(self, name, value, cut=None):
        """A statement: name = value."""
        suffix = "" if cut is None else f" cut {cut}"
        self._body.append(f"{self._indent}{name} = {_bare(text_of(value))}{suffix}")
        return Term(name)

    @contextlib.contextmanager
    def _block(self, kind, name):
        self._body.append(f"{self._indent}{kind} {name}:")
        self._indent += "  "
        try:
            yield
        finally:
            self._indent = self._indent[2:]

    def fuse(self, name):
        """`with p.fuse("f"):` its statements become one kernel."""
        return self._block("fuse", name)

    def overlap(self, name):
        """`with p.overlap("o"):` its statements run part by part beside each other."""
        return self._block("overlap", name)

    def update(self, state, value):
        """When the launch ends, `state` is `value`."""
        self._ends.append(f"update {text_of(state)} = {text_of(value)}")

    def out(self, value):
        """A result."""
        self._ends.append(f"out {text_of(value)}")

    def text(self):
        """What has been written so far, before it is checked."""
        return "\n".join([f"program 1 {self.name}", *self._header, *self._tensors, *self._body, *self._ends]) + "\n"

    def build(self):
        """The checked Program. Error(user) as for a file with this text."""
        from .programs import Program

        return Program(self.text())


def _bare(text):
    """Without the outermost parentheses, so that errors show the line as one would write it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


# ---- functions
class _Parameter:
    """What an annotation says a parameter is."""

    def __init__(self, word, type_="", layout="replicated", group="world"):
        self.word, self.type, self.layout, self.group = word, type_, layout, group


def In(type_, layout="replicated", group="world"):
    """A tensor given at each launch: In("f16[B, S, H]", weft.sliced(2))."""
    return _Parameter("in", type_, layout, group)


def State(type_, layout="replicated", group="world"):
    """A tensor kept from launch to launch."""
    return _Parameter("state", type_, layout, group)


Dim = _Parameter("dim")
Tensors = _Parameter("tensors")
Scalar = _Parameter("scalar", "f64")
Integer = _Parameter("scalar", "i64")

_current = threading.local()


def current():
    """The builder of the function that is being read."""
    builder = getattr(_current, "builder", None)
    if builder is None:
        raise Error("this stands only in a function under @weft.program", remedy="with a Builder call its method")
    return builder


def update(state, value):
    """When the launch ends, `state` is `value`."""
    current().update(state, value)


def out(value):
    """A result."""
    current().out(value)


def require(condition):
    """A condition on sizes and scalars, asked at launch."""
    current().require(condition)


def fuse(name):
    """`with weft.fuse("f"):` its statements become one kernel."""
    return current().fuse(name)


def overlap(name):
    """`with weft.overlap("o"):` its statements run part by part beside each other."""
    return current().overlap(name)


def _named(name, value):
    """What `name = value` means in a program function."""
    if isinstance(value, Let):
        return current().let(name, value.value)
    if isinstance(value, Term):
        return value if value.text == name else current()(name, value)
    return value


class _Naming(ast.NodeTransformer):
    """Turns `x = e` into `x = __weft_named__("x", e)`, for plain names only."""

    def visit_Assign(self, node):
        self.generic_visit(node)
        if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
            return node
        name = ast.Constant(node.targets[0].id)
        node.value = ast.Call(ast.Name("__weft_named__", ast.Load()), [name, node.value], [])
        return node

    def visit_FunctionDef(self, node):  # helpers inside stay what they are
        return node


def _naming_body(function):
    try:
        source = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        raise Error(
            f"the source of {function.__name__} cannot be read, so its statements have no names",
            remedy="put it into a file or a notebook cell, or use weft.Builder",
        ) from None
    tree = ast.parse(source)
    inner = tree.body[0]
    inner.decorator_list = []
    inner.args.defaults, inner.args.kw_defaults, inner.returns = [], [], None
    for arg in [*inner.args.posonlyargs, *inner.args.args, *inner.args.kwonlyargs]:
        arg.annotation = None
    inner.body = [_Naming().visit(statement) for statement in inner.body]
    # A function around it holds the variables that the original closes over.
    free = function.__code__.co_freevars
    outer = ast.parse(f"def __weft_outer__({', '.join(free)}):\n    return None").body[0]
    outer.body = [inner, ast.Return(ast.Name(inner.name, ast.Load()))]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    ast.increment_lineno(module, function.__code__.co_firstlineno - 1)
    names = dict(function.__globals__, __weft_named__=_named)
    exec(compile(module, inspect.getsourcefile(function) or "<program>", "exec"), names)
    return names["__weft_outer__"](*(cell.cell_contents for cell in function.__closure__ or ()))


def _declare(builder, parameters):
    made, dims = {}, []
    for name, kind in parameters:
        if not isinstance(kind, _Parameter):
            raise Error(
                f"parameter {name} of {builder.name} does not say what it is",
                remedy="annotate it: weft.Dim, weft.Tensors, weft.Scalar, weft.Integer, weft.In(...) or weft.State(...)",
            )
        if kind.word == "dim":
            dims.append(name)
            made[name] = Term(name)
            continue
        if dims:
            builder.dim(*dims)
            dims = []
        if kind.word == "tensors":
            made[name] = builder.tensors(name)
        elif kind.word == "scalar":
            made[name] = builder.scalar(name, kind.type)
        else:
            made[name] = builder._tensor(kind.word, name, kind.type, kind.layout, kind.group)
    if dims:
        builder.dim(*dims)
    return made


def program(function):
    """A function of tensors, sizes and scalars as a weft.Program of the function's name (see this module)."""
    builder = Builder(function.__name__)
    annotations = inspect.get_annotations(function, eval_str=True) if hasattr(inspect, "get_annotations") else function.__annotations__
    parameters = [(name, annotations.get(name)) for name in inspect.signature(function).parameters]
    made = _declare(builder, parameters)
    body = _naming_body(function)
    before = getattr(_current, "builder", None)
    _current.builder = builder
    try:
        body(**made)
    finally:
        _current.builder = before
    result = builder.build()
    result.__doc__ = function.__doc__
    return result


def sliced(dim):
    """Each rank holds its part of dimension `dim`."""
    return f"sliced({dim})"


def root(rank):
    """The value on one rank, nothing elsewhere."""
    return f"root({rank})"


def partial(reduction):
    """Contributions to a reduction that nobody has finished."""
    return f"partial({reduction})"


replicated, local = "replicated", "local"
avg = "avg"
__all__ = [
    "Builder", "Dim", "In", "Integer", "Scalar", "State", "Tensors", "avg", "fuse", "let", "local", "out", "overlap",
    "partial", "program", "replicated", "require", "root", "sliced", "update", "terms",
]  # fmt: skip
