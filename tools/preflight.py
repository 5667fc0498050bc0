"""Say what this machine lacks before anything is installed: Python 3.11, a C++20 compiler, disk space.

Runs under whatever `python3` there is, so the syntax stays old. `--pip-failed` prints what to do when pip has failed.
"""

import os
import shutil
import subprocess
import sys
import sysconfig

FREE_GB = 6


def refuse(where, must, got, hint):
    """One line in the form of all the project's errors."""
    return f"[{where}] must {must}, got {got}. Try: {hint}"


def check_python():
    version = "{}.{}.{}".format(*sys.version_info[:3])
    if sys.version_info[:2] != (3, 11):
        hint = "install Python 3.11, or name one: make setup PYTHON=/path/to/python3.11"
        return refuse("python", "be Python 3.11", f"{version} ({sys.executable})", hint)
    header = os.path.join(sysconfig.get_path("include"), "Python.h")
    if not os.path.exists(header):
        return refuse("python", "have its C headers", "no " + header, "apt-get install python3.11-dev")
    try:
        import venv  # noqa: F401
    except ImportError:
        return refuse("python", "have the venv module", "none in " + version, "apt-get install python3.11-venv")
    return None


def check_platform():
    if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
        return refuse("platform", "be 64-bit Linux", sys.platform, "a Linux machine, container or WSL")
    return None


def check_compiler():
    compiler = os.environ.get("CXX") or "g++"
    hint = "apt-get install g++-12, or name one: CXX=g++-12 make setup"
    command = compiler.split() + ["-std=c++20", "-dM", "-E", "-x", "c++", "/dev/null"]
    try:
        out = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return refuse("compiler", "be g++ 12 or newer (or clang 15)", "no " + compiler, hint)
    macros = dict(line.split(" ", 2)[1:] for line in out.stdout.splitlines() if line.count(" ") >= 2)
    clang = int(macros.get("__clang_major__", 0))
    gnu = 0 if clang else int(macros.get("__GNUC__", 0))
    if gnu >= 12 or clang >= 15:
        return None
    found = f"clang {clang}" if clang else f"g++ {gnu}" if gnu else "a compiler without C++20"
    return refuse("compiler", "be g++ 12 or newer (or clang 15)", f"{found} ({compiler})", hint)


def check_disk():
    free = shutil.disk_usage(os.getcwd()).free / 1e9
    if free >= FREE_GB:
        return None
    return refuse("disk", f"have {FREE_GB} GB free", f"{free:.1f} GB in {os.getcwd()}", "free some")


def main():
    if "--pip-failed" in sys.argv:
        hint = "read pip's words above, check `pip config list` and the network, then run make setup again"
        print(refuse("pip", "install the packages that pyproject.toml names", "an error", hint), file=sys.stderr)
        return 1
    problems = [p for p in (check_python(), check_platform(), check_compiler(), check_disk()) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
