"""What does a kernel move and compute, counted while it runs? Bytes, sectors, bank conflicts, FLOPs, races."""

from dataclasses import dataclass, field

from ..units import si
from ..work import Work
from . import findings, symbols
from .errors import CudaError

SECTOR = 32                              # B that a GPU's memory hands out at a time (CUDA C++ Best Practices Guide)
WASTEFUL = 0.9                           # share of the bytes of its sectors below which a line is named
VERBS = ("reads", "writes", "changes atomically")
LOAD, STORE, ATOMIC = range(3)           # as in shim/access.h


@dataclass(frozen=True)
class Line:
    """What one source line does to global and to shared memory, all threads together [B] and [1]."""

    line: int
    text: str
    loaded: int = 0
    stored: int = 0
    requests: int = 0
    sectors: int = 0
    shared_requests: int = 0
    bank_conflicts: int = 0

    @property
    def use(self):
        """How often the threads of a warp use each byte that comes to them: 1 when they lie together, 1/8 for a float
        in each sector, more than 1 when several threads take the same byte."""
        return (self.loaded + self.stored) / (SECTOR * self.sectors) if self.sectors else 1.0


@dataclass(frozen=True, repr=False)
class Trace:
    """One launch as its source asks for it, before any cache: a count, never a time.

    Not counted: variables declared __device__ or __constant__, which begin afresh with each launch.

    loaded, stored:                what the threads ask of global memory [B]; an atomic counts in both
    unique_loaded, unique_stored:  the same with each byte counted once: what must move even with perfect caches [B]
    flops:           + - * / and each function 1, a multiply-add 2, comparisons 0 [FLOP]; what a compiler works out, as
                     2.0f * 3.0f, nothing; None if they cannot be counted, as with `int i = x[0];`
    requests:        of whole warps to global memory; `sectors` of 32 bytes serve them
    bank_conflicts:  extra turns that requests to shared memory take
    races:           sentences, one for each pair of lines
    lines:           a Line for each source line that touches memory
    """

    kernel: str
    loaded: int
    stored: int
    unique_loaded: int
    unique_stored: int
    flops: int | None
    requests: int
    sectors: int
    bank_conflicts: int
    races: tuple = ()
    lines: tuple = field(default=(), compare=False)
    launches: int = 1

    @property
    def intensity(self):
        """Arithmetic intensity if every load and store went to memory [FLOP/B]; None without FLOPs."""
        return None if self.flops is None else Work(self.flops, self.loaded + self.stored).intensity

    @property
    def sectors_per_request(self):
        """4 when 32 threads read 32 floats that lie together, 16 for float4, 32 when each reads elsewhere."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def use(self):
        """How often the threads of a warp use each byte that comes to them; below 1 bytes come along unused."""
        return Line(0, "", self.loaded, self.stored, sectors=self.sectors).use

    def work(self, dtype="float32", unit="vector"):
        """The Work of this launch: its FLOPs and its unique bytes.

        Errors:  CudaError when the FLOPs could not be counted
        """
        if self.flops is None:
            raise CudaError(f"the FLOPs of {self.kernel} are not countable: write out its conversions, as in int(x), "
                            "or make an rk.Work with FLOPs counted by hand.")
        return Work(self.flops, self.unique_loaded + self.unique_stored, written=self.unique_stored,
                    launches=self.launches, dtype=dtype, unit=unit, name=self.kernel)

    def __add__(self, other):
        """Both launches, one after the other: what the second reads again counts again."""
        both = None if None in (self.flops, other.flops) else self.flops + other.flops
        summed = ("loaded", "stored", "unique_loaded", "unique_stored", "requests", "sectors", "bank_conflicts",
                  "launches", "races", "lines")
        kernel = self.kernel if self.kernel == other.kernel else f"{self.kernel} + {other.kernel}"
        return Trace(kernel, flops=both, **{name: getattr(self, name) + getattr(other, name) for name in summed})

    def __repr__(self):
        moved, unique = self.loaded + self.stored, self.unique_loaded + self.unique_stored
        rows = [f"{self.kernel}: source-level count",
                f"  asked for       {si(self.loaded, 'B')} loaded, {si(self.stored, 'B')} stored",
                f"  unique          {si(self.unique_loaded, 'B')} loaded, {si(self.unique_stored, 'B')} stored"]
        if self.flops is None:
            rows.append("  FLOPs           not countable")
        else:
            rows.append(f"  FLOPs           {si(self.flops, 'FLOP')}")
            rows.append(f"  AI              {_ratio(self.flops, moved)} as asked for, "
                        f"{_ratio(self.flops, unique)} with unique bytes")
        rows.append(f"  sectors         {self.sectors_per_request:.1f} a request, each byte used {self.use:.2f} times")
        rows.append(f"  bank conflicts  {self.bank_conflicts}")
        return "\n".join(rows + [f"  ! {sentence}" for sentence in (*self._blamed(), *self.races)])

    def _blamed(self):
        """The lines that waste most, a sentence each."""
        worst = min(self.lines, key=lambda line: line.use, default=None)
        if worst and worst.use < WASTEFUL:
            yield (f"line {worst.line}, `{worst.text}`: {worst.use:.0%} of the bytes that it fetches or stores are "
                   "used; let neighbouring threads take neighbouring numbers.")
        worst = max(self.lines, key=lambda line: line.bank_conflicts, default=None)
        if worst and worst.bank_conflicts:
            yield (f"line {worst.line}, `{worst.text}`: {worst.bank_conflicts} bank conflicts; threads of a warp "
                   "meet in one bank, so pad the rows of the array by one number.")


def _ratio(flops, nbytes):
    return si(flops / nbytes, "FLOP/B") if nbytes else "no bytes"


def trace(found, call, source, path, flops):
    """The Trace of what a program in trace mode found."""
    sites = _located(found["sites"], source, path)
    far = [site for site in sites if not site["shared"]]
    return Trace(
        call.kernel, _bytes(far, LOAD), _bytes(far, STORE), found["unique_loaded"], found["unique_stored"], flops,
        _sum(far, "requests"), _sum(far, "units"), _sum(sites, "conflicts"), problems(found, call, source, path),
        tuple(_line(line, sites, source) for line in sorted({site["line"] for site in sites})))


def problems(found, call, source, path):
    """A sentence for each race, and for each use of shared memory too early."""
    if not found["findings"]:
        return ()
    sites = _located(found["sites"], source, path)

    def access(number):
        return VERBS[sites[number]["kind"]], sites[number]["line"]

    ranked = sorted(found["findings"], key=lambda each: each["kind"] != "race")       # what is unwritten is often one
    return tuple(dict.fromkeys(findings.race(access(each["first"]), access(each["second"]), each, call, source)
                               for each in ranked))


def _located(sites, source, path):
    """The sites with their lines, 0 where it cannot be told."""
    where = symbols.lines(path, source, [site["return"] - 1 for site in sites if "return" in site])
    return [site | {"line": site["line"] if "line" in site else where.get(site["return"] - 1, 0)} for site in sites]


def _sum(sites, what):
    return sum(site[what] for site in sites)


def _bytes(sites, kind):
    return _sum([site for site in sites if site["kind"] in (kind, ATOMIC)], "bytes")


def _line(line, sites, source):
    here = [site for site in sites if site["line"] == line]
    far, near = ([site for site in here if site["shared"] is shared] for shared in (False, True))
    return Line(line, source.lines.get(line, ("", ""))[1], _bytes(far, LOAD), _bytes(far, STORE), _sum(far, "requests"),
                _sum(far, "units"), _sum(near, "requests"), _sum(near, "conflicts"))
