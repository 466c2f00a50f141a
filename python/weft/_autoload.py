"""What torch calls when it is imported (entry point "torch.backends"): the backend's name becomes known, nothing else.

The backend itself is loaded when a group is made, or by `import weft.torch`: a program that never asks for it pays nothing.
"""


def _create(options, backend_options):
    from weft import torch

    return torch.create(options, backend_options)


def register():
    import torch.distributed as dist

    if dist.is_available() and "weft" not in dist.Backend.backend_list:
        dist.Backend.register_backend("weft", _create, extended_api=True, devices=["cpu"])
