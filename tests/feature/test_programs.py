"""The number of compiled programs that a process keeps is bounded (TORCHPORT_PROGRAMS)."""

import os
import subprocess
import sys

import target

SCRIPT = f"""
import torch
import torchport

def maps():
    return sum(1 for _ in open("/proc/self/maps"))

ones = lambda n: torch.ones(n, device="{target.DEVICE}")
total = lambda n: (ones(n) * 2 + 1).sum().item()
for n in range(1, 41):
    assert total(n) == 3 * n
before = maps()
for n in range(41, 241):
    assert total(n) == 3 * n
grown = maps() - before
compiled = torchport.report()["programs_compiled"]
assert total(1) == 3  # long gone: compiled again
again = torchport.report()["programs_compiled"] - compiled
assert total(1) == 3
print(grown, again, torchport.report()["programs_compiled"] - compiled)
"""


def run(limit: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"TORCHPORT_PROGRAMS": limit}
    return subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)


def test_mappings_stay_bounded_and_evicted_programs_come_back():
    bounded, unbounded = run("100"), run("4096")
    assert bounded.returncode == 0, bounded.stderr
    grown, again, later = map(int, bounded.stdout.split())
    free, kept, _ = map(int, unbounded.stdout.split())
    assert grown < free / 4, f"{grown} mappings more with at most 100 programs, {free} with 4096"
    assert kept == 0
    assert 0 < again == later


def test_a_limit_that_is_no_number_is_an_error():
    got = run("many")
    assert got.returncode != 0
    assert "TORCHPORT_PROGRAMS" in got.stderr
    assert "must be an integer in [16, 1048576], got 'many'" in got.stderr
