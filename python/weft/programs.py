"""Programs: read, show, explain, tune."""

import html
import os

from . import _weft
from .errors import Error

SHAPE_LIST = (tuple, list)


def sizes_of(program, ranks, sizes):
    """Numbers for sizes, lists of shapes for lists of tensors."""
    dims, lists = {}, {}
    known = program._native.dims
    for name, value in sizes.items():
        if name not in known:
            raise Error(f"{program.name} has no size {name}", remedy=f"it has {', '.join(known) or 'none'}")
        if isinstance(value, int):
            dims[name] = value
        else:
            lists[name] = [[int(n) for n in shape] for shape in value]
    return _weft.sizes(ranks, dims, lists)


class Program:
    """A checked program: its text, what it looks like, how fast which schedule of it would be.

    Program(text) reads the text form; weft.read(path) a file; @weft.program makes one of a function.
    str(program) is the canonical text. Two programs are equal when that is.
    """

    def __init__(self, text):
        self._native = _weft.parse(text)

    @property
    def name(self):
        return self._native.name

    @property
    def text(self):
        """The canonical text."""
        return self._native.text

    @property
    def inputs(self):
        """[{"name", "dtype", "shape", "layout"}]: given at each launch; shapes are those of whole values."""
        return self._native.inputs

    @property
    def states(self):
        """The same of what is kept from launch to launch."""
        return self._native.states

    @property
    def outputs(self):
        """Names of results."""
        return self._native.outputs

    @property
    def sizes(self):
        """Names of sizes, lists of tensors among them."""
        return self._native.dims

    @property
    def lists(self):
        """Names of lists of tensors."""
        return self._native.lists

    @property
    def scalars(self):
        """Names of numbers given at each launch."""
        return self._native.scalars

    def type_of(self, value):
        """The type of any value as text: "f32[B, S] sliced(1)"."""
        return self._native.type_of(value)

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<weft.Program {self.name}>"

    def __eq__(self, other):
        return isinstance(other, Program) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __reduce__(self):
        return Program, (self.text,)

    def show(self, form="program", schedule="plain", ranks=2, mapped=True):
        """The program after a schedule, as text.

        form: "program", "schedule", "plan", "cpp" (generated code), "dot" or "svg" (needs graphviz).
        schedule: "plain", "fused", a name from schedules(), a schedule file or text.
        """
        return _weft.show(self._native, form, str(schedule), ranks, mapped)

    def schedules(self, limit=64):
        """Schedules that dominance keeps, the plain one first: a list of Schedule."""
        return [Schedule(self, row) for row in _weft.schedules(self._native, limit)]

    def explain(self, ranks=2, limit=40, mapped=True, any_order=False, **sizes):
        """What the model says of each schedule at these sizes, best first; nothing is run but, once per machine, a
        calibration of seconds. A Table of rows with name, schedule, predicted_ns, read_bytes, written_bytes and
        exchanged_bytes (per element), passes, bound."""
        return Table(_weft.explain(self._native, sizes_of(self, ranks, sizes), limit, mapped, any_order))

    def tune(self, ranks=2, limit=12, seconds=25, any_order=False, store=True, scalars=None, **sizes):
        """Measures the most promising schedules on ranks that are threads of this process, checks each against the
        reference, and (store) writes the best into the tuning file, where schedule="tuned" finds it. A Tuned."""
        native = sizes_of(self, ranks, sizes)
        return Tuned(self, _weft.tune(self._native, native, dict(scalars or {}), limit, seconds, any_order, store))

    def _repr_html_(self):
        """A picture where graphviz is installed, and the text."""
        return _picture(self, "plain")


class Schedule:
    """A set of rewrites of one program. `str` is its text; give it wherever a schedule is taken."""

    def __init__(self, program, row):
        self.program, self.name, self.plain = program, row["name"], row["plain"]
        self.line, self.text = row["schedule"], row["text"]

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<weft.Schedule {self.name}: {self.line}>"

    def _repr_html_(self):
        return _picture(self.program, self.text)


class Table(list):
    """Rows (dicts) that print as a table."""

    COLUMNS = (("predicted_ns", "predicted us", 1e-3), ("median_ns", "measured us", 1e-3), ("read_bytes", "read", 1),
               ("written_bytes", "written", 1), ("exchanged_bytes", "exchanged", 1))  # fmt: skip

    def _columns(self):
        return [column for column in self.COLUMNS if any(column[0] in row for row in self)]

    def _cell(self, row, key, scale):
        return f"{row[key] * scale:.1f}" if key in row else "-"

    def __str__(self):
        columns = self._columns()
        lines = ["".join(f"{title:>14}" for _, title, _ in columns) + "  schedule"]
        for row in self:
            lines.append("".join(f"{self._cell(row, key, scale):>14}" for key, _, scale in columns) + "  " + row["schedule"])
        return "\n".join(lines)

    def _repr_html_(self):
        columns = self._columns()
        head = "".join(f"<th>{title}</th>" for _, title, _ in columns) + "<th>schedule</th>"
        rows = "".join(
            "<tr>" + "".join(f"<td>{self._cell(row, key, scale)}</td>" for key, _, scale in columns)
            + f"<td>{html.escape(row['schedule'])}</td></tr>"
            for row in self
        )  # fmt: skip
        return f"<table><tr>{head}</tr>{rows}</table>"


class Tuned:
    """What tuning found. str(tuned) is the best schedule's text: prepare(program, schedule=tuned)."""

    def __init__(self, program, report):
        self.program, self.best, self.rows, self.why = program, report["best"], Table(report["rows"]), report["why"]

    def __str__(self):
        return self.best

    def __repr__(self):
        return str(self.rows) + "\n" + "\n".join(self.why)

    def _repr_html_(self):
        return self.rows._repr_html_() + "<p>" + "<br>".join(html.escape(line) for line in self.why) + "</p>"


def _picture(program, schedule):
    text = f"<pre>{html.escape(program.show('program', schedule))}</pre>"
    try:
        return program.show("svg", schedule) + text
    except Error as error:
        if error.kind != "unsupported":
            raise
        return text  # no graphviz


def parse(text):
    """The Program with this text. Error(user) names line, column and rule."""
    return Program(text)


def read(path):
    """The Program in a .weft file."""
    with open(os.fspath(path), encoding="utf-8") as file:
        return Program(file.read())
