"""How much of this computer may this process use, and how much do others use?"""

import contextlib
import hashlib
import os
import platform
import subprocess
import time
from pathlib import Path

ROOT = Path("/")


def name():
    """Model name of the processor."""
    if platform.system() == "Darwin":
        found = _sysctl("machdep.cpu.brand_string").values()
    elif platform.system() == "Windows":
        found = [_windows_name()]
    else:
        lines = [line.partition(":") for line in _read(ROOT / "proc/cpuinfo").splitlines()]
        named = {key.strip().lower(): value.strip() for key, _, value in lines}
        board = _read(ROOT / "sys/firmware/devicetree/base/model").strip("\0 \n")    # ARM names no processor
        found = [named.get("model name"), board, named.get("hardware")]
    return next((text for text in found if text), platform.processor() or platform.machine() or "unknown CPU")


def cpus():
    """Numbers of the hardware threads on which this process may run; empty where the system does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    import psutil

    process = psutil.Process()
    return sorted(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else []


def cores():
    """Hardware threads that this process may keep busy: its affinity, and the quota of its container."""
    allowed = len(cpus()) or os.cpu_count() or 1
    return max(1, min([allowed, *map(int, _quotas())]))


def caches():
    """{"L1": data cache of a core, "L2": that of a core, "L3": of all usable cores together} as claimed [B].

    Empty where the system does not tell (Windows).
    """
    if platform.system() == "Darwin":
        keys = {"L1": "l1dcachesize", "L2": "l2cachesize", "L3": "l3cachesize"}
        told = _sysctl(*(f"hw.{core}{key}" for key in keys.values() for core in ("perflevel0.", "")))
        sizes = {level: int(told.get(f"hw.perflevel0.{key}") or told.get(f"hw.{key}") or 0)
                 for level, key in keys.items()}             # level 0: the fast cores of an Apple chip
        return {level: size for level, size in sizes.items() if size}
    found, last = {}, {}
    for cpu in cpus():
        for index in sorted((ROOT / f"sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
            kind, level, size, shared = (
                _read(index / key).strip() for key in ("type", "level", "size", "shared_cpu_list")
            )
            if kind == "Instruction" or not size:
                continue
            if level == "3":
                last[shared] = _bytes(size)  # a chip made of several dies has one on each
            found.setdefault(f"L{level}", _bytes(size))
    return found | ({"L3": sum(last.values())} if last else {})


def listed(sizes):
    """{"L1": 32768} as 'L1 32 KiB'; caches are the one place for binary prefixes."""
    return ", ".join(f"{level} {size / 2**20:g} MiB" if size >= 2**20 else f"{level} {size / 2**10:g} KiB"
                     for level, size in sizes.items()) or "not told by the system"


def memory():
    """Memory in all [B]: what is built in, or the limit of the container."""
    import psutil

    return min([psutil.virtual_memory().total, *(limit for limit, _ in _memory_limits())])


def free_memory():
    """Memory that a new array may take without swapping [B]."""
    import psutil

    rooms = [limit - used for limit, used in _memory_limits()]
    return max(0, min([psutil.virtual_memory().available, *rooms]))


def uid():
    """Stable name of this computer as this process may use it: it changes with the cores it is given."""
    facts = (name(), cores(), sorted(caches().items()), round(memory() / 2**30), platform.system())
    facts += (_read(ROOT / "etc/machine-id").strip(),)
    return "cpu-" + hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def load_mark():
    """A reading for `foreign_load`: (time, busy time of a core, the part that is ours) [s]."""
    import psutil

    each = psutil.cpu_times(percpu=True)
    used = [each[cpu] for cpu in cpus() if cpu < len(each)] or each
    idle = ("idle", "iowait", "guest", "guest_nice")         # a guest's time is part of user and nice, too
    busy = sum(sum(value for key, value in cpu._asdict().items() if key not in idle) for cpu in used)
    own = sum(os.times()[:4])
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):              # it may end while we look
            own += sum(child.cpu_times()[:4])
    return time.monotonic(), busy / len(used), own / len(used)


def foreign_load(since=None):
    """Share of the usable cores that other processes took, from 0 to 1; None where it cannot be known.

    since:   an earlier `load_mark()`, at least 0.1 s ago; without one, the next half second is watched
    """
    if since is None:
        since = load_mark()
        time.sleep(0.5)
    elapsed, busy, own = (now - then for now, then in zip(load_mark(), since))
    if elapsed < 0.1 or busy < own / 2:                      # ticks of 10 ms; a system that does not count
        return None
    return min(1.0, max(0.0, busy - own) / elapsed)


def _groups(controller):
    """Folders of this process's control groups, version 2 and 1, from its own up to the top."""
    for line in _read(ROOT / "proc/self/cgroup").splitlines():
        controllers, group = line.split(":", 2)[1:]
        if controllers and controller not in controllers.split(","):
            continue
        top = ROOT / "sys/fs/cgroup" / (controller if controllers else "")
        own = top / group.strip("/")
        yield from [own, *(folder for folder in own.parents if folder.is_relative_to(top))]


def _quotas():
    """Cores' worth of time that each control group may use."""
    for folder in _groups("cpu"):
        quota, period = (_read(folder / "cpu.max").split() + ["", ""])[:2]
        quota = quota or _read(folder / "cpu.cfs_quota_us").strip()
        period = period or _read(folder / "cpu.cfs_period_us").strip()
        if quota.isdigit() and period.isdigit() and int(period):
            yield int(quota) / int(period)


def _memory_limits():
    """(limit, used) of each control group [B]; file pages that can be dropped do not count as used."""
    for folder in _groups("memory"):
        limit = (_read(folder / "memory.max") or _read(folder / "memory.limit_in_bytes")).strip()
        used = (_read(folder / "memory.current") or _read(folder / "memory.usage_in_bytes")).strip()
        if limit.isdigit() and used.isdigit():
            lines = (line.split() for line in _read(folder / "memory.stat").splitlines())
            stat = {line[0]: int(line[1]) for line in lines if len(line) == 2}
            yield int(limit), int(used) - stat.get("total_inactive_file", stat.get("inactive_file", 0))


def _bytes(text):
    """'32K' -> 32768"""
    return int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1)


def _read(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _sysctl(*keys):
    try:
        told = subprocess.run(["sysctl", *keys], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return {}
    pairs = (line.partition(":") for line in told.stdout.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _windows_name():
    import winreg

    path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, path) as key:
            return winreg.QueryValueEx(key, "ProcessorNameString")[0].strip()
    except OSError:
        return ""
