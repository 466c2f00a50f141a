"""Weft: distributed tensor programs on CPU ranks.

Programs (weft.program, weft.parse), ranks (weft.run, weft.join), a backend for torch.distributed (weft.torch) and fused
optimizers (weft.optim). docs/python.md and docs/pytorch.md.
"""

from . import _weft
from .errors import Error

_weft.set_error_class(Error)

from . import builder, terms  # noqa: E402
from .builder import *  # noqa: E402, F403
from .programs import Program, Schedule, Table, Tuned, parse, read  # noqa: E402
from .ranks import Executable, Rank, join, run  # noqa: E402
from .terms import Term, call, differs, equals  # noqa: E402

for _name in terms.OPERATIONS:
    globals()[_name] = getattr(terms, _name)
del _name

__version__ = "0.1.0"
__all__ = [
    "Error", "Executable", "Program", "Rank", "Schedule", "Table", "Term", "Tuned", "call", "differs", "equals", "join",
    "parse", "read", "run", *(name for name in builder.__all__ if name != "terms"),
]  # fmt: skip
