"""torch.distributed on Weft: `init_process_group("weft")` or `init_process_group("cpu:weft")`.

Where the package is installed, torch finds the backend by itself (entry point "torch.backends"); else
`import weft.torch` first. The extension is built on first use (weft.torch.build).
"""

import datetime

import torch.distributed as dist

from weft.torch import build as _build


def _create(options, _backend_options):
    timeout = datetime.timedelta(seconds=options.timeout.total_seconds())
    return _build.load().create(options.store, options.group_rank, options.group_size, timeout)


def register():
    """Makes the backend known to torch. Called by torch itself (entry point), or by importing this module."""
    if dist.is_available() and "weft" not in dist.Backend.backend_list:
        dist.Backend.register_backend("weft", _create, extended_api=True, devices=["cpu"])


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """As torch.distributed.monitored_barrier, which is open to gloo only: rank 0 names who did not come.

    timeout: a datetime.timedelta, or None for the group's. RuntimeError on all ranks that came.
    """
    group = group or dist.group.WORLD
    timeout = timeout or dist.distributed_c10d._get_default_timeout("gloo")
    return group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


register()
