// Distinct values and counts of values: the sizes of the results depend on the data. Sorting, ranks and counts run on
// the device; one number, the size, is read back.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor none_like(const at::Tensor& self) { return at::empty({0}, self.options().dtype(at::kLong)); }

// Along the last dimension: true where an element differs from the one before it, and at the first.
at::Tensor changes(const at::Tensor& x) {
  const int64_t n = x.size(-1);
  const at::Tensor first = at::ones_like(x.narrow(-1, 0, 1), at::kBool);
  return at::cat({first, x.narrow(-1, 1, n - 1).ne(x.narrow(-1, 0, n - 1))}, -1);
}

// Group number of each element when `fresh` (a vector) marks the first element of each group.
struct Groups {
  at::Tensor number;  // i64 [n]
  at::Tensor first;   // i64 [groups]: position of each group's first element
  int64_t size = 0;   // elements
};
Groups groups_of(const at::Tensor& fresh) {
  Groups g;
  g.size = fresh.size(0);
  g.number = fresh.cumsum(0).sub(1);
  g.first = fresh.nonzero().select(1, 0);
  return g;
}
at::Tensor counts_of(const Groups& g) {
  return at::diff(g.first, 1, 0, std::nullopt, at::full({1}, g.size, g.first.options()));
}
// values[order[i]] = source[i]
at::Tensor scattered(const at::Tensor& order, const at::Tensor& source) {
  return at::empty_like(source).scatter(0, order, source);
}

Three unique_flat(const at::Tensor& self, bool inverse, bool counts) {
  if (self.numel() == 0)
    return {at::empty({0}, self.options()), at::empty(self.sizes(), none_like(self).options()), none_like(self)};
  const auto [values, order] = at::sort(self.reshape(-1), /*stable=*/true, /*dim=*/0, /*descending=*/false);
  const Groups g = groups_of(changes(values));
  return {values.index_select(0, g.first), inverse ? scattered(order, g.number).reshape(self.sizes()) : none_like(self),
          counts ? counts_of(g) : none_like(self)};
}
Three unique2(const at::Tensor& self, bool, bool inverse, bool counts) {  // sorted, as on the CPU, whether asked or not
  return guarded([&] { return unique_flat(self, inverse, counts); });
}
std::tuple<at::Tensor, at::Tensor> unique1(const at::Tensor& self, bool, bool inverse) {
  return guarded([&] {
    const auto [values, places, counts] = unique_flat(self, inverse, false);
    return std::make_tuple(values, places);
  });
}

int64_t wrapped(const at::Tensor& self, int64_t dim, const char* where) {
  check(self.dim() > 0, Code::dim_out_of_range, where, "must get a tensor with dimensions, got a 0-d one");
  return wrap_dim(dim, self.dim(), where);
}
// The checks of the forms with a dim (which give inverse and counts whether asked or not, as on the CPU), and their
// answer where there is nothing to compare.
std::optional<Three> without_rows(const at::Tensor& self, int64_t dim, const char* where) {
  const int64_t zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
  if (self.size(dim) == 0) {
    check(
        zeros == 1, Code::bad_value, where,
        ::torchport::str("must get at most one dimension of size 0 (Number of zero sized dimensions is more than one, "
                         "so unique cannot be applied), got ",
                         text(self.sizes().vec())));
    return Three{at::empty(self.sizes(), self.options()), none_like(self), none_like(self)};
  }
  check(zeros == 0, Code::bad_value, where,
        ::torchport::str("must not get dimensions of size 0 other than dim ", dim,
                         " (There are 0 sized dimensions, and "
                         "they aren't selected, so unique cannot be applied), got ",
                         text(self.sizes().vec())));
  return std::nullopt;
}

// Slices of self along dim, laid out in memory one after the other as the CPU leaves them.
at::Tensor slices(const at::Tensor& self, int64_t dim, const at::Tensor& which) {
  return self.movedim(dim, 0).contiguous().index_select(0, which).movedim(0, dim);
}

// Ranks along the last dimension among the row's own distinct values, in order: equal values share one.
at::Tensor dense_ranks(const at::Tensor& x) {
  const auto [values, order] = at::sort(x, /*stable=*/true, /*dim=*/-1, /*descending=*/false);
  return at::empty_like(order).scatter(-1, order, changes(values).cumsum(-1).sub(1));
}

// Slices along dim in lexicographic order. Ranks of neighbouring elements join to ranks of pairs, and so on: as many
// rounds as the slices' length has binary digits.
Three unique_dim(const at::Tensor& self, int64_t dim, bool, bool, bool) {
  return guarded([&]() -> Three {
    dim = wrapped(self, dim, "unique_dim");
    if (auto early = without_rows(self, dim, "unique_dim")) return *early;
    const int64_t n = self.size(dim);
    at::Tensor ranks = dense_ranks(self.movedim(dim, -1).reshape({-1, n}));  // [length of a slice, n]
    while (ranks.size(0) > 1) {
      const int64_t pairs = ranks.size(0) / 2;
      const at::Tensor both = ranks.narrow(0, 0, pairs * 2).reshape({pairs, 2, n});
      at::Tensor joined = both.select(1, 0).mul(n).add(both.select(1, 1));
      if (ranks.size(0) % 2) joined = at::cat({joined, ranks.narrow(0, pairs * 2, 1)}, 0);
      ranks = dense_ranks(joined);
    }
    const auto [values, order] = at::sort(ranks[0], /*stable=*/true, /*dim=*/0, /*descending=*/false);
    const Groups g = groups_of(changes(values));
    return {slices(self, dim, order.index_select(0, g.first)), ranks[0], counts_of(g)};
  });
}

Three unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool, bool) {
  return guarded([&]() -> Three {
    dim = wrapped(self, dim, "unique_dim_consecutive");
    if (auto early = without_rows(self, dim, "unique_dim_consecutive")) return *early;
    const at::Tensor fresh = changes(self.movedim(dim, -1).reshape({-1, self.size(dim)})).any(0);
    const Groups g = groups_of(fresh);
    return {slices(self, dim, g.first), g.number, counts_of(g)};
  });
}
Three unique_consecutive(const at::Tensor& self, bool inverse, bool counts, std::optional<int64_t> dim) {
  return guarded([&]() -> Three {
    if (dim && (self.dim() != 1 || *dim != 0)) return unique_dim_consecutive(self, *dim, inverse, counts);
    if (self.numel() == 0)
      return {at::empty({0}, self.options()),
              at::empty(inverse ? self.sizes() : at::IntArrayRef{0}, none_like(self).options()), none_like(self)};
    const at::Tensor flat = self.reshape(-1);
    const Groups g = groups_of(changes(flat));
    return {flat.index_select(0, g.first), inverse ? g.number.reshape(self.sizes()) : none_like(self),
            counts ? counts_of(g) : none_like(self)};
  });
}

// How often each number stands in a vector, or the sum of its weights.
at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights, c10::SymInt least) {
  return guarded([&]() -> at::Tensor {
    const std::string where = "bincount";
    const int64_t minimum = least.expect_int();
    check(minimum >= 0, Code::bad_value, where, ::torchport::str("minlength must not be negative, got ", minimum));
    check(
        self.dim() == 1 && c10::isIntegralType(self.scalar_type(), false), Code::bad_value, where,
        ::torchport::str("must get a vector of non-negative integers (bincount only supports 1-d non-negative integral "
                         "inputs), got ",
                         c10::toString(self.scalar_type()), text(self.sizes().vec())));
    if (self.numel() == 0) return at::zeros({minimum}, self.options().dtype(at::kLong));
    const bool weighted = weights && weights->defined();
    check(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)), Code::bad_value, where,
          ::torchport::str("weights must be a vector of the input's length, ", self.size(0), ", got ",
                           weighted ? text(weights->sizes().vec()) : ""));
    const at::Tensor index = self.to(at::kLong);
    const at::Tensor ends = at::stack({index.min(), index.max()}).cpu();
    const int64_t low = ends[0].item<int64_t>(), high = ends[1].item<int64_t>();
    check(low >= 0, Code::bad_value, where, ::torchport::str("must get a vector of non-negative integers, got ", low));
    at::Tensor what = weighted ? *weights : at::ones({self.size(0)}, index.options());
    if (weighted && what.scalar_type() != at::kFloat) what = what.to(at::kDouble);
    return at::zeros({std::max(high + 1, minimum)}, what.options()).scatter_add(0, index, what);
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_unique", TORCH_FN(unique1));
  m.impl("_unique2", TORCH_FN(unique2));
  m.impl("unique_dim", TORCH_FN(unique_dim));
  m.impl("unique_consecutive", TORCH_FN(unique_consecutive));
  m.impl("unique_dim_consecutive", TORCH_FN(unique_dim_consecutive));
  m.impl("bincount", TORCH_FN(bincount));
}

}  // namespace torchport::aten
