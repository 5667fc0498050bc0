// Triangles and diagonals: tril, triu, their indices, diag_embed, diagonal_scatter, eye.
#include "ops/call.h"
#include "ops/index.h"

namespace torchport::ops {

namespace {

// column - row of every element of the last two dimensions, for comparison with a diagonal's number.
Value column_minus_row(Builder& b, int64_t rows, int64_t cols) {
  const Type t{Dtype::i32, {rows, cols}};
  return b.sub(b.iota(t, 1), b.iota(t, 0));
}
int64_t bounded(int64_t diagonal) { return std::clamp<int64_t>(diagonal, -2147483648LL, 2147483647LL); }

Value triangle(Builder& b, Args& a, Cmp keep) {
  const Value x = a.tensor("self");
  a.check(x.rank() >= 2, Code::bad_value, str("self must have at least 2 dimensions, got ", text(x.type())));
  const Value kept =
      b.compare(keep, column_minus_row(b, x.dim(-2), x.dim(-1)), static_cast<double>(bounded(a.i("diagonal", 0))));
  return b.select(kept, x, b.constant(0, x.dtype()));
}

// The diagonal of a rows x cols matrix starts at this row.
int64_t first_row(int64_t offset) { return std::max<int64_t>(-offset, 0); }
int64_t diagonal_size(int64_t rows, int64_t cols, int64_t offset) {
  return std::max<int64_t>(0, offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols));
}

// background[..., rows, cols] with values[..., n] on a diagonal of its last two dimensions.
Value put_diagonal(Builder& b, const Value& background, const Value& values, int64_t offset) {
  const int64_t rows = background.dim(-2), cols = background.dim(-1), low = first_row(offset), n = values.dim(-1);
  if (n == 0 || background.numel() == 0) return background;
  Dims pad_low(values.rank(), 0), pad_high(values.rank(), 0), mapping;
  pad_low.back() = low, pad_high.back() = rows - low - n;
  const Value by_row = b.pad(values, b.constant(0, values.dtype()), pad_low, pad_high);
  for (int64_t k = 0; k + 1 < background.rank(); ++k) mapping.push_back(k);
  const Value spread = b.broadcast_in_dim(by_row, background.dims(), mapping);
  return b.select(b.compare(Cmp::eq, column_minus_row(b, rows, cols), static_cast<double>(offset)), spread, background);
}

// dim1 and dim2 moved to the end, and back.
Dims to_end(int64_t rank, int64_t dim1, int64_t dim2) {
  Dims perm;
  for (int64_t k = 0; k < rank; ++k)
    if (k != dim1 && k != dim2) perm.push_back(k);
  perm.push_back(dim1);
  perm.push_back(dim2);
  return perm;
}
Dims inverse(const Dims& perm) {
  Dims out(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) out[perm[k]] = static_cast<int64_t>(k);
  return out;
}
Value put_diagonal(Builder& b, Args& a, const Value& background, const Value& values) {
  const int64_t dim1 = a.dim("dim1", background), dim2 = a.dim("dim2", background), offset = a.i("offset");
  a.check(dim1 != dim2, Code::bad_value, str("dim1 and dim2 must be different, got ", dim1, " twice"));
  const Dims perm = to_end(background.rank(), dim1, dim2);
  const Value front = b.transpose(background, perm);
  Dims want = front.dims();
  want.pop_back();
  want.back() = diagonal_size(front.dim(-2), front.dim(-1), offset);
  a.check(values.dims() == want, Code::shape_mismatch,
          str("the diagonal must be of shape ", text(want), ", got ", text(values.dims())));
  return b.transpose(put_diagonal(b, front, values, offset), inverse(perm));
}

// Coordinates of a triangle's elements, row by row. Row r takes count(r) elements from column first(r) on.
template <class First, class Count>
Value triangle_indices(Builder& b, Args& a, First first, Count count) {
  const int64_t rows = a.i("row"), cols = a.i("col");
  a.check(rows >= 0 && cols >= 0, Code::bad_value, str("row and col must not be negative, got ", rows, " and ", cols));
  const Dtype out = a.dtype("dtype", Dtype::i64);
  std::vector<int64_t> starts, shift;
  int64_t total = 0;
  for (int64_t r = 0; r < rows; ++r) {
    starts.push_back(total);
    shift.push_back(first(r) - total);
    total += count(r, cols);
  }
  if (total == 0) return b.zeros({out, {2, 0}});
  // An element's row is the number of row starts at or before it, less one.
  const Dtype d = index_dtype(total);
  const Value marks =
      put_flat(b, b.constant(0, d, {total}), b.constants(starts, d), b.constant(1, d, {rows}), combine_add(b));
  const Value row =
      b.sub(call1(b, a, "cumsum", {{"self", marks}, {"dim", graph::Attr{int64_t{0}}}, {"dtype", graph::Attr{d}}}), 1);
  const Value col = b.add(b.iota({d, {total}}, 0), take_flat(b, b.constants(shift, d), row));
  return b.convert(b.concatenate({b.unsqueeze(row, 0), b.unsqueeze(col, 0)}, 0), out);
}

}  // namespace

OP("tril") { return triangle(b, a, Cmp::le); }
OP("triu") { return triangle(b, a, Cmp::ge); }
OP("tril_indices") {
  const int64_t offset = a.i("offset");
  return triangle_indices(
      b, a, [](int64_t) { return int64_t{0}; },
      [&](int64_t r, int64_t cols) { return std::clamp<int64_t>(r + offset + 1, 0, cols); });
}
OP("triu_indices") {
  const int64_t offset = a.i("offset");
  auto first = [&](int64_t r) { return std::max<int64_t>(r + offset, 0); };
  return triangle_indices(b, a, first, [&](int64_t r, int64_t cols) { return std::max<int64_t>(cols - first(r), 0); });
}

OP("diag_embed") {
  const Value x = a.tensor("self");
  a.check(x.rank() >= 1, Code::dim_out_of_range, str("self must have at least 1 dimension, got ", text(x.type())));
  const int64_t rank = x.rank() + 1, offset = a.i("offset");
  const int64_t dim1 = wrap_dim(a.i("dim1"), rank, a.where()), dim2 = wrap_dim(a.i("dim2"), rank, a.where());
  a.check(dim1 != dim2, Code::bad_value, str("dim1 and dim2 must be different, got ", dim1, " twice"));
  Dims dims = x.dims();
  dims.back() += std::abs(offset);
  dims.push_back(dims.back());
  return b.transpose(put_diagonal(b, b.zeros({x.dtype(), dims}), x, offset), inverse(to_end(rank, dim1, dim2)));
}
OP("diagonal_scatter") {
  const Value x = a.tensor("self"), src = a.tensor("src");
  return put_diagonal(b, a, x, b.cast(src, x.dtype()));
}
OP("diagonal_backward") {
  const Value grad = a.tensor("grad_output");
  return put_diagonal(b, a, b.zeros({grad.dtype(), a.ints("input_sizes")}), grad);
}
OP("eye eye.m") {
  const int64_t n = a.i("n"), m = a.find_attr("m") ? a.i("m") : n;
  a.check(n >= 0 && m >= 0, Code::bad_value, str("n and m must not be negative, got ", n, " and ", m));
  return b.cast(b.compare(Cmp::eq, column_minus_row(b, n, m), 0), a.dtype("dtype", a.default_dtype()));
}

}  // namespace torchport::ops
