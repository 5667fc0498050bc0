"""A target's compiler may do anything: each end is a result with its words."""

from __future__ import annotations

import pytest

from torchport.check import Job, compile_for, compile_many, compiler, process, target

ADD = """module @m { func.func public @main(%a: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %a, %a : tensor<8x8xf32>
  return %0 : tensor<8x8xf32> } }"""
S64_DOT = """module @m { func.func public @main(%a: tensor<8x8xi64>) -> tensor<8x8xi64> {
  %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0] :
    (tensor<8x8xi64>, tensor<8x8xi64>) -> tensor<8x8xi64>
  return %0 : tensor<8x8xi64> } }"""


@pytest.mark.parametrize(
    ("how", "outcome", "words"),
    [
        ("compile", "compiled", ""),
        ("abort", "aborted", "SIGABRT: F0000 00:00 compiler.cc:41] Check failed: devices == 16 (4 vs. 16)"),
        ("killed", "killed", "SIGKILL"),
        ("too large", "too_large", "exceeds (31.24G)"),
        ("no plugin", "no_plugin", "pip install libtpu"),
    ],
)
def test_every_end_is_a_result(fake, how: str, outcome: str, words: str) -> None:
    fake(how)
    result = compile_for("tpu:v6e", ADD)
    assert (result.outcome, result.ok) == (outcome, how == "compile")
    assert words in result.words


def test_a_hang_ends_at_the_limit(fake) -> None:
    fake("hang")
    result = compile_for("tpu:v6e", ADD, timeout_s=1.5)
    assert result.outcome == "timed_out" and "no answer in 2 s" in result.words


def test_a_long_compilation_says_that_it_goes_on(fake, monkeypatch) -> None:
    fake("hang")
    monkeypatch.setattr(process, "SAY_S", 0.3)
    lines: list[str] = []
    compile_many([Job(target("tpu:v6e"), ADD)], timeout_s=1.5, progress=lines.append)
    assert len(lines) >= 3
    assert all(line.startswith("tpu:v6e:2x2: still compiling, ") for line in lines[:-1])
    assert lines[-1].startswith("tpu:v6e:2x2: timed_out")


def test_a_hungry_compiler_ends_at_the_limit(fake) -> None:
    fake("eat")
    result = compile_for("tpu:v6e", ADD, timeout_s=30, memory_bytes=200 << 20)
    assert result.outcome == "host_memory" and result.host_peak_bytes > 200 << 20


def test_the_worker_starts_again_after_a_failure(fake) -> None:
    fake("abort")
    wanted = target("tpu:v6e")
    assert [r.outcome for r in compile_many([Job(wanted, ADD), Job(wanted, S64_DOT)])] == ["aborted"] * 2


def test_results_are_kept_by_program_and_target(fake) -> None:
    fake("compile")
    assert not compile_for("tpu:v6e", ADD).cached
    fake("abort")  # would fail if it were asked
    again = compile_for("tpu:v6e", ADD)
    assert again.cached and again.ok and again.memory is not None and again.memory.total == 6100
    assert compile_for("tpu:v5e", ADD).outcome == "aborted"
    fake("compile")
    assert not compile_for("tpu:v5e", ADD).cached  # an abort is of the moment: not kept


def test_a_broken_cache_entry_is_compiled_again(fake) -> None:
    fake("compile")
    compile_for("tpu:v6e", ADD)
    for path in compiler.cache_folder().iterdir():
        path.write_text("{")
    assert not compile_for("tpu:v6e", ADD).cached


def test_trainium_has_no_compiler() -> None:
    assert compile_for("trn:trn2", ADD).outcome == "no_compiler"


@pytest.mark.skipif(
    compiler.plugin_file("tpu") is None, reason="libtpu is not installed: its terms are the user's choice"
)
def test_the_tpu_compiler_refuses_in_its_own_words() -> None:
    good, bad = compile_many([Job(target("tpu:v6e"), ADD), Job(target("tpu:v6e"), S64_DOT)])
    assert good.ok and good.cost is not None and good.cost.optimal_seconds is not None
    assert good.memory is not None and good.memory.arguments == 4096  # one tile of 8x128
    assert bad.outcome == "refused" and "X{64|128}" in bad.words
