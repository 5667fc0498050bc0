"""Differential fuzzing: random programs on the CPU and on the device, which must not differ.

python tests/fuzz/run.py                           10,000 programs in two processes (`make fuzz`)
python tests/fuzz/run.py --programs 500 --seed 7

Each batch runs in a process of its own, so that a crash costs one batch and names its program. A difference is shrunk
and printed as a script.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

BATCH = 250
BATCH_SECONDS = 1800


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=10_000, help=f"how many, in batches of {BATCH}")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the first batch; the others count on from it")
    parser.add_argument("--out", type=Path, help="file that receives every difference")
    parser.add_argument("--batch", type=Path, help=argparse.SUPPRESS)  # internal: run one batch, keep each program here
    args = parser.parse_args()
    if args.programs < 1 or args.jobs < 1:
        parser.error("[--programs, --jobs] must be at least 1")
    return args


def batch(count: int, seed: int, last: Path) -> int:
    """Runs one batch in this process; writes each program to `last` before the device sees it."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, settings

    import target
    from fuzz.program import Difference, check, programs, script
    from fuzz.regressions import ignored

    warnings.simplefilter("ignore")

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(programs())
    def differ(program) -> None:
        last.write_text(script(program, target.DEVICE))
        check(program, target.DEVICE, ignored())

    try:
        differ()
    except Difference as difference:
        print(difference)
        return 1
    return 0


def spawn(count: int, seed: int, folder: str) -> str:
    """Runs one batch in a process; what it found, "" for nothing."""
    last = Path(folder) / f"{seed}.py"
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        __file__,
        "--programs",
        str(count),
        "--seed",
        str(seed),
        "--batch",
        str(last),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=BATCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"seed {seed}: no end after {BATCH_SECONDS} s, at\n{last.read_text()}"
    if done.returncode == 1 and done.stdout:
        return f"seed {seed}: {done.stdout}"
    if done.returncode:
        at = last.read_text() if last.exists() else "(before the first program)"
        return f"seed {seed}: the process ended with {done.returncode}\n{done.stderr[-3000:]}\nat\n{at}"
    return ""


def main() -> int:
    args = arguments()
    if args.batch:
        return batch(args.programs, args.seed, args.batch)
    sizes = [BATCH] * (args.programs // BATCH) + ([args.programs % BATCH] if args.programs % BATCH else [])
    began, done, found = time.monotonic(), 0, []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        running = {pool.submit(spawn, size, args.seed + i, folder): size for i, size in enumerate(sizes)}
        for future in as_completed(running):
            done += running[future]
            if text := future.result():
                found.append(text)
                print(f"\n{text}\n", flush=True)
            spent = time.monotonic() - began
            left = spent / done * (args.programs - done)
            print(
                f"{done}/{args.programs} programs, {len(found)} batches differ, {spent:.0f} s, {left:.0f} s left",
                file=sys.stderr,
            )
    if args.out:
        args.out.write_text("\n\n".join(found))
    print(f"fuzz: {args.programs} programs, {len(found)} of {len(sizes)} batches with a difference")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
