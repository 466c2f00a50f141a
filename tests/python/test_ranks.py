"""Programs on ranks, on the caller's arrays: nothing copied, wrong arrays refused, states whole whatever the schedule keeps."""

import pytest

np = pytest.importorskip("numpy", reason="NumPy is not installed in this environment")

import weft  # noqa: E402
from test_programs import sgd  # noqa: E402

SHAPES = [(5, 7), (1,), (64,), (3, 3)]


def expected(gradients, m, w, lr):
    """One step of sgd in float64."""
    for i in range(len(SHAPES)):
        d = sum(g[i].astype(np.float64) for g in gradients) / len(gradients) + 0.0001 * w[i]
        m[i] = 0.9 * m[i] + d
        w[i] = w[i] - lr * m[i]


def gradient(rank, step):
    return [(np.arange(np.prod(s)).reshape(s) % 7 - 3 + rank + step).astype(np.float32) for s in SHAPES]


def flat(arrays):
    return np.concatenate([a.ravel() for a in arrays])


@pytest.mark.parametrize("schedule", ["plain", "fused"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("own", [False, True])
def test_steps_agree_with_numpy(ranks, schedule, own):
    def body(rank):
        step = rank.prepare(sgd, schedule=schedule, own=own, P=SHAPES)
        start = np.arange(sum(int(np.prod(s)) for s in SHAPES), dtype=np.float32) / 50
        if own:
            g, w1 = gradient(rank.rank, 0), [np.full(s, np.nan, np.float32) for s in SHAPES]
            sliced, listed = np.full(step.bytes("m") // 4, np.nan, np.float32), [np.full(s, np.nan, np.float32) for s in SHAPES]
            step.bind(g=g, w1=w1, m=sliced if schedule == "fused" else listed)  # the state w lies in w1, its new value
        else:
            g, w1 = step.data("g"), [one for one in step.data("w1")]
        step.write_state("m", np.zeros_like(start))
        step.write_state("w", start)
        for k in range(3):
            for mine, new in zip(g, gradient(rank.rank, k)):
                mine.reshape(-1)[:] = new.ravel()
            step.launch(lr=0.1)
        return flat(w1), np.frombuffer(step.read_state("m"), np.float32), np.frombuffer(step.read_state("w"), np.float32)

    w = np.split(np.arange(sum(int(np.prod(s)) for s in SHAPES), dtype=np.float64) / 50, np.cumsum([np.prod(s) for s in SHAPES])[:-1])
    w = [x.reshape(s) for x, s in zip(w, SHAPES)]
    m = [np.zeros(s) for s in SHAPES]
    for k in range(3):
        expected([gradient(r, k) for r in range(ranks)], m, w, 0.1)
    for w1, m_whole, w_whole in weft.run(ranks, body):
        np.testing.assert_allclose(w1, flat(w), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(w1, w_whole)
        np.testing.assert_allclose(m_whole, flat(m), rtol=1e-5, atol=1e-5)


def scale():
    p = weft.Builder("scale")
    p.dim("N", "M")
    factor = p.scalar("factor")
    x = p.input("x", "f32[N, M]", weft.local)
    y = p("y", factor * weft.all_reduce("sum", x))
    p.out(y)
    return p.build()


def test_arrays_are_used_where_they_lie():
    def body(rank):
        step = rank.prepare(scale(), own=True, schedule="plain", N=3, M=5)
        x = np.full((3, 5), rank.rank + 1, np.float32)
        x.setflags(write=False)  # an input is only read
        whole = np.full(3 * 5 + 8, np.nan, np.float32)
        y = whole[4:19].reshape(3, 5)
        step(x=x, y=y, factor=2.0)
        assert (y == 6).all() and np.isnan(whole[:4]).all() and np.isnan(whole[19:]).all()
        return True

    assert weft.run(2, body) == [True, True]


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: np.zeros((3, 5), np.float64), "dtype f32"),
        (lambda: np.zeros((5, 3), np.float32).T, "contiguous"),
        (lambda: np.zeros((3, 4), np.float32), "15 elements here, 12"),
        (lambda: "no array", "array in CPU memory"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(make, words):
    def body(rank):
        rank.prepare(scale(), own=True, schedule="plain", N=3, M=5).bind(x=make())

    with pytest.raises(weft.Error, match=words) as caught:
        weft.run(1, body)
    assert caught.value.kind == "user"


def test_outputs_must_be_writable():
    def body(rank):
        y = np.zeros((3, 5), np.float32)
        y.setflags(write=False)
        rank.prepare(scale(), own=True, schedule="plain", N=3, M=5).bind(y=y)

    with pytest.raises(weft.Error, match="writable"):
        weft.run(1, body)


def test_errors_of_a_body_come_out():
    def body(rank):
        if rank.rank == 1:
            raise KeyError("mine")
        rank.prepare(scale(), schedule="plain", N=3, M=5).launch(factor=1.0)

    with pytest.raises(KeyError, match="mine"):
        weft.run(2, body, timeout=20)


def test_torch_tensors_share_memory():
    torch = pytest.importorskip("torch", reason="torch is not installed in this environment")

    def body(rank):
        step = rank.prepare(scale(), own=True, schedule="plain", N=3, M=5)
        x, y = torch.nn.Parameter(torch.ones(3, 5) * (rank.rank + 1)), torch.zeros(3, 5)
        step(x=x, y=y, factor=1.0)
        return y.sum().item()

    assert weft.run(2, body) == [45.0, 45.0]


def test_one_process_can_be_a_rank(tmp_path):
    with weft.join(tmp_path / "meeting", 0, 1) as rank:
        assert (rank.rank, rank.size) == (0, 1)
    with pytest.raises(weft.Error):
        weft.join(tmp_path / "meeting", 3, 2)
