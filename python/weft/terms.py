"""Expressions under construction: what a Python function of tensors writes down.

A Term is a piece of Weft's text form. Nothing is computed or checked here; the text is read by the parser, which
refuses what it would refuse in a file, with the same rule and the same words.
"""

from .errors import Error


class Term:
    """A value of a program: a tensor, a scalar, a size, or an expression of them. Combine it with + - * / % ** < > <= >=,
    & | ~ (and, or, not of truths), and the operations of this module. `equals(a, b)` is a == b, `differs` a != b."""

    __slots__ = ("text",)
    __hash__ = object.__hash__

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return f"Term({self.text})"

    def __bool__(self):
        raise Error(
            f"whether {self.text} holds is known at launch, not while the program is written",
            remedy="use weft.select(condition, a, b), and & | ~ for and, or, not",
        )

    def __eq__(self, other):
        raise Error("== compares Python objects", remedy="use weft.equals(a, b)")

    def __iter__(self):
        raise Error(f"{self.text} cannot be iterated over", remedy="use the folds: weft.sum(x, dims=...)")

    def __add__(self, other):
        return _binary(self, "+", other)

    def __radd__(self, other):
        return _binary(other, "+", self)

    def __sub__(self, other):
        return _binary(self, "-", other)

    def __rsub__(self, other):
        return _binary(other, "-", self)

    def __mul__(self, other):
        return _binary(self, "*", other)

    def __rmul__(self, other):
        return _binary(other, "*", self)

    def __truediv__(self, other):
        return _binary(self, "/", other)

    def __rtruediv__(self, other):
        return _binary(other, "/", self)

    def __mod__(self, other):
        return _binary(self, "%", other)

    def __rmod__(self, other):
        return _binary(other, "%", self)

    def __pow__(self, other):
        return _binary(self, "^", other)

    def __rpow__(self, other):
        return _binary(other, "^", self)

    def __matmul__(self, other):
        return call("matmul", self, other)

    def __lt__(self, other):
        return _binary(self, "<", other)

    def __gt__(self, other):
        return _binary(self, ">", other)

    def __le__(self, other):
        return _binary(self, "<=", other)

    def __ge__(self, other):
        return _binary(self, ">=", other)

    def __and__(self, other):
        return _binary(self, "and", other)

    def __or__(self, other):
        return _binary(self, "or", other)

    def __invert__(self):
        return Term(f"(not {self.text})")

    def __neg__(self):
        return Term(f"(-{self.text})")


def text_of(value):
    """Term, number, reduction, layout or size as text."""
    if isinstance(value, Term):
        return value.text
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (int, float)):
        text = repr(value)
        return f"({text})" if text.startswith("-") else text
    if isinstance(value, str):
        return value
    raise Error(f"{value!r} is no term", remedy="give tensors, scalars, sizes of this program, or numbers")


def _binary(left, operator, right):
    return Term(f"({text_of(left)} {operator} {text_of(right)})")


def call(function, *args):
    """Any function, cast, operation or definition by its name: call("softmax", x, -1)."""
    return Term(f"{function}({', '.join(text_of(arg) for arg in args)})")


def equals(a, b):
    """a == b, element by element."""
    return _binary(a, "==", b)


def differs(a, b):
    """a != b, element by element."""
    return _binary(a, "!=", b)


def _function(name, doc):
    def function(*args):
        return call(name, *args)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


_POINTWISE = {
    "sqrt": "Square root.", "rsqrt": "1 / sqrt(x).", "exp": "e to the x.", "log": "Natural logarithm.",
    "tanh": "Hyperbolic tangent.", "sigmoid": "1 / (1 + exp(-x)).", "relu": "max(x, 0).", "gelu": "GELU, tanh form.",
    "silu": "x * sigmoid(x).", "abs": "Absolute value.", "min": "The smaller of two.", "max": "The larger of two.",
    "select": "select(condition, a, b): a where it holds, else b.",
    "index": "index(dim): the position along a dimension in the whole value.",
    "rand": "rand(seed, k): uniform in [0, 1), keyed by seed, k and the position in the whole value.",
    "dropout": "dropout(x, p, seed, k): drops with probability p, scales by 1 / (1 - p).",
    "softmax": "softmax(x, dim).", "rms_norm": "rms_norm(x, gain[, eps]).",
    "layer_norm": "layer_norm(x, gain, bias[, eps]).",
    "matmul": "matmul(a, b): ..mk, kn -> ..mn.", "conv2d": "conv2d(a, w): bchw, ocyx -> bohw, stride 1.",
    "all_gather": "sliced -> replicated.", "gather": "gather(x, root): sliced -> root.",
    "broadcast": "broadcast(x[, root]): root -> replicated, or local -> replicated.",
    "scatter": "scatter(x, dim): root -> sliced(dim).",
    "all_to_all": "all_to_all(x, dim): sliced -> sliced(dim); all_to_all(x): local blocks of dimension 0.",
    "send": "send(x, hops): to the next (1) or previous (-1) group.",
    "all_reduce": "all_reduce(reduction, x): local or partial -> replicated. Reductions: sum prod min max avg.",
    "reduce_scatter": "reduce_scatter(reduction, x, dim): local or partial -> sliced(dim).",
    "reduce": "reduce(reduction, x, root): local or partial -> root.",
    "f64": "Cast.", "f32": "Cast.", "f16": "Cast.", "bf16": "Cast.", "f8e4m3": "Cast.", "f8e5m2": "Cast.",
    "i64": "Cast.", "i32": "Cast.", "i16": "Cast.", "i8": "Cast.", "u64": "Cast.", "u32": "Cast.", "u16": "Cast.",
    "u8": "Cast.",
}  # fmt: skip
for _name, _doc in _POINTWISE.items():
    globals()[_name] = _function(_name, _doc)


def _fold(name, doc):
    def fold(x, *dims, by=None):
        if by is not None:
            return Term(f"{name}({text_of(x)} by {text_of(by)})")
        return call(name, x, *dims)

    fold.__name__ = fold.__qualname__ = name
    fold.__doc__ = doc + " Over everything, over dimensions (sum(x, 0, -1)), or for each tensor of a list (by=P)."
    return fold


for _name, _doc in {
    "sum": "Sum.", "prod": "Product.", "amax": "Largest.", "amin": "Smallest.", "norm": "Square root of the sum of squares.",
    "mean": "Mean.", "count": "Number of elements.",
}.items():  # fmt: skip
    globals()[_name] = _fold(_name, _doc)

OPERATIONS = sorted([*_POINTWISE, "sum", "prod", "amax", "amin", "norm", "mean", "count"])
