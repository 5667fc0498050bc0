"""Every lowering of the registry is run by at least one line of cases.py, or by the test that is named here."""

import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from torch.profiler import ProfilerActivity, profile

import target
from conformance import modes
from ops.cases import CASES

# Ops that no line can reach: base name, and the test file under tests/ that runs it.
ELSEWHERE: dict[str, str] = {}


def base(name: str) -> str:
    """Name of an op without namespace, overload and the mark of the in-place form."""
    stem = name.removeprefix("aten::").partition(".")[0]
    return stem if stem.startswith("_fused") else stem.removesuffix("_")


def reached() -> set[str]:
    """Base names of the ops that run on the device when the first sample of every line does."""
    with profile(activities=[ProfilerActivity.CPU]) as events, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in CASES:
            dtype = case.dtypes[0]
            for mode in set(case.modes(dtype)) - {"strided"}:
                for sample in case.samples(dtype, "strided" if mode == "forward" else mode)[:1]:
                    with suppress(AssertionError):  # whether they agree is what test_cases.py asks
                        modes.MODES[mode](case.op, sample, dtype, target.DEVICE)
    return {base(event.name()) for event in events.profiler.kineto_results.events() if "aten::" in event.name()}


@pytest.mark.port
@pytest.mark.coverage
def test_every_lowering_is_reached():
    import torchport

    ran = reached()
    missed = {base(row["name"]) for row in torchport.ops()} - ran - ELSEWHERE.keys()
    assert sorted(missed) == [], "these lowerings have no line in cases.py that runs them"


def test_the_tests_named_instead_exist_and_name_the_op():
    root = Path(__file__).resolve().parents[1]
    for name, file in ELSEWHERE.items():
        assert name.strip("_") in (root / file).read_text(), f"{file} does not mention {name}"
