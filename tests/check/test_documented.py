"""Programs that a documentation names as refused are found, others are not."""

from __future__ import annotations

import pytest

from torchport.check.documented import refusals, rules
from torchport.check.targets import target

DOT = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
CONV = (
    '%4 = "stablehlo.convolution"(%0, %3) <{{window_strides = array<i64: {s}>, padding = dense<0> : tensor<2x2xi64>, '
)
CONV += "lhs_dilation = array<i64: {i}>, rhs_dilation = array<i64: {k}>}}> : (tensor<1x2x8x8xf32>)"


def dot(kind: str) -> str:
    t = f"tensor<8x8x{kind}>"
    return f'%2 = "stablehlo.dot_general"(%0, %0) <{{{DOT}}}> : ({t}, {t}) -> {t}'


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (dot("f32"), []),
        (dot("bf16"), []),
        (dot("i8"), []),
        (dot("i64"), ["NCC_EVRF035"]),
        (dot("complex<f32>"), ["NCC_EVRF004"]),
        ('%5 = "stablehlo.triangular_solve"(%4, %3) : ()', ["NCC_EVRF001"]),
        (CONV.format(s="1, 1", i="1, 1", k="1, 1"), []),
        (CONV.format(s="2, 2", i="1, 1", k="2, 2"), []),
        (CONV.format(s="1, 1", i="1, 2", k="2, 1"), ["NCC_EVRF010"]),
        (CONV.format(s="2, 2", i="2, 2", k="1, 1"), ["NCC_EVRF011"]),
        ('%5 = "stablehlo.shift_right_arithmetic"(%0, %4) : (tensor<8xi64>, tensor<8xi64>)', ["NCC_EVRF022"]),
        ('%5 = "stablehlo.shift_right_arithmetic"(%0, %4) : (tensor<8xi32>, tensor<8xi32>)', []),
        ("}) : (tensor<64xi64>, tensor<64x1xi64>, tensor<64xi64>) -> tensor<64xi64>", ["NCC_EVRF060"]),
        ("}) : (tensor<64xf32>, tensor<64x1xi64>, tensor<64xf32>) -> tensor<64xf32>", []),
        ("}) : (tensor<64xi64>, tensor<i64>) -> tensor<i64>", []),  # a sum
        ("tensor<8x8xf8E4M3FN>", ["NCC_EVRF051"]),
    ],
)
def test_what_trainium2_refuses(text: str, codes: list[str]) -> None:
    found = refusals(target("trn:trn2"), [("an op", "script.py:3", text)])
    assert [refusal.rule.code for refusal in found] == codes
    assert all(refusal.names == ("an op",) and refusal.lines == ("script.py:3",) for refusal in found)


def test_rules_are_for_their_chips_alone() -> None:
    program = [("an op", "", "tensor<8x8xf8E4M3FN>")]
    assert refusals(target("trn:trn3"), program) == []
    assert refusals(target("tpu:v6e"), program) == []


def test_the_page_is_named_with_its_date() -> None:
    assert rules().source.date.isoformat() == "2026-07-14"
    assert len({rule.code for rule in rules().rule}) == len(rules().rule)
