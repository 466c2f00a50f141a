"""The one error of Weft."""

KINDS = ("user", "plan", "agreement", "io", "timeout", "peer", "unsupported", "internal")


class Error(RuntimeError):
    """What was wrong, with the value, and what to do about it.

    kind: "user" (text, arguments or files), "plan", "agreement" (ranks differ), "io", "timeout", "peer" (another rank
    failed or died), "unsupported" (does not exist here) or "internal" (Weft's own mistake).
    message, remedy, rule: the pieces of str(error); remedy and rule may be "".
    """

    def __init__(self, text, kind="user", message=None, remedy="", rule=""):
        super().__init__(f"{text}\n    {remedy}" if message is None and remedy else text)
        self.kind = kind
        self.message = text if message is None else message
        self.remedy = remedy
        self.rule = rule

    def __reduce__(self):
        return Error, (str(self), self.kind, self.message, self.remedy, self.rule)
