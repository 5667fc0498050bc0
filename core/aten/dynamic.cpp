#include "aten/dynamic.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

// Positions of the true elements of a flat mask, in order: a stable sort brings them to the front, the count cuts them
// off.
at::Tensor true_positions(const at::Tensor& mask) {
  const at::Tensor flat = mask.ne(0).reshape(-1);
  const int64_t count = flat.sum().item<int64_t>();
  const at::Tensor order = std::get<1>(at::sort(flat.to(at::kByte), /*stable=*/true, /*dim=*/0, /*descending=*/true));
  return order.narrow(0, 0, count);
}

at::Tensor find_nonzero(const at::Tensor& self) {
  if (self.numel() == 0) return at::empty({0, self.dim()}, self.options().dtype(at::kLong));
  const at::Tensor flat = true_positions(self);
  if (self.dim() == 0) return at::empty({flat.size(0), 0}, flat.options());
  std::vector<at::Tensor> columns(self.dim());
  at::Tensor rest = flat;
  for (int64_t d = self.dim(); d-- > 0;) {
    columns[d] = d == 0 ? rest : at::remainder(rest, self.size(d));
    if (d > 0) rest = at::div(rest, self.size(d), "floor");
  }
  return at::stack(columns, 1);
}
at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  store_out(out, find_nonzero(self), "nonzero");
  return out;
}

at::Tensor select_masked(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "[masked_select] must get a mask of dtype bool (masked_select: expected BoolTensor for mask), got ",
              mask.scalar_type(), " (", tag(Code::dtype_mismatch), ")");
  auto [m, s] = at::expand_outplace(mask, self);
  return s->reshape(-1).index_select(0, true_positions(*m));
}
at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  at::assert_no_overlap(out, self), at::assert_no_overlap(out, mask);
  store_out(out, select_masked(self, mask), "masked_select");
  return out;
}

// How often each index stands in the result: index k is the number of running totals at or below its position.
at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  const std::string where = "repeat_interleave";
  check(repeats.dim() == 1, Code::bad_value, where,
        torchport::str("must get a vector of repeats, got ", repeats.dim(), " dimensions"));
  check(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt, Code::bad_value, where,
        torchport::str("repeats must be int32 or int64, got ", c10::toString(repeats.scalar_type())));
  if (repeats.numel() == 0) return at::empty({0}, repeats.options());
  check(repeats.min().item<int64_t>() >= 0, Code::bad_value, where,
        "repeats must not be negative (repeats can not be negative)");
  const at::Tensor totals = repeats.cumsum(0);
  const int64_t size = output_size ? output_size->expect_int() : totals.select(0, -1).item<int64_t>();
  const at::Tensor positions = at::arange(size, totals.options());
  return at::searchsorted(totals, positions, /*out_int32=*/false, /*right=*/true).to(repeats.scalar_type());
}

bool is_mask(const at::Tensor& index) { return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte; }

}  // namespace

bool is_one_mask(at::ArrayRef<c10::IValue> indices) {
  int masks = 0, others = 0;
  for (const c10::IValue& i : indices)
    if (!i.isNone() && i.toTensor().defined()) ++(is_mask(i.toTensor()) ? masks : others);
  return masks == 1 && others == 0;
}

c10::IValue expand_masks(const at::Tensor& self, at::ArrayRef<c10::IValue> indices) {
  c10::List<std::optional<at::Tensor>> out;
  int64_t dim = 0;
  for (const c10::IValue& v : indices) {
    if (v.isNone() || !v.toTensor().defined()) {
      out.push_back(std::nullopt);
      ++dim;
      continue;
    }
    at::Tensor t = v.toTensor();
    if (t.device() != self.device()) {
      check(t.device().is_cpu(), Code::device_mismatch, "index",
            ::torchport::str("indices must be on the CPU or on ", self.device().str(), ", got ", t.device().str()));
      t = t.to(self.device());
    }
    if (is_mask(t)) {
      for (int64_t j = 0; j < t.dim(); ++j)
        check(dim + j < self.dim() && t.size(j) == self.size(dim + j), Code::index_out_of_range, "index",
              ::torchport::str("the shape of the mask ", text(t.sizes().vec()), " at index ", j,
                               " must match the shape of the indexed tensor ", text(self.sizes().vec()), " at index ",
                               dim + j));
      const at::Tensor positions = find_nonzero(t);
      for (int64_t j = 0; j < t.dim(); ++j) out.push_back(positions.select(1, j));
      dim += t.dim();
    } else {
      out.push_back(t);
      ++dim;
    }
  }
  return out;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", TORCH_FN(find_nonzero));
  m.impl("nonzero.out", TORCH_FN(nonzero_out));
  m.impl("masked_select", TORCH_FN(select_masked));
  m.impl("masked_select.out", TORCH_FN(masked_select_out));
  m.impl("repeat_interleave.Tensor", TORCH_FN(repeat_interleave));
}

}  // namespace torchport::aten
