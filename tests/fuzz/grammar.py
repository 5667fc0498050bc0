"""The operations of a program: templates of one statement each, and how their places are filled.

A template is Python with places in braces. {x}, {y}, {w}, {m} are tensors of the program (one that the condition
allows; one that broadcasts with x; one in other memory than x; a boolean one of x's shape); every other place is
drawn by the function of that name in PLACES, which is given the tensor x as it is on the CPU. To add an operation, add
a line to its row of RULES.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch

from fuzz.conditions import anything, bounded, castable, dims, floating, inexact, integral, plain, real, whole


@dataclass(frozen=True)
class Rule:
    """Operations of one kind.

    makes: the number of results that become variables. condition: what the tensors must satisfy. continuous: a small
    error of the operands makes a small error of the result, so operands may carry rounding errors. rounds: floating
    results carry rounding errors. weight: how often the kind is drawn.
    """

    kind: str
    table: str
    makes: int = 1
    condition: Callable[..., bool] = anything
    continuous: bool = True
    rounds: bool = False
    weight: int = 1

    @cached_property
    def templates(self) -> list[str]:
        """The statements of the table, one a line; a line that stands twice is drawn twice as often."""
        return [line.strip() for line in self.table.strip().splitlines()]


RULES = [
    Rule(
        "view",
        """
        {x}.transpose({dim}, {dim})
        {x}.permute({order})
        {x}[{slices}]
        {x}[{slices}]
        {x}.select({dim}, {place})
        {x}.unsqueeze({dim_new})
        {x}.squeeze()
        {x}.squeeze({dim})
        {x}.expand({wider})
        {x}.view({factors})
        {x}.reshape({factors})
        {x}.flatten()
        {x}.narrow({run})
        {x}.diagonal({offset})
        {x}.unfold({windows})
        {x}.as_strided({window})
        {x}.as_strided({window})
        {x}.unbind({dim})[-1]
        {x}.chunk(2, {dim})[0]
        {x}.swapaxes({dim}, {dim})
        {x}.view_as({x})
        {x}.detach()
        {x}.T
        """,
        weight=4,
    ),
    Rule(
        "view dtype",
        """
        {x}.view(torch.{dtype})
        """,
        continuous=False,
    ),
    Rule(
        "view complex",
        """
        {x}.real
        {x}.imag
        torch.view_as_real({x})
        {x}.conj()
        """,
        condition=lambda *t: t[0].is_complex(),
    ),
    Rule(
        "copy",
        """
        {x}.clone()
        {x}.contiguous()
        {x}.clone(memory_format=torch.contiguous_format)
        torch.empty_like({x}).copy_({x})
        torch.cat([{x}, {y}], {dim})
        torch.stack([{x}, {x}], {dim})
        {x}.flip({dim})
        {x}.roll(1, {dim})
        {x}.repeat_interleave(2)
        {x}.tril()
        torch.where({m}, {x}, {y})
        """,
        weight=2,
    ),
    Rule(
        "cast",
        """
        {x}.to(torch.{dtype_signed})
        """,
        condition=castable,
        continuous=False,
    ),
    Rule(
        "widen",
        """
        {x}.double()
        {x}.to(torch.complex64)
        """,
    ),
    Rule(
        "pointwise",
        """
        {x} + {y}
        {x} - {y}
        {x} * {y}
        {x} + {scalar}
        {scalar} - {x}
        {x} * {scalar}
        -{x}
        {x}.abs()
        torch.add({x}, {y}, alpha={scalar})
        torch.where({m}, {x}, {scalar})
        {x}.square()
        """,
        condition=plain,
        weight=3,
    ),
    Rule(
        "order",
        """
        torch.maximum({x}, {y})
        torch.minimum({x}, {y})
        {x}.clamp({scalar}, {scalar})
        {x}.clamp(min={scalar})
        {x}.relu()
        torch.fmax({x}, {y})
        {x}.clamp_min({scalar})
        """,
        condition=real,
    ),
    Rule(
        "step",
        """
        {x} == {y}
        {x} < {y}
        {x} >= {scalar}
        {x}.sign()
        {x}.floor()
        {x}.isnan()
        {x}.logical_and({y})
        {x}.trunc()
        {x}.signbit()
        {x}.nan_to_num()
        """,
        condition=real,
        continuous=False,
    ),
    Rule(
        "integer",
        """
        {x} // {divisor}
        {x} % {divisor}
        {x} << 1
        {x} >> 2
        torch.fmod({x}, {divisor})
        ~{x}
        {x} ^ {y}
        """,
        condition=whole,
        continuous=False,
    ),
    Rule(
        "bits",
        """
        {x} & {y}
        {x} | {y}
        ~{x}
        {x}.logical_not()
        """,
        condition=integral,
        continuous=False,
    ),
    Rule(
        "smooth",
        """
        {x}.sigmoid()
        {x}.tanh()
        {x} / {scalar_not_0}
        torch.true_divide({x}, {divisor})
        {x}.cos()
        """,
        condition=bounded,
        rounds=True,
    ),
    Rule(
        "reduce",
        """
        {x}.sum()
        {x}.sum({dim})
        {x}.sum({dim}, keepdim=True)
        {x}.mean({dim})
        {x}.prod({dim})
        {x}.cumsum({dim})
        {x}.sum({dim}, dtype=torch.float64)
        torch.linalg.vector_norm({x})
        """,
        condition=plain,
        rounds=True,
        weight=2,
    ),
    Rule(
        "select",
        """
        {x}.amax({dim})
        {x}.amin({dim}, keepdim=True)
        {x}.argmax({dim})
        {x}.any({dim})
        {x}.all()
        {x}.count_nonzero()
        {x}.argmin()
        """,
        condition=dims(0, real),
        continuous=False,
    ),
    Rule(
        "pairs",
        """
        {x}.max({dim})
        {x}.min({dim}, keepdim=True)
        {x}.sort({dim}, stable=True)
        {x}.cummax({dim})
        """,
        makes=2,
        condition=dims(1, real),
        continuous=False,
    ),
    Rule(
        "matmul",
        """
        {x} @ {x}.mT
        {x} @ {square}
        torch.outer({x}.flatten(), {x}.flatten())
        """,
        condition=dims(2, inexact),
        rounds=True,
    ),
    Rule(
        "index",
        """
        {x}[{index}]
        {x}[{m}]
        {x}.index_select({chosen})
        {x}.gather({gathered})
        {x}[..., {index}]
        {x}.take({index_flat})
        {x}[{index}, ..., None]
        {x}.masked_select({m})
        """,
        condition=dims(1),
        weight=2,
    ),
    Rule(
        "write",
        """
        {x}.add_({y})
        {x}.mul_({y})
        {x}.sub_({scalar})
        {x}.mul_({scalar})
        {x}.fill_({scalar})
        {x}.zero_()
        {x}[{slices}] = {scalar}
        {x}[{slices}] += {scalar}
        {x}.neg_()
        {x}.masked_fill_({m}, {scalar})
        {x}.transpose_({dim}, {dim})
        {x}.squeeze_()
        {x}.unsqueeze_({dim_new})
        {x}.t_()
        {x}.diagonal().fill_({scalar})
        {x}.resize_({resized})
        {x}.set_({y})
        {x}.swapdims_({dim}, {dim})
        """,
        condition=plain,
        makes=0,
        weight=5,
    ),
    Rule(
        "write copy",
        """
        {x}.copy_({y})
        {x}[{slices}] = {y}
        {x}[{m}] = {y}
        {x}[{slices}].copy_({y})
        """,
        makes=0,
        condition=castable,
        continuous=False,
        weight=2,
    ),
    Rule(
        "write index",
        """
        {x}[{index}] = {scalar}
        {x}[{m}] = {scalar}
        {x}.index_fill_({chosen}, {scalar})
        {x}.index_add_({index_add})
        {x}.scatter_({gathered}, {scalar})
        {x}.scatter_add_({scatter_add})
        {x}.index_put_(({index},), {zero_d}, True)
        {x}.index_copy_({index_copy})
        """,
        makes=0,
        condition=dims(1),
        weight=2,
    ),
    Rule(
        "write step",
        """
        {x}.floor_()
        {x}.clamp_({scalar}, {scalar})
        {x}.eq_({y})
        {x}.sign_()
        {x}.logical_not_()
        """,
        makes=0,
        condition=real,
        continuous=False,
    ),
    Rule(
        "write smooth",
        """
        {x}.div_({divisor})
        {x}.sigmoid_()
        {x}.addcmul_({y}, {y})
        """,
        makes=0,
        condition=bounded,
        rounds=True,
    ),
    Rule(
        "out",
        """
        torch.add({x}, {y}, out={w})
        torch.mul({x}, {y}, out={w})
        torch.neg({x}, out={w})
        torch.cat([{x}, {x}], 0, out={w})
        torch.where({m}, {x}, {x}, out={w})
        torch.add({x}, {scalar}, out={x})
        """,
        condition=plain,
        makes=0,
        weight=3,
    ),
    Rule(
        "out rounds",
        """
        torch.sum({x}, {dim}, out={w})
        torch.cumsum({x}, {dim}, out={w})
        torch.matmul({x}, {x}.mT, out={w})
        """,
        makes=0,
        condition=lambda *t: plain(*t) and all(u.dtype is not torch.bool for u in t),
        rounds=True,
    ),
    Rule(
        "out step",
        """
        torch.eq({x}, {y}, out={w})
        torch.abs({x}, out={w})
        torch.maximum({x}, {y}, out={w})
        """,
        makes=0,
        condition=real,
        continuous=False,
    ),
    Rule(
        "write lerp",
        """
        {x}.lerp_({y}, 0.25)
        """,
        makes=0,
        condition=lambda *t: bounded(*t) and floating(*t),
        rounds=True,
    ),
    Rule(
        "write scan",
        """
        {x}.cumsum_({dim})
        """,
        makes=0,
        condition=lambda *t: bounded(*t) and all(u.dtype is not torch.bool for u in t),
        rounds=True,
    ),
    Rule(
        "grad",
        """
        {x}.requires_grad_()
        {x}.detach_()
        {x}.retain_grad()
        """,
        makes=0,
        condition=inexact,
        weight=2,
    ),
    Rule(
        "no grad",
        """
        with torch.no_grad(): {x}.mul_(2)
        with torch.no_grad(): {x}[{slices}] = 1
        {x}.data.add_(1)
        """,
        condition=plain,
        makes=0,
    ),
    Rule(
        "backward",
        """
        {x}.real.sum().backward(retain_graph=True)
        torch.autograd.backward({x}.sum().abs(), retain_graph=True)
        """,
        makes=0,
        condition=inexact,
        rounds=True,
        weight=2,
    ),
]
