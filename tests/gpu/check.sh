#!/bin/sh
# Does the kit work on this machine's GPU, and how fast is that? Needs no network, no Jupyter, no installed kit: a Python
# with CuPy, NumPy, ml_dtypes, psutil, filelock and pytest.
#   OUT=folder   where recording.json is written (the current folder)   PYTHON=python3   the Python that has CuPy
# Ends after 8 minutes at most, with 0 where every test passed, every operation was recorded and every run lies under
# its roof, with 2 where there is no GPU to use.
OUT=$(cd "${OUT:-.}" && pwd) || exit 2
PYTHON=${PYTHON:-python3}
cd "$(dirname "$0")/../.." || exit 2
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ROOFLINE_KIT_CACHE=$(mktemp -d) || exit 2
export ROOFLINE_KIT_CACHE
trap 'rm -rf "$ROOFLINE_KIT_CACHE"' EXIT

part() {                                        # part SECONDS ARGUMENTS..: Python, ended in time, its exit code kept
    seconds=$1
    shift
    timeout --signal=INT --kill-after=5 "$seconds" "$PYTHON" "$@"
    code=$?
    [ $code -ge 124 ] && echo "check: not done after $seconds s: $*" >&2
    [ $code -eq 0 ] || failed=1
    return $code
}

failed=0
part 30 -c '
import sys, roofline_kit as rk
try:
    print(rk.device("gpu"))
except Exception as error:
    sys.exit(f"check: {error}")' || exit 2
part 230 -m pytest tests/gpu -q -p no:cacheprovider -c pyproject.toml
part 190 -m roofline_kit record --out "$OUT/recording.json"
part 15 -m tests.gpu.look "$OUT/recording.json"
exit $failed
