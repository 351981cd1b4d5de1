"""What stands in a .cu file: which kernels, what do their parameters and lines say, and how does it read on a CPU?"""

import functools
import re
from dataclasses import dataclass

from ..units import nearest
from .errors import CudaError

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
BOUNDS = r"(?:__launch_bounds__\s*\([^;{]*?\)\s*)?"
KERNEL = re.compile(r"(template\s*<[^;{]*>\s*)?(?:\bvoid\s+)?__global__\s[^;{(]*?" + BOUNDS + r"(?:void\s+)?" + BOUNDS +
                    r"(\w+)\s*\(([^;{]*?)\)\s*\{", re.DOTALL)
ALIGNED = r"(?:(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)?"
SHARED = re.compile(r"(?:extern\s+__shared__|__shared__\s+extern)\s+" + ALIGNED +
                    r"([\w:\s]+?)\s*\b(\w+)\s*\[\s*\]\s*;")
LINE = re.compile(r'\s*#\s*line\s+(\d+)(?:\s+"([^"]*)")?')


@dataclass(frozen=True)
class Source:
    """CUDA C++ text.

    text:    as written; may hold `#line 1 "name.cu"` lines
    file:    how its lines are named where it does not say so itself
    """

    text: str
    file: str = "kernel.cu"

    @functools.cached_property
    def _kernels(self):
        """{kernel: names of its parameters}"""
        found = KERNEL.findall(_without_comments(self.text))
        return {name: _names(parameters) for template, name, parameters in found if not template}

    @property
    def kernels(self):
        """The names of its kernels; those that only the preprocessor spells out are missing."""
        return tuple(self._kernels)

    def require(self, name):
        """Errors: CudaError when no kernel can have that name."""
        if not re.search(rf"\b{re.escape(name)}\b", _without_comments(self.text)):
            raise CudaError(nearest(name, self._kernels, "kernel in this source") if self._kernels else
                            f'this source has no kernel {name}: begin it with extern "C" __global__ void {name}(...).')

    def parameters(self, name):
        """What the kernel calls its parameters, where the text tells."""
        return self._kernels.get(name, ())

    @functools.cached_property
    def lines(self):
        """{number: (file, text)} of its lines, numbered as `#line` says."""
        found, number, file = {}, 1, self.file
        for text in self.text.split("\n"):
            told = LINE.match(text)
            if told:
                number, file = int(told[1]), told[2] or file
                continue
            found[number] = file, text.strip()
            number += 1
        return found

    def place(self, line):
        """How a sentence names one of its lines: file, number and text."""
        if line not in self.lines:
            return ""
        file, text = self.lines[line]
        return f"{file} line {line}, `{text.split(' //')[0].strip()}`"

    def translated(self):
        """The text for a CPU's compiler, each line where it was.

        Dynamic shared memory is one array that every block uses in turn; the rest is left to the shim.
        """
        text = SHARED.sub(lambda found: f"static {found[1]}* const {found[2]} = "
                          f"({found[1]}*)cuda_on_cpu::dynamic_shared;" + "\n" * found[0].count("\n"), self.text)
        return f'#line 1 "{self.file}"\n{text}'


def _without_comments(text):
    return COMMENT.sub(lambda found: found[0] if found[0][0] == '"' else " ", text)


def _names(parameters):
    """The last word of each parameter; a comma inside <> or () separates none."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "<([") - (letter in ">)]")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    names = [re.findall(r"\w+", re.sub(r"\[.*", "", part)) for part in parts]
    return tuple(name[-1] for name in names if name)
