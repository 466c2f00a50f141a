"""What torch calls when it is imported (entry point "torch.backends"): the backend's name becomes known, nothing else."""


def register():
    import weft.torch  # noqa: F401
