"""What a process may use, read from files that the test writes."""

import time

import pytest

from roofline_kit import host

MiB = 2**20


@pytest.fixture
def root(monkeypatch, tmp_path):
    monkeypatch.setattr(host, "ROOT", tmp_path)
    monkeypatch.setattr(host, "cpus", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(host.platform, "system", lambda: "Linux")
    return tmp_path


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def cache(root, cpu, index, kind, level, size, shared):
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}/"
    write(root, {folder + "type": kind + "\n", folder + "level": level + "\n", folder + "size": size + "\n",
                 folder + "shared_cpu_list": shared + "\n"})


def test_no_quota_leaves_all_cores(root):
    assert host.cores() == 4


def test_a_quota_of_version_2_limits_the_cores(root):
    write(root, {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/cpu.max": "250000 100000\n"})
    assert host.cores() == 2


def test_a_quota_of_version_1_limits_the_cores(root):
    write(root, {"proc/self/cgroup": "3:cpu,cpuacct:/box\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                 "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"})
    assert host.cores() == 3                                 # set at the top, of which we see no folder below


def test_unlimited_quotas_limit_nothing(root):
    write(root, {"proc/self/cgroup": "0::/\n1:cpu:/\n", "sys/fs/cgroup/cpu.max": "max 100000\n",
                 "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
                 "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"})
    assert host.cores() == 4


def test_half_a_core_is_still_one(root):
    write(root, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert host.cores() == 1


def test_the_tightest_group_on_the_way_up_counts(root):
    write(root, {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n",
                 "sys/fs/cgroup/a/memory.max": f"{512 * MiB}\n",
                 "sys/fs/cgroup/a/memory.current": f"{100 * MiB}\n"})
    assert host.memory() == 512 * MiB and host.free_memory() == 412 * MiB


def test_droppable_file_pages_count_as_free(root):
    top = "sys/fs/cgroup/memory/memory."
    write(root, {"proc/self/cgroup": "4:memory:/\n", top + "limit_in_bytes": f"{512 * MiB}\n",
                 top + "usage_in_bytes": f"{500 * MiB}\n",
                 top + "stat": f"inactive_file 1\ntotal_inactive_file {200 * MiB}\n"})
    assert host.free_memory() == 212 * MiB


def test_a_group_over_its_limit_leaves_nothing(root):
    write(root, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "100\n",
                 "sys/fs/cgroup/memory.current": "300\n"})
    assert host.free_memory() == 0


def test_caches_are_those_of_a_core_and_the_last_one_of_all_dies(root):
    for cpu in range(4):
        cache(root, cpu, 0, "Data", "1", "32K", str(cpu))
        cache(root, cpu, 1, "Instruction", "1", "64K", str(cpu))
        cache(root, cpu, 2, "Unified", "2", "1M", str(cpu))
        cache(root, cpu, 3, "Unified", "3", "16384K", "0-1" if cpu < 2 else "2-3")
    assert host.caches() == {"L1": 32 * 1024, "L2": MiB, "L3": 32 * MiB}


def test_caches_are_empty_where_the_system_does_not_tell(root):
    assert host.caches() == {} and host.listed({}) == "not told by the system"


def test_a_mac_tells_the_caches_of_its_fast_cores(root, monkeypatch):
    monkeypatch.setattr(host.platform, "system", lambda: "Darwin")
    told = {"hw.l1dcachesize": "65536", "hw.perflevel0.l1dcachesize": "131072", "hw.l2cachesize": "4194304"}
    monkeypatch.setattr(host, "_sysctl", lambda *keys: {key: told[key] for key in keys if key in told})
    assert host.caches() == {"L1": 128 * 1024, "L2": 4 * MiB}


def test_the_name_comes_from_the_processor_or_else_from_the_board(root):
    write(root, {"proc/cpuinfo": "processor : 0\nCPU part : 0xd0b\n",
                 "sys/firmware/devicetree/base/model": "Raspberry Pi 5\0"})
    assert host.name() == "Raspberry Pi 5"
    write(root, {"proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC\n"})
    assert host.name() == "AMD EPYC"


def test_the_uid_is_stable_and_changes_with_the_cores(root, monkeypatch):
    before = host.uid()
    assert host.uid() == before and before.startswith("cpu-") and before[4:].isalnum()
    monkeypatch.setattr(host, "cpus", lambda: [0])
    assert host.uid() != before


def marks(monkeypatch, *later):
    readings = iter(later)
    monkeypatch.setattr(host, "load_mark", lambda: next(readings))


def test_foreign_load_is_busy_time_less_our_own(monkeypatch):
    marks(monkeypatch, (11.0, 8.0, 4.5))
    assert host.foreign_load(since=(10.0, 7.25, 4.25)) == 0.5


def test_our_own_work_is_not_foreign(monkeypatch):
    marks(monkeypatch, (11.0, 8.0, 5.0))
    assert host.foreign_load(since=(10.0, 7.0, 4.0)) == 0


def test_foreign_load_is_unknown_over_a_few_ticks(monkeypatch):
    marks(monkeypatch, (10.05, 8.0, 4.0))
    assert host.foreign_load(since=(10.0, 7.0, 4.0)) is None


def test_foreign_load_is_unknown_where_the_system_does_not_count(monkeypatch):
    marks(monkeypatch, (11.0, 0.0, 5.0))
    assert host.foreign_load(since=(10.0, 0.0, 4.0)) is None


def test_a_mark_counts_our_own_work_as_busy():
    before = host.load_mark()
    end = time.process_time() + 0.05                         # five ticks of the counters
    while time.process_time() < end:
        pass
    after = host.load_mark()
    assert after[2] > before[2] and after[1] > before[1]
