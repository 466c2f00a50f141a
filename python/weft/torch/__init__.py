"""torch.distributed on Weft: `init_process_group("weft")` or `init_process_group("cpu:weft")`.

Where the package is installed, torch finds the backend by itself (entry point "torch.backends"). Importing this module also
puts torch's CPU allocator on the arena of this process, so that tensors made from then on are read in place by peers;
making a group does the same. WEFT_TORCH_ALLOCATOR=0 turns that off. The extension is built on first use (weft.torch.build).
"""

import datetime
import os
import sys

import torch.distributed as dist

from weft import _autoload
from weft.torch import build as _build


def create(options, _backend_options):
    """The backend of one group: what torch calls. Collective over the group."""
    timeout = datetime.timedelta(seconds=options.timeout.total_seconds())
    return _build.load().create(options.store, options.group_rank, options.group_size, timeout)


def _debug(text):
    if os.environ.get("WEFT_DEBUG", "").lower() in ("info", "trace"):
        print(f"weft: torch: {text}", file=sys.stderr, flush=True)


def _take_allocator():
    """Whether torch's tensors are made in the arena from now on. Never an error: without it everything works, slower."""
    if os.environ.get("WEFT_TORCH_ALLOCATOR", "1").lower() in ("0", "false", "off", "no", ""):
        return False
    try:
        why = _build.load().take_allocator()
    except (RuntimeError, OSError, ImportError) as error:  # making a group says it as an error
        why = str(error)
    _debug(f"tensors stay in ordinary memory: {why}" if why else "tensors of 16 KiB and more lie in the arena")
    return not why


def is_mapped(tensor):
    """Whether the tensor's memory is read in place by the ranks of every group of this process."""
    return _build.load().in_arena(tensor)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """As torch.distributed.monitored_barrier, which is open to gloo only: rank 0 names who did not come.

    timeout: a datetime.timedelta, or None for the group's. RuntimeError on all ranks that came.
    """
    group = group or dist.group.WORLD
    timeout = timeout or dist.distributed_c10d._get_default_timeout("gloo")
    return group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


_autoload.register()
if dist.is_available():
    _take_allocator()
