"""The first look: what is installed and under which terms, training held against the CPU, the check for other chips.

Installs the compilers of the targets that were asked for. Exit status: 0 when the loss curves agree and every target
takes the program, 1 when not, 2 when something could not be started.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import torchport
from torchport.check.compiler import plugin_file
from torchport.check.targets import TargetError, target

HERE = Path(__file__).parent
TARGETS = "tpu:v6e,tpu:v5e,tpu:7x,cuda:h100"
# What is good to know before the download; afterwards the package's own metadata says it.
TERMS = {
    "libtpu": "Google Cloud Platform Terms of Service, not open source, 204 MB. To go without: make run TARGETS=cuda:h100",
    "jax-cuda13-pjrt": "Apache-2.0, 135 MB",
}
# Packages whose metadata is silent; their projects say it.
SILENT = {"xla-cpu-pjrt": "Apache-2.0 (openxla.org)"}
out = Console(soft_wrap=True, highlight=False)


def package_of(platform: str) -> str:
    """The package that brings a platform's compiler, as the device's file names it."""
    row = next(p for p in torchport.platforms() if p["name"] == platform)
    return row["install"].split()[-1]


def terms(package: str) -> str:
    """What the package's metadata says of its licence."""
    data = importlib.metadata.metadata(package)
    said = data.get("License-Expression") or (data.get("License") or "").splitlines()
    if not said:
        said = [c.rpartition("::")[2].strip() for c in data.get_all("Classifier") or [] if c.startswith("License")]
    text = said if isinstance(said, str) else ", ".join(said[:1])
    return text or SILENT.get(package, "not said in its metadata")


def install(platforms: list[str]) -> list[str] | None:
    """Brings the compilers that are missing, their terms first; the packages in use, or None when pip failed."""
    packages = []
    for platform in platforms:
        if plugin_file(platform) is None and platform in ("tpu", "cuda"):  # the others need more than a package
            package = package_of(platform)
            out.print(f"installing {package}, the compiler for {platform}: {TERMS[package]}", markup=False)
            pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", package]
            if subprocess.run(pip, check=False).returncode != 0:
                message = f"[run] must get {package} from the package index, got an error. Try: make run TARGETS=..."
                print(message, file=sys.stderr)
                return None
        if platform in ("tpu", "cuda"):
            packages.append(package_of(platform))
    return packages


def show_terms(compilers: list[str]) -> None:
    """What is used and under which terms: TorchPort, its direct requirements and the compilers."""
    needed = importlib.metadata.requires("torchport") or []
    direct = [re.match(r"[\w.-]+", line)[0] for line in needed if "extra ==" not in line]
    table = Table("package", "version", "terms", title="In use (TorchPort ships none of the others)")
    for package in dict.fromkeys(["torchport", *direct, *compilers]):
        try:
            table.add_row(package, importlib.metadata.version(package), terms(package))
        except importlib.metadata.PackageNotFoundError:  # a plugin given by path
            table.add_row(package, "-", "not installed as a package")
    out.print(table)


def run(title: str, command: list[str]) -> int:
    """One part of the look in a process of its own; its exit status."""
    out.rule(title, align="left")
    started = time.perf_counter()
    status = subprocess.run([sys.executable, *command], check=False).returncode
    out.print(f"{title}: {time.perf_counter() - started:.0f} s, exit status {status}", markup=False)
    return status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=TARGETS, help="comma-separated (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder of the results (default: %(default)s)")
    options = parser.parse_args()
    started = time.perf_counter()
    try:
        targets = [target(name) for name in options.targets.split(",") if name.strip()]
    except TargetError as error:
        parser.error(str(error))
    if not targets:
        parser.error(f"--targets must name at least one target, such as {TARGETS}, got none")
    compilers = install(list(dict.fromkeys(t.chip.platform for t in targets)))
    if compilers is None:
        return 2
    show_terms(compilers)
    options.out.mkdir(parents=True, exist_ok=True)
    page, record = options.out / "check.html", options.out / "check.json"
    kept = options.out / "reference"
    trained = run(
        "training on tpu (emulated) held against cpu",
        [str(HERE / "train.py"), "--out", str(options.out), "--keep", str(kept)],
    )
    names = [word for t in targets for word in ("--target", t.name)]
    checked = run(
        f"the GPT checked for {', '.join(t.name for t in targets)}",
        [
            "-m",
            "torchport.cli",
            "check",
            *names,
            "--html",
            str(page),
            "--json",
            str(record),
            str(HERE / "train_gpt.py"),
        ],
    )
    verdict = {0: "agrees with the CPU", 1: "DOES NOT AGREE with the CPU"}.get(trained, "could not start")
    passed = {0: "no target refuses it", 1: "a target REFUSES it or the script failed"}.get(checked, "could not start")
    out.print(f"\ntraining {verdict}; check: {passed}; {time.perf_counter() - started:.0f} s in all")
    out.print(f"see {page}, {record}, {options.out / 'train.png'}, {options.out / 'train.json'}", markup=False)
    return max(trained, checked) if trained >= 0 and checked >= 0 else 2


if __name__ == "__main__":
    sys.exit(main())
