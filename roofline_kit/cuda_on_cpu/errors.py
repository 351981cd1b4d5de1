"""How does a kernel's mistake look in a notebook? As one sentence."""


class CudaError(RuntimeError):
    """A kernel that does not compile, is called wrongly, or does something wrong; a notebook shows the sentence."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]
