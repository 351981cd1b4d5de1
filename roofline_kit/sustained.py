"""How fast is this machine, really? Its own roof, measured once and then remembered.

A point is the median of its samples; a roof is the best configuration's point: kernel, threads, size. Where
others share a machine, its speed changes from one second to the next, and what they take makes it only
slower. So bandwidths are measured in several rounds, spread over the whole run, and the fastest round is
kept, whole because its mixes are compared with one another. If rounds differ much, the card says so.
"""

import math
import platform
from dataclasses import replace
from datetime import datetime

from . import cards
from .cards import SCHEMA, Card
from .device import device as this_device
from .doubts import FOREIGN, INCONCLUSIVE
from .roofline import Roofline
from .timing import quantile
from .units import itemsize, si

TRAFFIC = {              # kernel: arrays counted, of them stored, read besides since a store needs its line
    "read": (1, 0, 0), "triad": (3, 1, 1), "copy": (2, 1, 1), "scale": (2, 1, 0), "write": (1, 1, 1)}
ELIDED = 1.25            # so much faster than traffic that is certain: this CPU stores without reading first
UNSTEADY = 0.25          # change between rounds, or spread of a roof, that the card mentions
DTYPES = {"cpu": ("float32", "float64"), "gpu": ("float16", "bfloat16", "tfloat32", "float32", "float64", "int8")}
CALL = {"cpu": "a NumPy call on four numbers", "gpu": "a launch"}        # what a call of a lesson costs at least
BELIEVED = 600           # s that a doubtful card is used before it is measured again
_known = {}              # cards of this session, for a folder that cannot be written


def sustained(dtype=None, fresh=False, device=None):
    """The measured `Roofline` of this device for a dtype.

    dtype:   without one, the device's own: float32 on a CPU
    fresh:   measure again even if a card is kept
    Errors:  ValueError for a dtype that has no roof here, MeasureError where nothing can be measured
    """
    device = this_device(device)
    dtype = dtype or device.dtype
    itemsize(dtype)
    if dtype not in DTYPES[device.kind]:
        raise ValueError(_no_roof(device, dtype, DTYPES[device.kind]))
    found = card(fresh, device=device)
    if dtype not in found.data["peak"]:
        raise ValueError(_no_roof(device, dtype, found.data["peak"], found.data["left_out"][dtype]))
    return roofline(found, dtype)


def one_core(dtype=None, device=None):
    """Give NumPy's products and Numba's kernels one core of a CPU from here on; the measured `Roofline` of one core.

    That is the roof of array code: most of its calls use one core anyway, and to wake another for a small product takes
    longer than the product. Caches are left out. It takes some seconds, and the card if there is none.
    On a GPU nothing changes, and the roof is that of `sustained`. To have all cores again, restart the kernel.
    dtype:   without one, the device's own
    Errors:  as `sustained`
    """
    from threadpoolctl import threadpool_limits

    roof, device = sustained(dtype, device=device), this_device(device)
    if device.kind == "gpu":
        return roof
    from . import protocol

    whole = card(device=device)
    chains = best(whole.data["fma"][roof.dtype])["chains"]
    rounds, products, adds = protocol.measure_one_core(device, roof.dtype, chains)
    threadpool_limits(1, user_api="blas")
    found = roofline(Card(whole.data | bandwidths(rounds) | {"levels": []}), roof.dtype)
    return replace(found, name=f"{found.name}, one core", peak=best(products)["rate"], vector_peak=best(adds)["rate"])


def _no_roof(device, dtype, others, reason=""):
    why = f", it {reason}" if reason else ""
    return f"this {device.kind.upper()} has no measured roof for {dtype}{why}: choose {' or '.join(others)}."


def card(fresh=False, progress=None, device=None):
    """The machine card: everything that `sustained` knows.

    It takes 20 s, on a GPU at most 90 s, and none when one is kept on disk.
    fresh:     measure again even if a card is kept
    progress:  a function (share done, what is measured now) that is called at each step
    """
    device = this_device(device)
    found = None if fresh else _known.get(device.uid) or _kept(device)
    if not found:
        with cards.alone() as waited:
            found = _kept(device) if waited and not fresh else None            # the other one has measured it
            if not found:
                found = judged(_points(device, progress or cards.bar()), device)
                cards.keep(found)
    _known[device.uid] = found
    return found


def _points(device, tell):
    from . import protocol, protocol_gpu

    return protocol.measure_cpu(device, tell) if device.kind == "cpu" else protocol_gpu.measure_gpu(device, tell)


def _kept(device):
    """The card on disk, unless it is doubtful and a better one may be had by now."""
    found = cards.load(device.uid, lambda card: _age(card) >= -BELIEVED and _whole(card, DTYPES[device.kind]))
    return found if found and (not doubtful(found) or _age(found) < BELIEVED) else None


def _whole(card, dtypes):
    """Whether a card has a roof for each dtype, or a reason why not."""
    peak, left_out = card.data["peak"], card.data.get("left_out", {})
    return peak and {*dtypes} <= {*peak, *left_out} and all(roofline(card, dtype).ridge < math.inf for dtype in peak)


def _age(card):
    """Seconds since it was measured [s]."""
    return (datetime.now().astimezone() - datetime.fromisoformat(card.data["date"])).total_seconds()


def doubtful(card):
    """Whether a warning says that the card proves nothing."""
    return any(INCONCLUSIVE in text for text in card.data["warnings"])


def roofline(card, dtype):
    """The `Roofline` that a card describes."""
    data, mixes = card.data, {}
    for label, mix in data["mixes"].items():             # of two kernels with the same mix the faster one
        point = (mix["share"], mix["bandwidth"], label)
        mixes[mix["share"]] = max(mixes.get(mix["share"], point), point)
    within = data["device"]["caches"].get("L1", 0) if data["device"]["kind"] == "gpu" else 0
    return Roofline(
        peak=data["peak"][dtype], vector_peak=data["vector_peak"][dtype], bandwidth=data["bandwidth"],
        overhead=data["overhead"], name=data["device"]["name"], dtype=dtype, origin="measured",
        mixes=tuple(sorted(mixes.values())), write_allocate=data["write_allocate"],
        levels=tuple((level["capacity"], level["bandwidth"]) for level in data["levels"]
                     if level["capacity"] > within),         # in a GPU's L1 a kernel finds nothing of the one before
        clocks=tuple(clocks(data["overheads"])),
        note="doubtful, see its card" if doubtful(card) else "")


def clocks(overheads):
    """What runs timed by each clock of a GPU hold besides: (clock, once, each launch there, each one on the host) [s].

    Back to back, a kernel follows the one before it after a gap, if the host is fast enough. Behind a flush, all is
    queued, and the two events themselves take some time. In a graph the host has no part. The host's clock sees the
    first launch and the wait.
    """
    if "a queued launch" in overheads:
        gap, host, wait = (overheads[label] for label in ("a queued launch", "a launch", "a launch and a wait"))
        yield "throughput", 0.0, gap, host
        yield "cold", overheads["a timed window"], gap, 0.0
        yield "graph", 0.0, overheads["a launch in a graph"], 0.0
        yield "wall", max(wait - gap, 0.0), gap, host


def judged(found, device):
    """The card made from the points that `protocol` has measured."""
    facts = {"uid": device.uid, "name": device.name, "kind": device.kind, "cores": device.cores,
             "caches": device.caches, "memory": device.memory}
    data = {"schema": SCHEMA, "device": facts, "system": platform.platform(),
            "date": datetime.now().astimezone().isoformat(timespec="seconds"),
            **bandwidths(found["rounds"], device.kind == "cpu")}
    data["levels"] = plateaus(found["sweep"], data["mixes"]["read"]["bandwidth"])
    data["peak"] = {dtype: best(points)["rate"] for dtype, points in found["gemm"].items()}
    data["vector_peak"] = {dtype: best(found["fma"][dtype])["rate"] for dtype in data["peak"]}
    data["overhead"] = found["overheads"][CALL[device.kind]]
    data["warnings"] = list(warnings(found, device))
    return Card(data | found)


def bandwidths(rounds, cpu=True):
    """What the fastest round says: bandwidth on the bus by mix, and whether a store reads its line first.

    cpu:     a GPU never does
    """
    kept = min(rounds, key=_duration)
    counted = {label: TRAFFIC[label][0] * point["bytes"] / point["seconds"] for label, point in kept.items()}
    allocate = cpu and 2 * counted["write"] < ELIDED * max(counted["read"], counted["scale"])
    mixes = {}
    for label, point in kept.items():
        arrays, stored, first = TRAFFIC[label]
        bus = arrays + first * allocate
        mixes[label] = {"share": stored / bus, "bandwidth": counted[label] * bus / arrays,
                        "counted": counted[label], "spread": point["spread"], "threads": point["threads"]}
    fastest = max(mix["bandwidth"] for mix in mixes.values())
    return {"bandwidth": fastest, "mixes": mixes, "write_allocate": allocate}


def plateaus(sweep, memory):
    """The caches that a sweep shows, smallest first: [{"capacity" [B], "bandwidth" [B/s]}, ..].

    What is fast at one size is as fast at all smaller ones, so a dip before a rise is noise. A plateau is an
    octave or more, three sizes, within an eighth of its highest; main memory's own is left out.
    memory:  bandwidth of main memory [B/s]
    """
    rates = [max(point["bandwidth"] for point in sweep[i:]) for i in range(len(sweep))]
    levels, first = [], 0
    while first < len(rates):
        last = max(i for i, rate in enumerate(rates) if rate >= 0.875 * rates[first])
        if last - first < 2:
            first += 1
            continue
        if rates[last] > 1.3 * memory:
            middle = quantile(sorted(point["bandwidth"] for point in sweep[first:last + 1]), 0.5)
            levels.append({"capacity": sweep[last]["size"], "bandwidth": middle})
        first = last + 1
    return levels


def warnings(found, device):
    """What makes a card doubtful, a sentence each."""
    if found["foreign"] is not None and found["foreign"] > FOREIGN:
        yield (f"shared machine: other processes used {100 * found['foreign']:.0f} % of it meanwhile: "
               f"{INCONCLUSIVE}, and measure with fresh=True (--fresh) when it is quiet.")
    durations = sorted(map(_duration, found["rounds"]))
    if durations[-1] > (1 + UNSTEADY) * durations[0]:
        ratio = durations[-1] / durations[0]
        yield (f"memory was {ratio:.1f} times as fast in the best round as in the worst: others share it, "
               "so a single run may lie that far below the roof.")
    for what, roofs in (("multiply-adds", found["fma"]), ("matrix products", found["gemm"])):
        for dtype, noise in ((dtype, best(points)["spread"]) for dtype, points in roofs.items()):
            if noise > UNSTEADY:
                yield f"{dtype} {what} spread over {100 * noise:.0f} % of their median: {INCONCLUSIVE}."
    yield from found.get("doubts", ())
    ratio = best(found["fma"]["float32"])["rate"] / best(found["fma"]["float64"])["rate"]
    if device.kind == "cpu" and not 1.5 < ratio < 2.7:      # a register holds twice as many
        yield (f"float32 multiply-adds are {ratio:.1f} times as fast as float64 ones, not twice: something else ran "
               f"meanwhile, {INCONCLUSIVE}.")
    if found["threads"] == 1:
        yield "only one core may be used, so every roof here is that of one core."
    if found["buffer"] < 4 * device.caches.get("L3" if device.kind == "cpu" else "L2", 0):
        yield (f"there is room for buffers of {si(found['buffer'], 'B')} only, less than four times the last "
               "cache as claimed: some of the bandwidth called memory's may be the cache's.")


def best(points):
    """The fastest configuration."""
    return max(points, key=lambda point: point["rate"])


def _duration(points):
    """How long one call of each kernel takes [s]."""
    return sum(point["seconds"] for point in points.values())
