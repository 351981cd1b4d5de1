"""What do you want to do with the course?

    python course.py lab           open JupyterLab on the first lesson
    python course.py test          run the tests
    python course.py check LAB     say which exercises of a lab are answered
    python course.py build         write notebooks, labs and solutions from source/
    python course.py card          measure this machine
    python course.py explore       move a model's sliders, as a page of their own

What follows is passed on: lab --no-browser, test -k roofline, card --json.
The first run makes the folder .venv with all that is needed; later runs start at once.
"""
# Only the standard library, and only words that old Pythons know too: they must get as far as main().
import ctypes
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig

OLDEST, NEWEST = (3, 11), (3, 14)  # requires-python in pyproject.toml
ROOT = os.path.dirname(os.path.realpath(__file__))
VENV = os.path.realpath(os.path.join(ROOT, ".venv"))
COMPILER = None if sys.platform == "darwin" else "requirements.nvrtc.lock.txt"  # CUDA left macOS in 2019
PYTHON = os.path.join(VENV, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))
LAB = ["-m", "jupyterlab", "--allow-root", "--LabApp.default_url=/lab/tree/notebooks/00_start_here.ipynb"]
PAGE = '{"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": true}}'  # no pop-up
COMMANDS = {  # the arguments of .venv's Python, and the folder: the course's, or the one the user is in
    "lab": (LAB + ["--ServerApp.root_dir=" + ROOT], ROOT), "test": (["-m", "pytest"], ROOT),
    "build": (["source/build.py"], ROOT), "explore": (["-m", "voila", "notebooks/explore.ipynb", "--token"], ROOT),
    "check": (["-P", "-m", "roofline_kit.grade"], "."), "card": (["-P", "-m", "roofline_kit"], ".")}
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "__PYVENV_LAUNCHER__", "JUPYTER_PATH", "PIP_TARGET",
           "PYTHONDONTWRITEBYTECODE")  # a user's settings that would change what .venv is or make it slow
REASONS = (  # what a failed step says, and what the learner can do: the first that matches
    (r"not the course's own|Errno (17|20)\b",
     "There is a .venv here that the course did not make: move it away and run this again."),
    (r"ensurepip is not|No module named '?(venv|ensurepip)",
     "Python's venv module is missing: install it (on Debian, apt install python3-venv) and run this again."),
    (r"No space left|not enough space|WinError 112|quota exceeded",
     "The disk is full: free about 2 GB here and in the temporary folder, and run this again."),
    (r"WinError (5|32)\b", "A file in .venv is in use: close JupyterLab and run this again."),
    (r"deadlock", "Another set-up of the course is running: wait until it has ended and run this again."),
    (r"Permission denied|Read-only file system|not permitted",
     "This folder cannot be written to: copy the course to a folder of your own and run it there."),
    ((r"(?i)name resolution|getaddrinfo|nodename|dns error|new connection|connection ?(refused|reset|error)"
      r"|timed? ?out|unreachable|proxy ?error|tunnel|ssl ?error|certificate|error sending request"),
     "The package index cannot be reached: check the network, or the proxy, and run this again."))


def explain(text):
    text += "\nNo space left" * (shutil.disk_usage(ROOT).free < 2**26)  # Python's venv does not tell
    unknown = "The set-up failed; its last lines say why:\n" + "\n".join(text.splitlines()[-8:])
    return next((sentence for pattern, sentence in REASONS if re.search(pattern, text)), unknown)


def environment(prefix=VENV):
    """The user's environment variables, less what would mix something else into the course's packages.

    OpenBLAS's threads shall not hold the cores after a product: see roofline_kit/__init__.py, which may come too late.
    """
    kept = {name: value for name, value in os.environ.items() if name not in FOREIGN}
    kept.setdefault("OPENBLAS_THREAD_TIMEOUT", "16")
    return dict(kept, VIRTUAL_ENV=prefix, JUPYTER_PREFER_ENV_PATH="1", PIP_USER="0")


def run(command):
    """One step of the set-up: its latest line is shown while it works, and all of them if it fails."""
    lines, live = [], sys.stderr.isatty()
    step = subprocess.Popen(command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in step.stdout:
        lines.append(line.decode("utf-8", "replace").rstrip())
        sys.stderr.write(lines[-1][:78].ljust(78) + "\r" if live else "")
    sys.stderr.write(" " * 78 + "\r" if live else "")
    if step.wait():
        raise OSError("\n".join(lines))


def driver():
    """The newest CUDA that this machine's NVIDIA driver knows, as (13, 0); None where there is no driver."""
    version, tool = ctypes.c_int(0), shutil.which("nvidia-smi")
    try:
        library = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
        if library.cuDriverGetVersion(ctypes.byref(version)) == 0 and version.value:
            return version.value // 1000, version.value % 1000 // 10
    except (OSError, AttributeError):
        pass  # no library that could be asked; the tool may know
    try:
        said = subprocess.check_output([tool], stderr=subprocess.DEVNULL, timeout=30) if tool else b""
    except (OSError, subprocess.SubprocessError):
        said = b""
    found = re.search(br"CUDA[\w ]*Version\s*:\s*(\d+)\.(\d+)", said)
    return (int(found.group(1)), int(found.group(2))) if found else None


def gpu_lock(version):
    """The lock of the CuPy that fits a driver, else of the compiler alone; and the sentence for the learner."""
    if version is None:
        return COMPILER, "No NVIDIA driver found, so the course uses the CPU."
    if version < (12, 0):
        return COMPILER, ("The NVIDIA driver is for CUDA %d.%d and CuPy needs 12.0 or newer, so the course uses"
                          " the CPU until the driver is updated." % version)
    lock = "requirements.cuda%d.lock.txt" % min(version[0], 13)  # a newer driver runs code for an older CUDA
    return lock, "The NVIDIA driver is for CUDA %d.%d, so CuPy is installed too (about 1 GB)." % version


def is_ready(want):
    try:
        with open(os.path.join(VENV, "stamp")) as file:
            return file.read() == want and os.path.exists(PYTHON)
    except (OSError, ValueError):
        return False


def write(text, *path):
    os.makedirs(os.path.join(VENV, *path[:-1]), exist_ok=True)
    with open(os.path.join(VENV, *path), "w", encoding="ascii") as file:
        file.write(text)


def wait_for_turn(file):
    """Lock an open file once no other process does; the system lets go however this process ends."""
    if os.name == "nt":
        import msvcrt
        return msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # after 10 s an error: "deadlock avoided"
    import fcntl
    try:
        return fcntl.flock(file, fcntl.LOCK_EX)
    except OSError:
        return None  # a disk without locks


def install(lock):
    """Make .venv from nothing with the pinned packages, by uv or else by pip; then the lock that fits the driver."""
    python = getattr(sys, "_base_executable", None) or sys.executable  # never the .venv that is about to go
    flags = ["--no-deps", "--only-binary", ":all:", "--require-hashes", "-r"]
    uv = shutil.which("uv")
    ways = [([uv, "venv", "--python", python, VENV], [uv, "pip", "install", "--python", PYTHON] + flags),
            ([python, "-m", "venv", VENV], [PYTHON, "-m", "pip", "install", "--retries", "2"] + flags)]
    for make, add in ways if uv else ways[1:]:
        try:
            write("", "stamp")  # first, so that no half-removed and no half-made .venv passes for a ready one
            shutil.rmtree(VENV)
            run(make)
            run(add + ["requirements.lock.txt"])
            break
        except OSError as error:
            failure = error
    else:
        raise failure
    try:
        run(add + [lock]) if lock else None
    except OSError as error:
        sys.stderr.write("%s could not be installed, so the course uses the CPU without it; remove .venv to retry. %s\n"
                         % ("NVIDIA's compiler" if "nvrtc" in lock else "CuPy", explain(str(error))))


def set_up():
    """Make .venv unless its stamp, a hash of the pins, Python's version and the course's folder, is right."""
    lock, sentence = gpu_lock(driver())
    digest = hashlib.sha256(ascii((ROOT, sys.version_info[:2], lock)).encode())
    for name in filter(None, ("pyproject.toml", "requirements.lock.txt", lock)):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    if is_ready(digest.hexdigest()):
        return
    with open(os.path.join(ROOT, ".venv.lock"), "a") as file:
        sys.stderr.write("Setting up .venv, once: seconds with uv, a minute or two with pip. %s\n" % sentence)
        wait_for_turn(file)
        if is_ready(digest.hexdigest()):
            return
        if os.path.isdir(VENV) and os.listdir(VENV) and not os.path.exists(os.path.join(VENV, "stamp")):
            raise OSError("not the course's own")
        install(lock)
        packages = sysconfig.get_path("purelib", "venv", {"base": VENV, "platbase": VENV})
        write("import sys; sys.path.append(%s)\n" % ascii(ROOT), packages, "course.pth")  # the kit, in place
        write(PAGE, "etc", "jupyter", "labconfig", "page_config.json")
        write(digest.hexdigest(), "stamp")


def main(argv):
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        return ("The course needs Python %d.%d to %d.%d and this is %d.%d: install one of those and use it."
                % (OLDEST + NEWEST + tuple(sys.version_info[:2])))
    if not argv or argv[0] in ("help", "-h", "--help"):
        sys.stdout.write(__doc__)
        return 0
    if argv[0] not in COMMANDS:
        return "There is no command '%s': use one of %s." % (argv[0], ", ".join(COMMANDS))
    try:
        set_up()
    except OSError as error:
        return explain(str(error))
    except KeyboardInterrupt:
        return "Stopped: run this again to go on."
    arguments, folder = COMMANDS[argv[0]]
    os.chdir(folder)
    command = [PYTHON] + arguments + argv[1:]
    if os.name != "nt":
        return os.execve(PYTHON, command, environment())  # this process becomes the command
    child = subprocess.Popen(command, env=environment())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the child's to answer
    return child.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
