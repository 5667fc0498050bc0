"""Random programs agree with the CPU: 300 of them, always the same; and every program that once did not."""

import warnings

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import target
from fuzz.program import Difference, Program, check, programs, replay
from fuzz.regressions import Regression, ignored, regressions


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@settings(
    max_examples=300,
    derandomize=True,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(program=programs())
def test_random_programs(program: Program):
    check(program, target.DEVICE, ignored())


def parameters() -> list:
    """A test a program; the open ones must fail."""
    marks = {entry.name: [pytest.mark.xfail(reason=entry.open, strict=True)] for entry in regressions() if entry.open}
    return [pytest.param(entry, id=entry.name, marks=marks.get(entry.name, [])) for entry in regressions()]


@pytest.mark.parametrize("entry", parameters())
def test_regression(entry: Regression):
    check(replay(entry.program, entry.rounded), target.DEVICE)


BASE = "t0 = make('ramp', (3, 4), torch.float32, device)\n"


@pytest.mark.parametrize(
    "here,there,said",
    [
        ("t1 = t0 * 2", "t1 = t0 * 3", "Tensor-likes are not equal"),
        ("t1 = t0.view(12)", "t1 = t0.clone().view(12)", "share memory"),
        ("t1 = t0.clone().T", "t1 = t0.T.contiguous()", "strides"),
        ("t1 = t0[1:].clone()", "t1 = t0[1:].double()", "dtype"),
        ("t0.requires_grad_()", "pass", "requires_grad"),
        ("t0.add_(1)", "t0.add_(1); raise TypeError", "raises TypeError"),
        ("t0.squeeze(9)", "t0.squeeze(1)", "wants IndexError"),
    ],
)
def test_a_difference_is_seen(here: str, there: str, said: str):
    """Replays another statement than ran on the CPU: the comparison must notice, and print a script that compiles."""
    program = replay(BASE + here)
    last = program.statements[-1]
    program.statements[-1] = type(last)(there, last.raises)
    with pytest.raises(Difference, match=said) as caught:
        check(program, target.DEVICE)
    text = str(caught.value)
    compile(text[text.index("import torch") :], "script", "exec")
