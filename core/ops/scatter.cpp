// gather and scatter (an index for every element) and the index_* ops (an index for every row along one dimension).
#include "ops/call.h"
#include "ops/index.h"

namespace torchport::ops {

namespace {

// Scalars count as one-element vectors in these ops.
Value at_least_1d(Builder& b, const Value& x) { return x.rank() ? x : b.reshape(x, {1}); }

// Flat position in `dims` of each element of `index`: its own position in every dimension but dim, where index says it.
Value flat_positions(Builder& b, const Dims& dims, int64_t dim, const Value& index) {
  const Dtype d = index_dtype(numel(dims));
  const Dims strides = contiguous_strides(dims);
  Value at = b.mul(b.convert(index, d), b.constant_int(strides[dim], d));
  for (int64_t k = 0; k < index.rank(); ++k)
    if (k != dim && index.dim(k) > 1)
      at = b.add(at, b.mul(b.iota({d, index.dims()}, k), b.constant_int(strides[k], d)));
  return at;
}

struct Along {  // the common frame of gather and scatter
  Value x, index;
  int64_t dim;
};

Along along(Builder& b, Args& a) {
  Along r{at_least_1d(b, a.tensor("self")), at_least_1d(b, a.tensor("index")), 0};
  r.dim = a.dim("dim", r.x);
  a.check(r.index.dtype() == Dtype::i64 || r.index.dtype() == Dtype::i32 || r.index.numel() == 0, Code::bad_value,
          str("index must be int32 or int64, got ", text(r.index.type())));
  if (r.index.numel() == 0) return r;
  a.check(r.index.rank() == r.x.rank(), Code::shape_mismatch,
          str("index must have self's rank, got ", text(r.index.type()), " and ", text(r.x.type())));
  for (int64_t k = 0; k < r.x.rank(); ++k)
    a.check(k == r.dim || r.index.dim(k) <= r.x.dim(k), Code::shape_mismatch,
            str("index must be no larger than self apart from dimension ", r.dim, ", got ", text(r.index.dims()),
                " and ", text(r.x.dims())));
  r.index = checked_index(b, a, r.index, r.x.dim(r.dim), false, Code::bad_value);
  return r;
}

// The part of src that index covers.
Value covered(Builder& b, Args& a, Value src, const Value& index) {
  src = at_least_1d(b, src);
  a.check(src.rank() == index.rank(), Code::shape_mismatch,
          str("src must have index's rank, got ", text(src.type()), " and ", text(index.type())));
  for (int64_t k = 0; k < index.rank(); ++k)
    a.check(index.dim(k) <= src.dim(k), Code::shape_mismatch,
            str("index must be no larger than src, got ", text(index.dims()), " and ", text(src.dims())));
  return b.slice(src, Dims(index.rank(), 0), index.dims());
}
void same_dtype(Args& a, const Value& x, const Value& src) {
  a.check(src.dtype() == x.dtype(), Code::dtype_mismatch,
          str("src must be of self's dtype, got ", name(src.dtype()), " and ", name(x.dtype())));
}

// Where to write: elements at flat positions, or rows along a dimension.
using Put = std::function<Value(const Value& x, const Value& updates, const Body& combine)>;

// reduce: sum, prod, mean, amax, amin over what goes to one place (and what is there, with include_self).
Value reduce_into(Builder& b, Args& a, const Value& self, const Value& src, std::string kind, bool include_self,
                  const Put& put) {
  const Dtype d = kind == "amax" || kind == "amin" ? self.dtype() : sum_dtype(self.dtype());
  Value x = b.cast(self, d);
  const Value updates = b.cast(src, d);
  Body combine;
  Value identity;
  if (kind == "sum" || kind == "add" || kind == "mean")
    combine = combine_add(b), identity = b.constant(0, d);
  else if (kind == "prod" || kind == "multiply")
    combine = combine_mul(b), identity = b.constant(1, d);
  else if (kind == "amax")
    combine = combine_max(b), identity = b.lowest(d);
  else if (kind == "amin")
    combine = combine_min(b), identity = b.highest(d);
  else
    a.fail(Code::bad_value, str("reduce must be sum, prod, mean, amax or amin, got ", kind));
  if (!include_self) x = put(x, b.full(identity, updates.dims()), nullptr);
  x = put(x, updates, combine);
  if (kind == "mean") {
    const Value ones = b.constant(1, d, updates.dims());
    const Value count = b.max(b.real(put(b.constant(include_self ? 1 : 0, d, x.dims()), ones, combine_add(b))), 1);
    if (is_int(d)) {  // floor division
      const Value q = b.div(x, count), r = b.rem(x, count);
      x = is_unsigned(d) ? q : b.select(b.compare(Cmp::lt, r, 0), b.sub(q, 1), q);
    } else {
      x = b.div(x, b.cast(count, d));
    }
  }
  return b.cast(x, self.dtype());
}

}  // namespace

OP("gather", .out = kOwnDtype | kOwnMemory) {
  const bool scalar = a.tensor("index").rank() == 0;
  const Along g = along(b, a);
  if (g.index.numel() == 0) return b.zeros({g.x.dtype(), a.tensor("index").dims()});
  const Value out = take_flat(b, b.flatten(g.x), flat_positions(b, g.x.dims(), g.dim, g.index));
  return scalar ? b.reshape(out, {}) : out;
}

static Value scatter(Builder& b, Args& a, const std::function<Value(const Along&)>& updates_of, const std::string& kind,
                     bool include_self) {
  const Value self = a.tensor("self");
  const Along s = along(b, a);
  if (s.index.numel() == 0) return self;
  const Value updates = updates_of(s), at = b.flatten(flat_positions(b, s.x.dims(), s.dim, s.index));
  const Put put = [&](const Value& x, const Value& u, const Body& combine) {
    return b.reshape(put_flat(b, b.flatten(x), at, b.flatten(u), combine), x.dims());
  };
  const Value out =
      kind.empty() ? put(s.x, updates, nullptr) : reduce_into(b, a, s.x, updates, kind, include_self, put);
  return b.reshape(out, self.dims());
}
static Value scatter_src(Builder& b, Args& a, const std::string& kind, bool include_self = true) {
  same_dtype(a, a.tensor("self"), a.tensor("src"));
  return scatter(b, a, [&](const Along& s) { return covered(b, a, a.tensor("src"), s.index); }, kind, include_self);
}
static Value scatter_value(Builder& b, Args& a, const std::string& kind) {
  return scatter(
      b, a, [&](const Along& s) { return b.full(a.number("value", s.x.dtype()), s.index.dims()); }, kind, true);
}
static std::string old_reduce(Args& a) {
  const std::string kind = a.text("reduce");
  a.check(kind == "add" || kind == "multiply", Code::bad_value, str("reduce must be add or multiply, got ", kind));
  return kind;
}
static std::string new_reduce(Args& a) {
  const std::string kind = a.text("reduce");
  for (const char* known : {"sum", "prod", "mean", "amax", "amin"})
    if (kind == known) return kind;
  a.fail(Code::bad_value, str("reduce must be sum, prod, mean, amax or amin, got ", kind));
}

OP("scatter.src") { return scatter_src(b, a, ""); }
OP("scatter.value") { return scatter_value(b, a, ""); }
OP("scatter.reduce") { return scatter_src(b, a, old_reduce(a)); }
OP("scatter.value_reduce") { return scatter_value(b, a, old_reduce(a)); }
OP("scatter_add") { return scatter_src(b, a, "add"); }
OP("scatter_reduce.two") { return scatter_src(b, a, new_reduce(a), a.flag("include_self", true)); }

// ---- one index a row

namespace {
struct Rows {
  Value x, index;
  int64_t dim;
};
// kinds: what CPU PyTorch raises when an index lies outside.
Rows rows(Builder& b, Args& a, bool negative, Code outside) {
  Rows r{at_least_1d(b, a.tensor("self")), at_least_1d(b, a.tensor("index")), 0};
  r.dim = a.dim("dim", r.x);
  a.check(r.index.rank() == 1, Code::index_out_of_range, str("index must be a vector, got ", text(r.index.type())));
  a.check(r.index.dtype() == Dtype::i64 || r.index.dtype() == Dtype::i32, Code::bad_value,
          str("index must be int32 or int64, got ", text(r.index.type())));
  r.index = checked_index(b, a, r.index, r.x.dim(r.dim), negative, outside);
  return r;
}
// source with a row for each index: x's dims but for dim.
Value source_of(Builder& b, Args& a, const Rows& r, Code mismatch) {
  const Value source = at_least_1d(b, a.tensor("source"));
  same_dtype(a, r.x, source);
  a.check(source.rank() == r.x.rank(), mismatch,
          str("source must have self's rank, got ", text(source.type()), " and ", text(r.x.type())));
  for (int64_t k = 0; k < r.x.rank(); ++k)
    a.check(source.dim(k) == (k == r.dim ? r.index.dim(0) : r.x.dim(k)), k == r.dim ? mismatch : Code::shape_mismatch,
            str("source must have self's shape with ", r.index.dim(0), " rows along dimension ", r.dim, ", got ",
                text(source.dims()), " and ", text(r.x.dims())));
  return source;
}
Value finish(Builder& b, Args& a, const Value& out) { return b.reshape(out, a.tensor("self").dims()); }
}  // namespace

OP("index_select") {
  const Value self = a.tensor("self");
  const Rows r = rows(b, a, false, Code::index_out_of_range);
  a.check(self.rank() > 0 || r.index.dim(0) == 1, Code::index_out_of_range,
          str("index must have one element for a 0-d tensor, got ", r.index.dim(0)));
  const Value out = take_rows(b, r.x, r.dim, r.index);
  return self.rank() ? out : b.reshape(out, {});
}
OP("index_add") {
  // PyTorch's two kernels differ: the one for vectors raises IndexError.
  const Rows r = rows(b, a, false, a.tensor("self").rank() <= 1 ? Code::index_out_of_range : Code::bad_value);
  Value source = source_of(b, a, r, Code::bad_value);
  const Dtype d = sum_dtype(r.x.dtype());
  source = b.cast(source, d);
  if (!a.is("alpha", 1)) source = b.mul(source, a.number("alpha", d));
  return finish(b, a, b.cast(put_rows(b, b.cast(r.x, d), r.dim, r.index, source, combine_add(b)), r.x.dtype()));
}
OP("index_copy") {
  const Rows r = rows(b, a, false, Code::index_out_of_range);
  return finish(b, a, put_rows(b, r.x, r.dim, r.index, source_of(b, a, r, Code::index_out_of_range), nullptr));
}
OP("index_fill.int_Scalar index_fill.int_Tensor") {
  const Rows r = rows(b, a, true, Code::index_out_of_range);
  const graph::Attr* given = a.find_attr("value");
  if (std::holds_alternative<graph::Ref>(*given)) {
    const Value v = a.tensor("value");
    a.check(v.rank() == 0, Code::bad_value, str("value must be 0-d, got ", text(v.type())));
  }
  Dims dims = r.x.dims();
  dims[r.dim] = r.index.dim(0);
  return finish(b, a, put_rows(b, r.x, r.dim, r.index, b.full(a.number("value", r.x.dtype()), dims), nullptr));
}
OP("index_reduce") {
  const Rows r = rows(b, a, false, Code::index_out_of_range);
  const std::string kind = a.text("reduce");
  a.check(kind == "prod" || kind == "mean" || kind == "amax" || kind == "amin", Code::bad_value,
          str("reduce must be prod, mean, amax or amin, got ", kind));
  const Put put = [&](const Value& x, const Value& u, const Body& combine) {
    return put_rows(b, x, r.dim, r.index, u, combine);
  };
  return finish(b, a,
                reduce_into(b, a, r.x, source_of(b, a, r, Code::bad_value), kind, a.flag("include_self", true), put));
}

}  // namespace torchport::ops
