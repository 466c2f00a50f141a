"""What the optimizers share: parameters in memory that all ranks map, one program per group and dtype, whole states.

At the first step the parameters move into memory of Weft's (their `.data`), and so do their gradients (`.grad`): from then
on backward adds into memory that peers read in place. One launch reduces the gradients, updates the slice of each rank and
gives every rank all new parameters; moments and master weights are kept sliced.
"""

import tempfile
import uuid

import torch
import torch.distributed as dist

import weft

from . import programs

_ranks = {}


def rank_of(group):
    """This process as a rank of Weft beside a process group (any backend); one per group."""
    key = group if group is not None else (dist.group.WORLD if dist.is_initialized() else None)
    if key in _ranks:
        return _ranks[key]
    path = [f"{tempfile.gettempdir()}/weft-optim-{uuid.uuid4().hex}"]
    if key is None:
        _ranks[key] = weft.join(path[0], 0, 1)
        return _ranks[key]
    dist.broadcast_object_list(path, group=key, group_src=0)
    _ranks[key] = weft.join(path[0], dist.get_rank(key), dist.get_world_size(key))
    return _ranks[key]


class Unit:
    """Parameters of one group and dtype, as one prepared program."""

    def __init__(self, rank, program, schedule, parameters):
        self.parameters = parameters
        self.shapes = [tuple(p.shape) for p in parameters]
        self.dtype = parameters[0].dtype
        self.executable = rank.prepare(program, schedule=schedule, P=[shape or (1,) for shape in self.shapes])
        self.states = [state["name"] for state in program.states if state["name"] != "w"]
        self.wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.gradients = self._views("g")
        self.values = self._views(program.outputs[0])
        for p, value in zip(parameters, self.values):
            value.copy_(p.detach())
            p.data = value
        self.write("w", self.values)
        for state in self.states:
            self.write(state, None)
        self.seen = self._versions()

    def _views(self, name):
        data = self.executable.data(name)
        return [torch.from_numpy(one).view(self.dtype).view(shape) for one, shape in zip(data, self.shapes)]

    def _versions(self):
        return [(p._version, p.data_ptr()) for p in self.parameters]

    def write(self, state, tensors):
        """A state as whole values; None: zeros."""
        count = sum(p.numel() for p in self.parameters)
        whole = torch.zeros(count, dtype=self.wide)
        if tensors is not None:
            torch.cat([one.detach().reshape(-1).to(self.wide) for one in tensors], out=whole)
        self.executable.write_state(state, whole.numpy())

    def read(self, state):
        """The whole state, one tensor per parameter. Collective."""
        whole = torch.frombuffer(bytearray(self.executable.read_state(state)), dtype=self.wide)
        parts = whole.split([p.numel() for p in self.parameters])
        return [part.view(shape).clone() for part, shape in zip(parts, self.shapes)]

    def gather_inputs(self):
        """Gradients into their place (nothing to do where backward added into it), parameters that others changed."""
        for p, gradient in zip(self.parameters, self.gradients):
            if p.grad is None:
                gradient.zero_()
            elif p.grad.data_ptr() != gradient.data_ptr() or not p.grad.is_contiguous():
                if p.grad.layout != torch.strided:
                    raise weft.Error("unsupported: sparse gradients", "unsupported", remedy="make the layer's dense")
                gradient.copy_(p.grad)
            p.grad = gradient
        if self._versions() == self.seen:
            return
        for p, value in zip(self.parameters, self.values):
            if p.data_ptr() != value.data_ptr():
                value.copy_(p.detach())
                p.data = value
        self.write("w", self.values)

    def launch(self, scalars):
        self.gather_inputs()
        self.executable.launch(**scalars)
        self.seen = self._versions()


class Optimizer(torch.optim.Optimizer):
    """Base of the optimizers here. They take gradients that are *not* reduced: use no DDP, or DDP under no_sync()."""

    KEYS = {}  # our states by torch's names
    _step_supports_amp_scaling = True

    def __init__(self, params, defaults, process_group, schedule, max_grad_norm, refused):
        for name, value in refused.items():
            if value:
                raise weft.Error(f"unsupported: {type(self).__name__}({name}={value})", "unsupported", remedy="leave it out")
        if max_grad_norm is not None and not max_grad_norm > 0:
            raise weft.Error(f"max_grad_norm {max_grad_norm}", remedy="give a number above 0, or None")
        if not 0 <= float(defaults["lr"]):
            raise ValueError(f"Invalid learning rate: {defaults['lr']}")
        super().__init__(params, defaults)
        if max_grad_norm is not None and len(self.param_groups) > 1:
            raise weft.Error("unsupported: max_grad_norm with several parameter groups", "unsupported", remedy="one group, or clip before")
        self._group, self._schedule, self._clip = process_group, schedule, max_grad_norm
        self._units, self._steps = None, 0

    # ---- what each optimizer says
    def _program(self, dtype, group):
        raise NotImplementedError

    def _scalars(self, group):
        raise NotImplementedError

    # ---- preparation
    def _active(self):
        """Parameters that have a gradient on any rank, by group: those that never have one are left alone."""
        mine = [[p.grad is not None for p in group["params"]] for group in self.param_groups]
        if dist.is_initialized():
            everyone = [None] * dist.get_world_size(self._group)
            dist.all_gather_object(everyone, mine, group=self._group)
        else:
            everyone = [mine]
        if any([len(g) for g in one] != [len(g) for g in mine] for one in everyone):
            raise weft.Error("ranks have different parameters", "agreement", remedy="build the same model on all ranks")
        return [[any(one[g][i] for one in everyone) for i in range(len(flags))] for g, flags in enumerate(mine)]

    def _prepare(self):
        rank = rank_of(self._group)
        units = []
        for group, flags in zip(self.param_groups, self._active()):
            by_dtype = {}
            for p, active in zip(group["params"], flags):
                if active:
                    by_dtype.setdefault(self._checked(p).dtype, []).append(p)
            for dtype, parameters in by_dtype.items():
                program = self._program(programs.DTYPES[str(dtype).split(".")[1]], group)
                units.append((group, Unit(rank, program, self._schedule, parameters)))
        if self._clip is not None and len(units) > 1:
            raise weft.Error("unsupported: max_grad_norm over several dtypes", "unsupported", remedy="clip before the step")
        self._units = units
        self._restore()

    def _checked(self, p):
        if str(p.dtype).split(".")[1] not in programs.DTYPES or p.device.type != "cpu":
            raise weft.Error(f"unsupported: a parameter of {p.dtype} on {p.device}", "unsupported", remedy="float tensors on the CPU")
        return p

    # ---- the step
    @torch.no_grad()
    def step(self, closure=None):
        """One step, collective. Gradients are averaged over the ranks; closure as in torch."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._skipped():
            return loss
        if self._units is None:
            self._prepare()
        self._refuse_late()
        self._steps += 1
        scale = getattr(self, "grad_scale", None)
        for group, unit in self._units:
            scalars = self._scalars(group)
            scalars["sign"] = (-1.0 if group.get("maximize") else 1.0) / (float(scale) if scale is not None else 1.0)
            if self._clip is not None:
                scalars["clip"] = float(self._clip)
            unit.launch(scalars)
        return loss

    def _skipped(self):
        """The grad scaler's word that a gradient overflowed: on any rank, for all."""
        found = getattr(self, "found_inf", None)
        if found is None:
            return False
        found = found.detach().clone().to(torch.float32).reshape(1)
        if dist.is_initialized():
            dist.all_reduce(found, dist.ReduceOp.MAX, group=self._group)
        return bool(found.item())

    def _refuse_late(self):
        known = {p for _, unit in self._units for p in unit.parameters}
        if any(p.grad is not None and p not in known for group in self.param_groups for p in group["params"]):
            raise weft.Error(
                "unsupported: a parameter got its first gradient after the first step", "unsupported",
                remedy="give it a zero gradient before the first step, on one rank at least",
            )  # fmt: skip

    def add_param_group(self, group):
        if getattr(self, "_units", None) is not None:
            raise weft.Error("unsupported: a parameter group after the first step", "unsupported", remedy="make a new optimizer with this one's state_dict()")
        super().add_param_group(group)

    def zero_grad(self, set_to_none=True):
        """Gradients that lie in mapped memory are set to zero where they are, whatever set_to_none says."""
        if self._units is None:
            return super().zero_grad(set_to_none)
        known = set()
        for _, unit in self._units:
            for p, gradient in zip(unit.parameters, unit.gradients):
                gradient.zero_()
                p.grad = gradient
                known.add(p)
        for group in self.param_groups:
            for p in group["params"]:
                if p not in known:
                    p.grad = None

    # ---- states, whole and under torch's names
    def state_dict(self):
        """As torch's optimizer of the same name gives it, whole tensors: any world size, and torch's own classes, take it.
        Collective. Narrow parameters also have "master", their float32 weights."""
        for _, unit in self._units or []:
            for name, key in self.KEYS.items():
                if name not in unit.states:
                    continue
                for p, tensor in zip(unit.parameters, unit.read(name)):
                    self.state[p][key] = tensor
            for p, master in zip(unit.parameters, unit.read("w") if unit.dtype != unit.wide else []):
                self.state[p]["master"] = master
            for p in unit.parameters:
                if "step" in self.STEP:
                    self.state[p]["step"] = torch.tensor(float(self._steps))
        return super().state_dict()

    STEP = ("step",)

    def load_state_dict(self, state_dict):
        """What state_dict() of this class or of torch's gave, on any world size."""
        super().load_state_dict(state_dict)
        steps = {int(entry["step"]) for entry in self.state.values() if "step" in entry}
        if len(steps) > 1:
            raise weft.Error("unsupported: parameters at different steps", "unsupported", remedy=f"they are at {sorted(steps)}")
        self._steps = steps.pop() if steps else (1 if any(self.state.values()) else 0)
        if self._units is not None:
            self._restore()

    def _restore(self):
        for _, unit in self._units:
            for name, key in self.KEYS.items():
                entries = [self.state.get(p, {}).get(key) for p in unit.parameters]
                if name in unit.states and any(entry is not None for entry in entries):
                    unit.write(name, [torch.zeros(s) if e is None else e for e, s in zip(entries, unit.shapes)])
            masters = [self.state.get(p, {}).get("master") for p in unit.parameters]
            if all(master is not None for master in masters):
                unit.write("w", masters)
