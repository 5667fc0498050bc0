// Advanced indexing: index, index_put, take, put, masked_scatter.
#include "ops/index.h"

#include "ops/call.h"

namespace torchport::ops {

Body combine_add(Builder& b) {
  return [&b](const Values& v) { return Values{b.add(v[0], v[1])}; };
}
Body combine_mul(Builder& b) {
  return [&b](const Values& v) { return Values{b.mul(v[0], v[1])}; };
}
Body combine_max(Builder& b) {
  return [&b](const Values& v) { return Values{b.max(v[0], v[1])}; };
}
Body combine_min(Builder& b) {
  return [&b](const Values& v) { return Values{b.min(v[0], v[1])}; };
}

Dtype index_dtype(int64_t extent) { return extent < (int64_t{1} << 31) ? Dtype::i32 : Dtype::i64; }

Value checked_index(Builder& b, Args& a, const Value& index, int64_t size, bool negative, Code code) {
  const std::string range = str("index must be in [", negative ? -size : 0, ", ", size - 1, "]");
  if (index.numel() == 0) return b.convert(index, index_dtype(size));
  a.check(size > 0, code, str("must not index a dimension of size 0, got ", text(index.type()), " indices"));
  // Small types are widened before the comparison: the bound may not fit them.
  Value i = size_of(index.dtype()) < 4 || is_unsigned(index.dtype()) ? b.convert(index, Dtype::i64) : index;
  const int64_t low = negative ? -size : 0;
  auto bound = [&](int64_t v) { return b.constant_int(v, i.dtype()); };
  if (i.dtype() == Dtype::i32 && index_dtype(size) == Dtype::i64) i = b.convert(i, Dtype::i64);
  a.require(b.bit_and(b.ge(i, bound(low)), b.lt(i, bound(size))), code, range);
  if (negative) i = b.select(b.lt(i, bound(0)), b.add(i, bound(size)), i);
  return b.convert(i, index_dtype(size));
}

Value take_rows(Builder& b, const Value& x, int64_t dim, const Value& index) {
  Dims out = x.dims(), sizes = x.dims();
  out.erase(out.begin() + dim);
  out.insert(out.begin() + dim, index.dims().begin(), index.dims().end());
  if (numel(out) == 0) return b.zeros({x.dtype(), out});
  sizes[dim] = 1;
  GatherDims g;
  for (int64_t k = 0; k < static_cast<int64_t>(out.size()); ++k)
    if (k < dim || k >= dim + index.rank()) g.offset_dims.push_back(k);
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = index.rank();
  return b.gather(x, index, g, sizes);
}

Value put_rows(Builder& b, const Value& x, int64_t dim, const Value& index, const Value& rows, const Body& combine) {
  if (rows.numel() == 0 || x.numel() == 0) return x;
  ScatterDims s;
  for (int64_t k = 0; k < rows.rank(); ++k)
    if (k < dim || k >= dim + index.rank()) s.update_window_dims.push_back(k);
  s.inserted_window_dims = {dim};
  s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = index.rank();
  return b.scatter(x, index, rows, s, combine);
}

Value take_flat(Builder& b, const Value& flat, const Value& index) { return take_rows(b, flat, 0, index); }
Value put_flat(Builder& b, const Value& flat, const Value& index, const Value& values, const Body& combine) {
  return put_rows(b, flat, 0, index, values, combine);
}

namespace {

// The index tensors of x[...]: which dimensions they address, in one start per element of their common shape.
struct Place {
  Dims dims;         // indexed dimensions of x
  Dims shape;        // common shape of the indices
  int64_t at = 0;    // where that shape stands in the result
  Dims result;       // dims of x[...]
  Dims offset_dims;  // dims of the result that come from x
  Value starts;      // shape + [dims.size()]
};

Dims index_shape(Args& a, const Values& indices) {
  Dims shape;
  for (const Value& i : indices) {
    if (!i) continue;
    try {
      shape = broadcast(shape, i.dims(), a.where());
    } catch (const Error&) {
      a.fail(Code::index_out_of_range,
             str("index tensors must broadcast to one shape, got ", text(shape), " and ", text(i.dims())));
    }
  }
  return shape;
}

// How = checked: as x[...]; clamp: indices outside are moved to the nearest one inside.
enum class How { checked, clamp };

Place place_of(Builder& b, Args& a, const Value& x, const Values& indices, How how) {
  Place p;
  a.check(static_cast<int64_t>(indices.size()) <= x.rank(), Code::index_out_of_range,
          str("must get at most ", x.rank(), " indices for ", text(x.type()), ", got ", indices.size()));
  p.shape = index_shape(a, indices);
  for (size_t k = 0; k < indices.size(); ++k)
    if (indices[k]) p.dims.push_back(static_cast<int64_t>(k));
  if (p.dims.empty()) {
    p.result = x.dims();
    return p;
  }
  const bool adjacent = p.dims.back() - p.dims.front() + 1 == static_cast<int64_t>(p.dims.size());
  p.at = adjacent ? p.dims.front() : 0;
  for (int64_t d = 0, next = 0; d < x.rank(); ++d) {
    if (next < static_cast<int64_t>(p.dims.size()) && p.dims[next] == d)
      ++next;
    else
      p.result.push_back(x.dim(d));
  }
  p.result.insert(p.result.begin() + p.at, p.shape.begin(), p.shape.end());
  const int64_t end = p.at + static_cast<int64_t>(p.shape.size());
  for (int64_t k = 0; k < static_cast<int64_t>(p.result.size()); ++k)
    if (k < p.at || k >= end) p.offset_dims.push_back(k);

  Values parts;
  Dtype wide = Dtype::i32;
  for (int64_t d : p.dims) {
    const Value& i = indices[d];
    a.check(is_int(i.dtype()), Code::index_out_of_range, str("indices must be integers, got ", text(i.type())));
    const int64_t n = x.dim(d);
    Value v;
    if (how == How::clamp && n > 0) {
      v = b.convert(i, Dtype::i64);
      v = b.clamp(b.constant_int(-n, Dtype::i64), v, b.constant_int(n - 1, Dtype::i64));
      v = b.convert(b.select(b.compare(Cmp::lt, v, 0), b.add(v, static_cast<double>(n)), v), index_dtype(n));
    } else {
      v = checked_index(b, a, i, n, true);
    }
    if (v.dtype() == Dtype::i64) wide = Dtype::i64;
    parts.push_back(v);
  }
  for (Value& v : parts)
    v = b.unsqueeze(b.broadcast_to(b.convert(v, wide), p.shape), static_cast<int64_t>(p.shape.size()));
  p.starts = b.concatenate(parts, static_cast<int64_t>(p.shape.size()));
  return p;
}

Value read(Builder& b, const Value& x, const Place& p) {
  if (p.dims.empty()) return x;
  if (numel(p.result) == 0) return b.zeros({x.dtype(), p.result});
  Dims sizes = x.dims();
  for (int64_t d : p.dims) sizes[d] = 1;
  GatherDims g;
  g.offset_dims = p.offset_dims;
  g.collapsed_slice_dims = p.dims;
  g.start_index_map = p.dims;
  g.index_vector_dim = static_cast<int64_t>(p.shape.size());
  return b.gather(x, p.starts, g, sizes);
}

Value write(Builder& b, Args& a, const Value& x, const Place& p, Value values, bool accumulate) {
  a.check(values.dtype() == x.dtype(), Code::dtype_mismatch,
          str("values must be of self's dtype, got ", name(values.dtype()), " and ", name(x.dtype())));
  Dims fitted = values.dims();
  while (fitted.size() > p.result.size() && fitted.front() == 1) fitted.erase(fitted.begin());
  bool fits = fitted.size() <= p.result.size();
  for (size_t k = 0; fits && k < fitted.size(); ++k) {
    const int64_t have = fitted[fitted.size() - 1 - k], want = p.result[p.result.size() - 1 - k];
    fits = have == want || have == 1;
  }
  a.check(fits, Code::shape_mismatch,
          str("values must broadcast to the indexed shape ", text(p.result), ", got ", text(values.dims())));
  values = b.broadcast_to(b.reshape(values, fitted), p.result);
  if (p.dims.empty()) return accumulate ? b.add(x, values) : values;
  if (values.numel() == 0 || x.numel() == 0) return x;
  ScatterDims s;
  s.update_window_dims = p.offset_dims;
  s.inserted_window_dims = p.dims;
  s.scatter_dims_to_operand_dims = p.dims;
  s.index_vector_dim = static_cast<int64_t>(p.shape.size());
  return b.scatter(x, p.starts, values, s, accumulate ? combine_add(b) : nullptr);  // sums in x's type, as the CPU does
}

}  // namespace

OP("index.Tensor _unsafe_index.Tensor") {
  const Value x = a.tensor("self");
  return read(b, x, place_of(b, a, x, a.tensors("indices"), How::checked));
}
OP("index_put _index_put_impl _unsafe_index_put") {
  const Value x = a.tensor("self");
  return write(b, a, x, place_of(b, a, x, a.tensors("indices"), How::checked), a.tensor("values"),
               a.flag("accumulate", false));
}
OP("_unsafe_masked_index") {
  const Value x = a.tensor("self"), mask = a.tensor("mask"), fill = a.number("fill", x.dtype());
  const Place p = place_of(b, a, x, a.tensors("indices"), How::clamp);
  return b.select(mask, read(b, x, p), fill);
}
OP("_unsafe_masked_index_put_accumulate") {
  const Value x = a.tensor("self"), values = a.tensor("values");
  if (x.numel() == 0) return x;
  return write(b, a, x, place_of(b, a, x, a.tensors("indices"), How::clamp),
               b.select(a.tensor("mask"), values, b.like(values, 0)), true);
}

OP("take", .out = kOwnMemory) {
  const Value x = a.tensor("self"), index = a.tensor("index");
  return take_flat(b, b.flatten(x), checked_index(b, a, index, x.numel(), true));
}
OP("put") {
  const Value x = a.tensor("self"), index = a.tensor("index"), source = a.tensor("source");
  a.check(index.numel() == source.numel(), Code::shape_mismatch,
          str("source must have as many elements as index, got ", text(source.type()), " and ", text(index.type())));
  a.check(source.dtype() == x.dtype(), Code::dtype_mismatch,
          str("source must be of self's dtype, got ", name(source.dtype()), " and ", name(x.dtype())));
  const bool accumulate = a.flag("accumulate", false);
  const Dtype d = accumulate ? sum_dtype(x.dtype()) : x.dtype();
  const Value at = b.flatten(checked_index(b, a, index, x.numel(), true));
  const Value flat =
      put_flat(b, b.flatten(b.cast(x, d)), at, b.flatten(b.cast(source, d)), accumulate ? combine_add(b) : nullptr);
  return b.cast(b.reshape(flat, x.dims()), x.dtype());
}

// The rank of each true element among the true ones, flat.
static Value order_of(Builder& b, Args& a, const Value& mask) {
  const Value ones = b.convert(b.flatten(mask), index_dtype(mask.numel()));
  const Value count =
      call1(b, a, "cumsum", {{"self", ones}, {"dim", graph::Attr{int64_t{0}}}, {"dtype", graph::Attr{ones.dtype()}}});
  return b.sub(count, 1);
}
static Value count_of(Builder& b, const Value& mask) {
  return b.reduce(Reduce::add, b.convert(b.flatten(mask), index_dtype(mask.numel())), {0});
}

OP("masked_scatter") {
  Value x = a.tensor("self"), mask = a.tensor("mask");
  const Value source = a.tensor("source");
  a.check(x.dtype() == source.dtype(), Code::dtype_mismatch,
          str("source must be of self's dtype, got ", name(source.dtype()), " and ", name(x.dtype())));
  a.check(is_bool(mask.dtype()), Code::dtype_mismatch, str("mask must be bool, got ", name(mask.dtype())));
  const Dims dims = broadcast(x.dims(), mask.dims(), a.where());
  x = b.broadcast_to(x, dims), mask = b.broadcast_to(mask, dims);
  if (x.numel() == 0) return x;
  const Value count = count_of(b, mask);
  a.require(b.le(count, b.constant_int(std::min<int64_t>(source.numel(), mask.numel()), count.dtype())),
            Code::bad_value, str("source must have as many elements as mask has true ones, got ", source.numel()));
  if (source.numel() == 0) return x;
  const Value at = b.min(b.max(order_of(b, a, mask), 0), static_cast<double>(source.numel() - 1));
  return b.select(mask, b.reshape(take_flat(b, b.flatten(source), at), dims), x);
}
OP("masked_scatter_backward") {
  const Value grad = a.tensor("grad_output");
  const Dims sizes = a.ints("sizes");
  const Value mask = b.broadcast_to(a.tensor("mask"), grad.dims()), zeros = b.zeros({grad.dtype(), {numel(sizes)}});
  if (grad.numel() == 0 || numel(sizes) == 0) return b.reshape(zeros, sizes);
  const Value order = order_of(b, a, mask);
  const Value at =
      b.select(b.flatten(mask), order, b.constant_int(numel(sizes), order.dtype()));  // beyond the end: dropped
  return b.reshape(put_flat(b, zeros, at, b.flatten(grad), nullptr), sizes);
}

}  // namespace torchport::ops
