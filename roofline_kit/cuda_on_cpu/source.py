"""What stands in a .cu file: which kernels, what do their parameters and lines say, and how does it read on a CPU?"""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from ..units import nearest
from .errors import CudaError

COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
BOUNDS = r"(?:__launch_bounds__\s*\([^;{]*?\)\s*)?"
KERNEL = re.compile(r"(template\s*<[^;{]*>\s*)?(?:\bvoid\s+)?__global__\s[^;{(]*?" + BOUNDS + r"(?:void\s+)?" + BOUNDS +
                    r"(\w+)\s*\(([^;{]*?)\)\s*\{", re.DOTALL)
ALIGNED = r"(?:(?:__align__|alignas)\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)"
SHARED = re.compile(r"(?:\bextern\b(?=[^;{}\"]*__shared__)|__shared__\s+extern\b)((?:[^;{}\"()]|" + ALIGNED +
                    r")*?)\b(\w+)\s*\[\s*(?:/\*[^*]*\*/\s*)?\]((?:\s*\[[^\];]*\])*)(?=\s*;|\s*?\\?$)", re.MULTILINE)
LINKAGE = re.compile(r'\bextern\s+"C"\s+(?=(?:static\s+|const\s+|volatile\s+)*__(?:global|device|constant|shared)__)|'
                     r"\bstatic\s+(?=(?:const\s+|volatile\s+)*__(?:constant|shared|managed)__)|"
                     r"(?<=__shared__ )static\b|(?<=__constant__ )static\b")
STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
LITERAL = re.compile(COMMENT.pattern + r"|^[ \t]*#[ \t]*(?!define)[^\n]*|"
                     r"(?<![\w.])((?:(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)([fF]?))(?![\w.])",
                     re.DOTALL | re.MULTILINE)
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
        """Errors: CudaError when no kernel can have that name, or when the text holds what belongs to a host."""
        code = STRING.sub('""', _without_comments(self.text))
        if "<<<" in code or re.search(r"\bint\s+main\s*\(", code):
            raise CudaError("a source holds kernels only, but this one has a main() or a launch k<<<...>>>(...): leave "
                            "them out, and launch from Python as kernel(grid, block, args).")
        if not isinstance(name, str) or not name.isidentifier():
            raise CudaError(f"{name!r} is no name of a kernel: give the word that follows __global__ void, one of "
                            f"{', '.join(self._kernels) or 'those in this source'}.")
        if name not in self._kernels and self._on_device(name):
            raise CudaError(self.unlaunchable(name))
        if not re.search(rf"\b{re.escape(name)}\b", _without_comments(self.text)):
            raise CudaError(nearest(name, self._kernels, "kernel in this source") if self._kernels else
                            f'this source has no kernel {name}: begin it with extern "C" __global__ void {name}(...).')

    def _on_device(self, name):
        return re.search(r"__device__[^;{}()]*\b" + name + r"\s*\(", _without_comments(self.text))

    def unlaunchable(self, name):
        """Why no launch finds a function that stands in the text under that name: a sentence."""
        code = _without_comments(self.text)
        if re.search(r"template\s*<[^;{]*>[^;{}]*\b" + name + r"\s*\(", code):
            return (f"{name} is a template, and a launch takes one instance of it: make it a __device__ function, and "
                    f'add a kernel extern "C" __global__ void {name}_float(...) whose body calls {name}<float>(...).')
        if self._on_device(name):
            return (f"{name} is a __device__ function, which only kernels can call: launch one of "
                    f'{", ".join(self._kernels) or "your kernels"}, or write extern "C" __global__ void {name}(...).')
        if not re.search(r"__global__[^;{}]*\b" + name + r"\s*\(", code):
            return f'{name} is no kernel: write extern "C" __global__ void {name}(...).'
        return (f"{name} cannot be launched by that name, which belongs to a namespace, to two functions, or to C: "
                f'write extern "C" __global__ void {name}(...) once, outside of every namespace, or rename it.')

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

    def translated(self, counted=False):
        """The text for a CPU's compiler, each line where it was.

        Dynamic shared memory is one array that every block uses in turn. A kernel that is called div or exp must not be
        taken for C's function of that name, so what CUDA calls extern "C" is C++ here. Where FLOPs are counted,
        literals are numbers that count, too: `1.0f / n` is a division. The rest is left to the shim.
        """
        text = LINKAGE.sub(lambda found: "\n" * found[0].count("\n"), SHARED.sub(_dynamic, self.text))
        if counted:
            text = LITERAL.sub(lambda found: f"cuda_on_cpu::{'f32' if found[2] else 'f64'}({found[1]})" if found[1] else
                               found[0], text)
        return f'#line 1 "{self.file}"\n{text}'


def _dynamic(found):
    kind, name, lengths = re.sub("__shared__|" + ALIGNED, " ", found[1]).strip(), found[2], found[3]
    return f"static auto* const {name} = ({kind} (*){lengths})cuda_on_cpu::dynamic_shared" + "\n" * found[0].count("\n")


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


def read(source):
    """The Source that a learner means by a text, or by the pathlib.Path of a file.

    Errors:  CudaError when it is neither
    """
    if isinstance(source, Source):
        return source
    if isinstance(source, Path):
        try:
            return Source(source.read_text(encoding="utf-8-sig"), source.name)
        except OSError as error:
            raise CudaError(f"{source} cannot be read ({error.strerror}): give the Path of a .cu file, relative to "
                            f"{Path.cwd()}.") from None
        except UnicodeDecodeError:
            raise CudaError(f"{source} is not UTF-8 text: save it as UTF-8.") from None
    if not isinstance(source, str):
        raise CudaError(f"the source of a kernel is text or a pathlib.Path, not a {type(source).__name__}: give the "
                        "CUDA C++ text.")
    return Source(source.removeprefix("\ufeff"))
