"""Programs in Python: the same texts as files and C++ give, errors with rules, pictures, tables, tuning."""

import pickle
import sys

import pytest
from conftest import ROOT, run

import weft

EXAMPLES = ROOT / "examples"


@weft.program
def sgd(P: weft.Tensors, lr: weft.Scalar, g: weft.In("f32[P]", weft.local), m: weft.State("f32[P]"), w: weft.State("f32[P]")):
    momentum = weft.let(0.9)
    decay = weft.let(0.0001)
    a = weft.all_reduce(weft.avg, g)
    d = a + decay * w
    m1 = momentum * m + d
    w1 = w - lr * m1
    weft.update(m, m1)
    weft.update(w, w1)
    weft.out(w1)


@weft.program
def lamb(
    P: weft.Tensors, lr: weft.Scalar, step: weft.Integer, g: weft.In("f32[P]", weft.local),
    m: weft.State("f32[P]"), v: weft.State("f32[P]"), w: weft.State("f32[P]"),
):  # fmt: skip
    b1 = weft.let(0.9)
    b2 = weft.let(0.999)
    eps = weft.let(1e-6)
    decay = weft.let(0.01)
    a = weft.all_reduce(weft.avg, g)
    m1 = b1 * m + (1 - b1) * a
    v1 = b2 * v + (1 - b2) * a * a
    u = m1 / (1 - b1**step) / (weft.sqrt(v1 / (1 - b2**step)) + eps) + decay * w
    nw = weft.sum(w * w, by=P)
    nu = weft.sum(u * u, by=P)
    t = weft.select((nw > 0) & (nu > 0), weft.sqrt(nw) / weft.sqrt(nu), 1.0)
    w1 = w - lr * t * u
    weft.update(m, m1)
    weft.update(v, v1)
    weft.update(w, w1)
    weft.out(w1)


@weft.program
def attention_end(
    B: weft.Dim, S: weft.Dim, K: weft.Dim, H: weft.Dim, seed: weft.Integer,
    x: weft.In("f16[B, S, K]", weft.sliced(2)), w: weft.In("f16[K, H]", weft.sliced(0)),
    b: weft.In("f16[H]"), r: weft.In("f16[B, S, H]"),
):  # fmt: skip
    layer = x @ w
    s = weft.all_reduce("sum", layer)
    d = weft.select(weft.rand(seed, 1) < 0.1, 0, (s + b) / (weft.Term("1") - 0.1))  # not Python's 0.9
    y = d + r
    weft.out(y)


def adamw_by_builder():
    p = weft.Builder("adamw")
    P = p.tensors("P")
    lr, step = p.scalar("lr"), p.scalar("step", "i64")
    b1, b2, eps, decay, clip = (p.let(n, v) for n, v in dict(b1=0.9, b2=0.999, eps=1e-8, decay=0.01, clip=1.0).items())
    g = p.input("g", f"f32[{P.text}]", weft.local)
    m, v, w = (p.state(name, "f32[P]") for name in "mvw")
    a = p("a", weft.all_reduce(weft.avg, g))
    q = p("q", weft.sum(a * a))
    c = p("c", weft.min(1, clip / (weft.sqrt(q) + 1e-6)))
    d = p("d", c * a)
    m1 = p("m1", b1 * m + (1 - b1) * d)
    v1 = p("v1", b2 * v + (1 - b2) * d * d)
    u = p("u", m1 / (1 - b1**step) / (weft.sqrt(v1 / (1 - b2**step)) + eps))
    w1 = p("w1", w - lr * (u + decay * w))
    for state, value in ((m, m1), (v, v1), (w, w1)):
        p.update(state, value)
    p.out(w1)
    return p.build()


@pytest.mark.parametrize("made", [sgd, lamb, attention_end, adamw_by_builder()], ids=lambda p: p.name)
def test_the_text_is_that_of_the_file(made):
    assert made.text == weft.read(EXAMPLES / f"{made.name}.weft").text
    assert weft.parse(str(made)) == made and pickle.loads(pickle.dumps(made)) == made


def test_what_a_program_says_of_itself():
    assert [one["name"] for one in lamb.inputs] == ["g"] and lamb.inputs[0]["layout"] == "local"
    assert [one["name"] for one in lamb.states] == ["m", "v", "w"]
    assert lamb.scalars == ["lr", "step"] and lamb.outputs == ["w1"] and lamb.lists == ["P"]
    assert lamb.type_of("t") == "f32[#P] replicated"
    assert attention_end.type_of("layer") == "f16[B, S, H] partial(sum)"


def test_closures_and_plain_values_stay_python():
    scale, layers = 0.5, 3

    @weft.program
    def chain(N: weft.Dim, x: weft.In("f32[N]", weft.local)):
        y = weft.all_reduce("sum", x)
        factor = scale * 2  # a number of Python's, no statement
        for _ in range(layers):
            y = y
        z = y * factor
        weft.out(z)

    assert "z = y * 1.0" in chain.text and "factor" not in chain.text


def test_blocks_and_requirements():
    p = weft.Builder("blocks")
    n = p.dim("N")
    p.require(weft.equals(n % weft.Term("ranks"), 0))
    x = p.input("x", "f32[N]", weft.local)
    a = p("a", weft.all_reduce("sum", x))
    with p.fuse("f"):
        y = p("y", a + 1)
        z = p("z", -y * 2)
    p.out(z)
    text = p.build().text
    assert "require N % ranks == 0" in text and "fuse f:\n  y = a + 1\n  z = -y * 2\n" in text


@pytest.mark.parametrize(
    "text, rule, words",
    [
        ("program 1 x\nin g f32[N] local\nout g\n", "F3", "N"),
        ("program 1 x\ndim N\nin g f32[N] replicated\na = all_reduce(sum, g)\nout a\n", "L5", "replicated"),
        ("program 1 x\ndim N\nin g f32[N] local\nin h f16[N] local\na = g + h\nout a\n", "D1", "f16"),
    ],
)
def test_errors_have_kind_rule_and_remedy(text, rule, words):
    with pytest.raises(weft.Error, match=words) as caught:
        weft.parse(text)
    assert caught.value.kind == "user" and caught.value.rule == rule and caught.value.remedy
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.kind, again.rule, str(again)) == ("user", rule, str(caught.value))


def test_mistakes_of_python_are_told():
    term = weft.Term("x")
    for call, words in [
        (lambda: bool(term), "launch"),
        (lambda: term == 1, "equals"),
        (lambda: list(term), "folds"),
        (lambda: term + object(), "no term"),
        (lambda: weft.out(term), "weft.program"),
        (lambda: sgd.explain(ranks=2, Q=3), "no size Q"),
        (lambda: sgd.show("poem"), "poem"),
        (lambda: sgd.show(schedule="no such"), "no such"),
    ]:
        with pytest.raises(weft.Error, match=words):
            call()


def test_forms():
    fused = sgd.show("program", "fused")
    assert "reduce_scatter(avg, g, 0)" in fused and "all_gather(w1.s)" in fused
    assert sgd.show("plan", "fused").startswith("plan ")
    assert "void" in sgd.show("cpp", "fused")
    schedules = sgd.schedules()
    assert schedules[0].plain and "split a" in schedules[1].line
    assert sgd.show("program", schedules[1]) == sgd.show("program", schedules[1].text)
    for picture in (sgd._repr_html_(), schedules[1]._repr_html_()):
        assert "all_reduce" in picture or "reduce_scatter" in picture


def test_explain_and_tune(tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_TUNING", str(tmp_path / "tuning.toml"))
    table = sgd.explain(ranks=2, P=[(300, 7), (11,)])
    assert len(table) > 1 and all(row["predicted_ns"] > 0 for row in table)
    assert any(row["plain"] for row in table) and "schedule" in str(table) and "<table>" in table._repr_html_()
    tuned = sgd.tune(ranks=2, limit=3, seconds=1, P=[(300, 7), (11,)])
    assert any("median_ns" in row for row in tuned.rows) and str(tuned).startswith("schedule ")
    assert (tmp_path / "tuning.toml").exists() and tuned.why


def test_import_is_quick_and_takes_no_torch():
    code = "import time; t = time.perf_counter(); import weft, sys; print(time.perf_counter() - t, 'torch' in sys.modules, 'numpy' in sys.modules)"
    best = min(float(run([sys.executable, "-c", code]).split()[0]) for _ in range(5))
    assert best < 0.3 and run([sys.executable, "-c", code]).split()[1:] == ["False", "False"]
