"""The optimizers as Weft programs: one text per optimizer, dtype and variant. Hyperparameters are scalars of each launch."""

import weft

DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


def _open(name, dtype, states, scalars, clip):
    """Header, gradient, and `d`: the average gradient in the precision of the state, times `sign`, clipped."""
    wide = "f64" if dtype == "f64" else "f32"
    lines = [f"program 1 {name}", "tensors P"]
    lines += [f"scalar {scalar} {'i64' if scalar == 'step' else 'f64'}" for scalar in [*scalars, "sign"]]
    lines += ["scalar clip f64"] if clip else []
    lines += [f"in g {dtype}[P] local"]
    lines += [f"state {state} {wide}[P] replicated" for state in [*states, "w"]]
    lines += ["a = all_reduce(avg, g)"]
    narrow = dtype != wide
    lines += [f"b = {wide}(a)"] if narrow else []
    source = "b" if narrow else "a"
    if clip:
        lines += [f"q = sum({source} * {source})", f"e = sign * min(1, clip / (sqrt(q) * abs(sign) + 1e-06)) * {source}"]
    else:
        lines += [f"e = sign * {source}"]
    return lines, narrow


def _close(lines, narrow, dtype, updates):
    lines += [f"p = {dtype}(w1)"] if narrow else []
    lines += [f"update {state} = {value}" for state, value in updates]
    lines += ["out p" if narrow else "out w1"]
    return weft.parse("\n".join(lines) + "\n")


_MOMENTS = ["m1 = b1 * m + (1 - b1) * d", "v1 = b2 * v + (1 - b2) * d * d"]
_STEP = "m1 / (1 - b1 ^ step) / (sqrt(v1 / (1 - b2 ^ step)) + eps)"
_UPDATES = [("m", "m1"), ("v", "v1"), ("w", "w1")]


def adam(dtype, clip):
    lines, narrow = _open("optim_adam", dtype, ["m", "v"], ["lr", "step", "b1", "b2", "eps", "decay"], clip)
    lines += ["d = e + decay * w", *_MOMENTS, f"w1 = w - lr * ({_STEP})"]
    return _close(lines, narrow, dtype, _UPDATES)


def adamw(dtype, clip):
    lines, narrow = _open("optim_adamw", dtype, ["m", "v"], ["lr", "step", "b1", "b2", "eps", "decay"], clip)
    moments = [line.replace("d", "e") for line in _MOMENTS]
    lines += [*moments, f"w1 = w * (1 - lr * decay) - lr * ({_STEP})"]
    return _close(lines, narrow, dtype, _UPDATES)


def lamb(dtype, clip):
    lines, narrow = _open("optim_lamb", dtype, ["m", "v"], ["lr", "step", "b1", "b2", "eps", "decay"], clip)
    moments = [line.replace("d", "e") for line in _MOMENTS]
    lines += [
        *moments,
        f"u = {_STEP} + decay * w",
        "nw = sum(w * w by P)",
        "nu = sum(u * u by P)",
        "t = select(nw > 0 and nu > 0, sqrt(nw) / sqrt(nu), 1.0)",
        "w1 = w - lr * t * u",
    ]
    return _close(lines, narrow, dtype, _UPDATES)


def sgd(dtype, clip, momentum, nesterov):
    """`fresh` is what the gradient counts in the momentum: 1 in the first step, 1 - dampening later."""
    scalars = ["lr", "decay"] + (["momentum", "fresh"] if momentum else [])
    lines, narrow = _open("optim_sgd", dtype, ["m"] if momentum else [], scalars, clip)
    lines += ["d = e + decay * w"]
    if not momentum:
        lines += ["w1 = w - lr * d"]
        return _close(lines, narrow, dtype, [("w", "w1")])
    lines += ["m1 = momentum * m + fresh * d"]
    lines += ["w1 = w - lr * (d + momentum * m1)" if nesterov else "w1 = w - lr * m1"]
    return _close(lines, narrow, dtype, [("m", "m1"), ("w", "w1")])
