"""Fused optimizers: reduce-scatter of the gradients, update and all-gather of the parameters in one launch.

    optimizer = weft.optim.AdamW(model.parameters(), lr=1e-3)     # torch's class otherwise
    loss.backward()                                               # no DDP, or DDP under no_sync()
    optimizer.step()                                              # the step communicates

Constructors, parameter groups, state_dict and closures are those of torch.optim's classes of the same name. Beside them:
process_group (None: the default one), schedule ("fused"; see Program.schedules), and max_grad_norm (clips by the norm over
all parameters, inside the step). float16 and bfloat16 parameters have float32 master weights. docs/pytorch.md.
"""

from . import programs
from .base import Optimizer

__all__ = ["Adam", "AdamW", "LAMB", "SGD"]


class _Moments(Optimizer):
    KEYS = {"m": "exp_avg", "v": "exp_avg_sq"}

    def __init__(
        self, params, lr, betas, eps, weight_decay, amsgrad, *, foreach=None, maximize=False, capturable=False,
        differentiable=False, fused=None, process_group=None, schedule="fused", max_grad_norm=None,
    ):  # fmt: skip
        if not (0 <= betas[0] < 1 and 0 <= betas[1] < 1):
            raise ValueError(f"Invalid beta parameters: {betas}")
        if eps < 0 or weight_decay < 0:
            raise ValueError(f"Invalid eps {eps} or weight_decay {weight_decay}")
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, foreach=foreach, maximize=maximize,
            capturable=capturable, differentiable=differentiable, fused=fused,
        )  # fmt: skip
        refused = {"amsgrad": amsgrad, "capturable": capturable, "differentiable": differentiable}
        super().__init__(params, defaults, process_group, schedule, max_grad_norm, refused)

    def _scalars(self, group):
        return {
            "lr": float(group["lr"]), "step": self._steps, "b1": float(group["betas"][0]), "b2": float(group["betas"][1]),
            "eps": float(group["eps"]), "decay": float(group["weight_decay"]),
        }  # fmt: skip


class Adam(_Moments):
    """torch.optim.Adam over the ranks. Unsupported: amsgrad, capturable, differentiable."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, **more):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **more)

    def _program(self, dtype, group):
        return programs.adam(dtype, self._clip is not None)


class AdamW(_Moments):
    """torch.optim.AdamW over the ranks. Unsupported: amsgrad, capturable, differentiable."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, **more):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, **more)

    def _program(self, dtype, group):
        return programs.adamw(dtype, self._clip is not None)


class LAMB(_Moments):
    """LAMB (You et al., ICLR 2020): Adam's step scaled per tensor by the norm of the weights over that of the step."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2, **more):
        super().__init__(params, lr, betas, eps, weight_decay, False, **more)

    def _program(self, dtype, group):
        return programs.lamb(dtype, self._clip is not None)


class SGD(Optimizer):
    """torch.optim.SGD over the ranks. Unsupported: differentiable."""

    KEYS = {"m": "momentum_buffer"}
    STEP = ()

    def __init__(
        self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None,
        differentiable=False, fused=None, process_group=None, schedule="fused", max_grad_norm=None,
    ):  # fmt: skip
        if momentum < 0 or weight_decay < 0:
            raise ValueError(f"Invalid momentum {momentum} or weight_decay {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov, maximize=maximize,
            foreach=foreach, differentiable=differentiable, fused=fused,
        )  # fmt: skip
        super().__init__(params, defaults, process_group, schedule, max_grad_norm, {"differentiable": differentiable})

    def _program(self, dtype, group):
        return programs.sgd(dtype, self._clip is not None, group["momentum"] != 0, group["nesterov"])

    def _scalars(self, group):
        out = {"lr": float(group["lr"]), "decay": float(group["weight_decay"])}
        if group["momentum"] != 0:
            out["momentum"] = float(group["momentum"])
            out["fresh"] = 1.0 if self._steps == 1 else 1.0 - float(group["dampening"])
        return out
