"""weft.optim beside all_reduce + torch.optim over steps of a small transformer, by torchrun. Prints "cases N"."""

import copy
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

import weft
import weft.optim

STEPS = 100 if "--long" in sys.argv else 25


class Transformer(torch.nn.Module):
    """Two layers, causal, on bytes: odd sizes on purpose."""

    def __init__(self, width=24, heads=3, vocabulary=29):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        layer = lambda: torch.nn.TransformerEncoderLayer(width, heads, 37, dropout=0.0, batch_first=True)  # noqa: E731
        self.layers = torch.nn.ModuleList([layer(), layer()])
        self.head = torch.nn.Linear(width, vocabulary)

    def forward(self, tokens):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.head(x)


def batch(step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    tokens = torch.randint(0, 29, (4, 9), generator=generator)
    tokens[:, 1::2] = (tokens[:, ::2][:, : tokens[:, 1::2].shape[1]] * 3) % 29  # something to learn
    return tokens


def backward(model, step):
    tokens = batch(step)
    loss = F.cross_entropy(model(tokens[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return loss.item()


class Lamb(torch.optim.Optimizer):
    """The published algorithm in plain torch: an oracle."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["step"] += 1
                state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                u = (state["m"] / (1 - b1 ** state["step"])) / ((state["v"] / (1 - b2 ** state["step"])).sqrt() + group["eps"])
                u = u + group["weight_decay"] * p
                ratio = p.norm() / u.norm() if p.norm() > 0 and u.norm() > 0 else 1.0
                p.add_(u, alpha=-group["lr"] * float(ratio))


def average(model):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def models(count=2):
    torch.manual_seed(3)
    first = Transformer()
    return [first, *(copy.deepcopy(first) for _ in range(count - 1))]


def close(ours, theirs, tolerance, what):
    for (name, a), b in zip(ours.named_parameters(), theirs.parameters()):
        if name.endswith("in_proj_bias"):  # the keys' bias has no gradient but rounding, which Adam divides by itself
            a, b = (torch.cat(x.chunk(3)[::2]) for x in (a, b))
        error = (a - b).norm().item() / max(1e-6, b.norm().item())
        assert error <= tolerance, f"{what}: {name} differs by {error:.1e}"


def compare(what, make_ours, make_theirs, tolerance=2e-4, clip=None, steps=STEPS):
    mine, other = models()
    ours, theirs = make_ours(mine), make_theirs(other)
    losses = []
    for step in range(steps):
        losses.append(backward(mine, step))
        expected = backward(other, step)
        assert abs(losses[-1] - expected) < 1e-3 * abs(expected), (what, step, losses[-1], expected)
        average(other)
        if clip:
            torch.nn.utils.clip_grad_norm_(other.parameters(), clip)
        ours.step(), theirs.step()
        ours.zero_grad(), theirs.zero_grad()
    assert steps < 20 or losses[-1] < losses[0], (what, losses)
    close(mine, other, tolerance, what)
    digest = torch.cat([p.detach().flatten() for p in mine.parameters()])
    lowest, highest = digest.clone(), digest.clone()
    dist.all_reduce(lowest, dist.ReduceOp.MIN), dist.all_reduce(highest, dist.ReduceOp.MAX)
    assert torch.equal(lowest, highest), f"{what}: ranks have different parameters"
    return mine, ours, other, theirs


def groups(model):
    return [{"params": list(model.layers.parameters()), "lr": 3e-3}, {"params": [*model.embed.parameters(), *model.head.parameters()], "weight_decay": 0.0}]


O, T = weft.optim, torch.optim
CASES = {
    "adam": lambda: compare("Adam", lambda m: O.Adam(m.parameters(), 3e-3), lambda m: T.Adam(m.parameters(), 3e-3)),
    "adam decay": lambda: compare("Adam decay", lambda m: O.Adam(m.parameters(), 3e-3, weight_decay=0.1), lambda m: T.Adam(m.parameters(), 3e-3, weight_decay=0.1)),
    "adamw groups": lambda: compare("AdamW", lambda m: O.AdamW(groups(m), 2e-3), lambda m: T.AdamW(groups(m), 2e-3)),
    "adamw clipped": lambda: compare("AdamW clipped", lambda m: O.AdamW(m.parameters(), 3e-3, max_grad_norm=0.5), lambda m: T.AdamW(m.parameters(), 3e-3), clip=0.5),
    "sgd": lambda: compare("SGD", lambda m: O.SGD(m.parameters(), 0.1), lambda m: T.SGD(m.parameters(), 0.1)),
    "sgd momentum": lambda: compare(
        "SGD momentum", lambda m: O.SGD(m.parameters(), 0.05, 0.9, 0.3, 1e-3), lambda m: T.SGD(m.parameters(), 0.05, 0.9, 0.3, 1e-3)),
    "sgd nesterov": lambda: compare(
        "SGD nesterov", lambda m: O.SGD(m.parameters(), 0.05, 0.9, nesterov=True), lambda m: T.SGD(m.parameters(), 0.05, 0.9, nesterov=True)),
    "lamb": lambda: compare("LAMB", lambda m: O.LAMB(m.parameters(), 1e-2), lambda m: Lamb(m.parameters(), 1e-2), tolerance=2e-3),
}  # fmt: skip


def maximize():
    """Two steps up are two steps down of the negative loss."""
    up, down = models()
    ours = O.AdamW(up.parameters(), 1e-2, maximize=True)
    theirs = T.AdamW(down.parameters(), 1e-2, maximize=True)
    for step in range(2):
        backward(up, step), backward(down, step)
        average(down)
        ours.step(), theirs.step()
        ours.zero_grad(), theirs.zero_grad()
    close(up, down, 2e-4, "maximize")


def states_go_to_torch_and_back():
    mine, ours, other, theirs = compare("AdamW", lambda m: O.AdamW(m.parameters(), 3e-3), lambda m: T.AdamW(m.parameters(), 3e-3), steps=5)
    saved = ours.state_dict()
    expected = theirs.state_dict()
    assert saved["state"].keys() == expected["state"].keys()
    for key, entry in expected["state"].items():
        assert entry.keys() == saved["state"][key].keys()
        for name, value in entry.items():
            assert torch.allclose(torch.as_tensor(value), torch.as_tensor(saved["state"][key][name]), rtol=1e-3, atol=1e-6), name
    into_torch = T.AdamW(other.parameters(), 3e-3)
    into_torch.load_state_dict(saved)
    into_weft = O.AdamW(mine.parameters(), 3e-3)
    into_weft.load_state_dict(copy.deepcopy(expected))
    for step in range(5, 8):
        backward(mine, step), backward(other, step)
        average(other)
        into_weft.step(), into_torch.step()
        into_weft.zero_grad(), into_torch.zero_grad()
    close(mine, other, 5e-4, "states that changed hands")


def parameters_that_others_change():
    mine, ours, other, theirs = compare("SGD", lambda m: O.SGD(m.parameters(), 0.1), lambda m: T.SGD(m.parameters(), 0.1), steps=3)
    with torch.no_grad():
        for model in (mine, other):
            model.head.weight.fill_(0.01)
            model.head.bias.data = torch.zeros(29)
    backward(mine, 9), backward(other, 9)
    average(other)
    mine.embed.weight.grad = mine.embed.weight.grad.clone()  # a gradient that lies elsewhere
    ours.step(), theirs.step()
    close(mine, other, 1e-4, "changed parameters")


def masters():
    """bfloat16 parameters follow float32 ones, and a state dict has the masters."""
    torch.manual_seed(5)
    low = torch.nn.Linear(13, 7).to(torch.bfloat16)
    high = torch.nn.Linear(13, 7)
    high.load_state_dict({key: value.float() for key, value in low.state_dict().items()})
    ours, theirs = O.AdamW(low.parameters(), 1e-3), T.AdamW(high.parameters(), 1e-3)
    for step in range(30):
        # whole numbers: their sum over a few ranks and its average are exact in bfloat16
        g = torch.randint(-20, 21, (7, 13), generator=torch.Generator().manual_seed(step)).to(torch.bfloat16)
        for model in (low, high):
            model.weight.grad, model.bias.grad = g.to(model.weight.dtype), g[:, 0].clone().to(model.weight.dtype)
        ours.step(), theirs.step()
    assert low.weight.dtype == torch.bfloat16
    assert torch.equal(low.weight.float(), ours.state_dict()["state"][0]["master"].bfloat16().float())
    assert torch.allclose(ours.state_dict()["state"][0]["master"], high.weight, rtol=1e-4, atol=1e-6)


def runs_repeat_bitwise():
    digests = []
    for _ in range(2):
        model = models(1)[0]
        optimizer = O.LAMB(model.parameters(), 1e-2, max_grad_norm=1.0)
        for step in range(5):
            backward(model, step)
            optimizer.step()
            optimizer.zero_grad()
        digests.append(torch.cat([p.detach().flatten().clone() for p in model.parameters()]))
    assert torch.equal(*digests)


def overflow_on_one_rank_is_skipped_by_all():
    model = torch.nn.Linear(4, 4)
    optimizer = O.SGD(model.parameters(), 0.5)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = model.weight.detach().clone()
    for poison in (True, False):
        loss = model(torch.ones(2, 4)).sum()
        scaler.scale(loss).backward()
        if poison and dist.get_rank() == 0:
            model.weight.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update(4.0)
        optimizer.zero_grad()
        if poison:
            assert torch.equal(model.weight, before), "a step with inf was taken"
    assert torch.allclose(model.weight, before - 0.5 * 2.0), "the scale was not taken out"


def closures_unused_and_refusals():
    model = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(2, 2)])
    optimizer = O.Adam(model.parameters(), 1e-2)

    def closure():
        optimizer.zero_grad()
        loss = model[0](torch.ones(1, 3)).square().sum()
        loss.backward()
        return loss

    unused = model[1].weight.detach().clone()
    losses = [optimizer.step(closure).item() for _ in range(5)]
    assert losses[-1] < losses[0] and torch.equal(model[1].weight, unused)
    for call in (lambda: O.Adam(model.parameters(), amsgrad=True), lambda: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})):
        try:
            call()
        except weft.Error as error:
            assert error.kind == "unsupported", error.kind
        else:
            raise AssertionError("not refused")


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    more = [maximize, states_go_to_torch_and_back, parameters_that_others_change, masters, runs_repeat_bitwise,
            overflow_on_one_rank_is_skipped_by_all, closures_unused_and_refusals]  # fmt: skip
    for name, run in [*CASES.items(), *((one.__name__, one) for one in more)]:
        try:
            run()
        except BaseException:
            print(f"rank {dist.get_rank()}: {name} failed", flush=True)
            raise
    if dist.get_rank() == 0:
        print(f"cases {len(CASES) + len(more)}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
