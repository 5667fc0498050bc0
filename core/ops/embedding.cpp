// Embedding tables: lookup, bags, their gradients, renormalisation.
#include "ops/call.h"
#include "ops/index.h"

namespace torchport::ops {

namespace {

void check_indices(Args& a, const Value& indices) {
  a.check(indices.dtype() == Dtype::i64 || indices.dtype() == Dtype::i32, Code::bad_value,
          str("indices must be int32 or int64, got ", text(indices.type())));
}
Value ones_at(Builder& b, const Value& index, int64_t size, Dtype d) {  // how often each of 0..size-1 stands in index
  return put_flat(b, b.constant(0, d, {size}), index, b.constant(1, d, index.dims()), combine_add(b));
}
// Adds each row of `rows` to the table row that index names; an index of num_weights is dropped (padding).
Value sum_rows(Builder& b, const Value& rows, const Value& index, int64_t num_weights, Dtype result) {
  const Value table = b.constant(0, rows.dtype(), {num_weights, rows.dim(-1)});
  return b.cast(put_rows(b, table, 0, index, rows, combine_add(b)), result);
}
// Index of every element that is not padding, the end of the table for padding.
Value skip_padding(Builder& b, const Value& index, int64_t padding_idx, int64_t end) {
  if (padding_idx < 0) return index;
  return b.select(b.eq(index, b.constant_int(padding_idx, index.dtype())), b.constant_int(end, index.dtype()), index);
}
Value unsqueeze_last(Builder& b, const Value& x) { return b.unsqueeze(x, x.rank()); }
Value over_frequency(Builder& b, const Value& rows, const Value& index, int64_t num_weights) {
  const Value counts = ones_at(b, index, num_weights, rows.dtype());
  return b.div(rows, unsqueeze_last(b, b.max(take_flat(b, counts, index), 1)));
}

}  // namespace

OP("embedding") {
  const Value weight = a.tensor("weight"), indices = a.tensor("indices");
  a.check(weight.rank() == 2, Code::bad_value, str("weight must be 2-d, got ", text(weight.type())));
  check_indices(a, indices);
  return take_rows(b, weight, 0, checked_index(b, a, indices, weight.dim(0), false));
}

OP("embedding_dense_backward") {
  const Value grad = a.tensor("grad_output"), indices = a.tensor("indices");
  check_indices(a, indices);
  const int64_t num = a.i("num_weights");
  const Dtype wide = sum_dtype(grad.dtype());
  Value index = b.flatten(b.convert(indices, index_dtype(num + 1)));
  Value rows = b.cast(b.reshape(grad, {index.numel(), grad.dim(-1)}), wide);
  if (a.flag("scale_grad_by_freq")) rows = over_frequency(b, rows, index, num);
  index = skip_padding(b, index, a.i("padding_idx"), num);
  return sum_rows(b, rows, index, num, grad.dtype());
}

OP("embedding_renorm", Promote::none, "norm_type!") {
  const Value weight = a.tensor("self"), indices = a.tensor("indices");
  check_indices(a, indices);
  a.check(weight.rank() == 2, Code::bad_value, str("self must be 2-d, got ", text(weight.type())));
  const Value index = b.flatten(checked_index(b, a, indices, weight.dim(0), false));
  const Dtype wide = opmath(weight.dtype());
  const Value rows = b.cast(take_rows(b, weight, 0, index), wide);
  const Value norm = call1(b, a, "linalg_vector_norm",
                           {{"self", rows},
                            {"ord", *a.find_attr("norm_type")},
                            {"dim", graph::Attr{Dims{1}}},
                            {"keepdim", graph::Attr{true}},
                            {"dtype", graph::Attr{}}});
  const Value limit = a.number("max_norm", wide);
  const Value scaled = b.mul(rows, b.div(limit, b.add(norm, 1e-7)));
  // A row that stands in indices twice is written twice with one value.
  return put_rows(b, weight, 0, index, b.cast(b.select(b.gt(norm, limit), scaled, rows), weight.dtype()), nullptr);
}

// ---- bags

namespace {

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// The bag of each index: how many offsets lie at or before it, less one.
Value bags_of(Builder& b, Args& a, const Value& offsets, int64_t count, Dtype result) {
  if (count == 0) return b.zeros({result, {0}});
  const Dtype d = index_dtype(count);
  const Value starts = put_flat(b, b.constant(0, d, {count}), b.convert(offsets, index_dtype(count)),
                                b.constant(1, d, offsets.dims()), combine_add(b));
  const Value bags =
      call1(b, a, "cumsum", {{"self", starts}, {"dim", graph::Attr{int64_t{0}}}, {"dtype", graph::Attr{d}}});
  return b.convert(b.sub(bags, 1), result);
}

Result bag(Builder& b, Args& a) {
  const Value weight = a.tensor("weight"), indices = a.tensor("indices"), offsets = a.tensor("offsets"),
              scales = a.tensor("per_sample_weights");
  check_indices(a, indices);
  check_indices(a, offsets);
  const int64_t mode = a.i("mode"), n = indices.numel(), width = weight.dim(1), padding = a.i("padding_idx", -1);
  const int64_t num_bags = offsets.dim(0) - (a.flag("include_last_offset", false) ? 1 : 0);
  a.check(num_bags >= 0, Code::bad_value, "offsets must have at least one entry with include_last_offset, got none");
  a.check(!scales || mode == kSum, Code::bad_value, "per_sample_weights must come with mode 'sum'");
  a.check(!scales || scales.numel() == n, Code::shape_mismatch,
          str("per_sample_weights must have one entry an index, got ", scales ? text(scales.type()) : "", " for ", n));
  if (offsets.dim(0) > 0) {
    auto at = [&](int64_t k) { return b.slice_dim(offsets, 0, k, k + 1); };
    a.require(b.compare(Cmp::eq, at(0), 0), Code::bad_value,
              "offsets[0] must be 0: the first sequence starts at the front of indices");
    a.require(b.le(at(offsets.dim(0) - 1), b.constant_int(n, offsets.dtype(), {1})), Code::bad_value,
              str("offsets[-1] must be at most the number of indices, ", n));
  }

  const Value starts = b.slice_dim(offsets, 0, 0, num_bags);
  const Value offset2bag = bags_of(b, a, starts, n, indices.dtype());
  const Value index = checked_index(b, a, indices, weight.dim(0), false, Code::bad_value);
  // Padding goes to a bag that does not exist, so that it is dropped.
  const Value bags = b.convert(offset2bag, index_dtype(num_bags + 1));
  const Value to = padding < 0 ? bags
                               : b.select(b.compare(Cmp::eq, index, static_cast<double>(padding)),
                                          b.constant_int(num_bags, bags.dtype()), bags);
  const Dtype wide = mode == kMax ? weight.dtype() : opmath(weight.dtype());
  Value rows = b.cast(take_rows(b, weight, 0, index), wide);
  if (scales) rows = b.mul(rows, unsqueeze_last(b, b.cast(scales, wide)));
  const Value sizes = ones_at(b, to, num_bags, indices.dtype());  // without padding
  Value out, max_indices = b.zeros({indices.dtype(), {0}});
  if (mode == kMax) {
    const Dims dims{num_bags, width};
    out = put_rows(b, b.lowest(wide, dims), 0, to, rows, combine_max(b));
    // The first index of the bag whose row holds the maximum.
    if (n > 0) {
      const Value safe = b.min(to, static_cast<double>(std::max<int64_t>(num_bags - 1, 0)));
      const Value position = b.broadcast_in_dim(b.iota({Dtype::i32, {n}}, 0), {n, width}, {0});
      const Value hit = b.eq(rows, take_rows(b, out, 0, safe));
      const Value first = put_rows(b, b.constant_int(n - 1, Dtype::i32, dims), 0, to,
                                   b.select(hit, position, b.constant_int(n - 1, Dtype::i32)), combine_min(b));
      max_indices = take_flat(b, indices, first);
    } else {
      max_indices = b.zeros({indices.dtype(), dims});
    }
    const Value some = b.compare(Cmp::gt, unsqueeze_last(b, sizes), 0);
    out = b.select(some, out, b.like(out, 0));
    max_indices = b.select(some, max_indices, b.constant_int(0, indices.dtype()));
  } else {
    out = put_rows(b, b.constant(0, wide, {num_bags, width}), 0, to, rows, combine_add(b));
    if (mode == kMean) out = b.div(out, unsqueeze_last(b, b.max(b.cast(sizes, wide), 1)));
  }
  Value bag_size = sizes;
  if (offsets.dim(0) != num_bags) bag_size = b.pad(sizes, b.constant(0, sizes.dtype()), {0}, {1});
  return {b.cast(out, weight.dtype()), offset2bag, bag_size, max_indices};
}

Value bag_backward(Builder& b, Args& a) {
  const Value grad = a.tensor("grad"), indices = a.tensor("indices"), scales = a.tensor("per_sample_weights");
  const int64_t num = a.i("num_weights"), mode = a.i("mode"), num_bags = grad.dim(0), width = grad.dim(1);
  const Dtype wide = sum_dtype(grad.dtype());
  const Value sizes = b.slice_dim(a.tensor("bag_size"), 0, 0, std::min(num_bags, a.tensor("bag_size").dim(0)));
  if (indices.numel() == 0 || num_bags == 0) return b.zeros({grad.dtype(), {num, width}});
  if (mode == kMax) {
    const Dtype d = index_dtype(num * width + 1);
    const Value rows = b.convert(a.tensor("maximum_indices"), d);
    const Value column = b.iota({d, rows.dims()}, 1);
    const Value at = b.add(b.mul(rows, static_cast<double>(width)), column);
    const Value some = b.broadcast_in_dim(b.compare(Cmp::gt, sizes, 0), rows.dims(), {0});
    const Value to = b.select(some, at, b.constant_int(num * width, d));
    const Value flat =
        put_flat(b, b.constant(0, wide, {num * width}), b.flatten(to), b.flatten(b.cast(grad, wide)), combine_add(b));
    return b.cast(b.reshape(flat, {num, width}), grad.dtype());
  }
  Value bags = a.has("offset2bag") ? a.tensor("offset2bag") : Value{};
  if (!bags || bags.numel() != indices.numel())
    bags = bags_of(b, a, a.tensor("offsets"), indices.numel(), indices.dtype());
  bags = b.convert(bags, index_dtype(num_bags));
  Value index = b.convert(indices, index_dtype(num + 1));
  Value rows = b.cast(take_rows(b, grad, 0, bags), wide);
  if (scales) rows = b.mul(rows, unsqueeze_last(b, b.cast(scales, wide)));
  if (mode == kMean) rows = b.div(rows, unsqueeze_last(b, b.max(b.cast(take_flat(b, sizes, bags), wide), 1)));
  if (a.flag("scale_grad_by_freq")) rows = over_frequency(b, rows, index, num);
  index = skip_padding(b, index, a.i("padding_idx", -1), num);
  return sum_rows(b, rows, index, num, grad.dtype());
}

}  // namespace

OP("_embedding_bag _embedding_bag_forward_only") { return bag(b, a); }
OP("_embedding_bag_dense_backward") { return bag_backward(b, a); }
OP("_embedding_bag_backward") {
  a.check(!a.flag("sparse"), Code::layout_unsupported,
          "must get sparse=False: there are no sparse gradients on this device, got sparse=True");
  return bag_backward(b, a);
}
OP("_embedding_bag_per_sample_weights_backward") {
  const Value grad = a.tensor("grad"), weight = a.tensor("weight"), indices = a.tensor("indices"),
              offsets = a.tensor("offsets");
  a.check(a.i("mode") == kSum, Code::bad_value, "per_sample_weights must come with mode 'sum'");
  const int64_t n = indices.numel(), padding = a.i("padding_idx", -1);
  if (n == 0) return b.zeros({grad.dtype(), {0}});
  Value bags = a.tensor("offset2bag");
  if (!bags || bags.numel() != n) bags = bags_of(b, a, offsets, n, indices.dtype());
  const Dtype wide = sum_dtype(grad.dtype());
  const Value from = b.cast(take_rows(b, grad, 0, b.convert(bags, index_dtype(grad.dim(0)))), wide);
  const Value row =
      b.cast(take_rows(b, weight, 0, checked_index(b, a, indices, weight.dim(0), false, Code::bad_value)), wide);
  Value out = b.reduce(Reduce::add, b.mul(from, row), {1});
  if (padding >= 0) out = b.select(b.eq(indices, b.constant_int(padding, indices.dtype())), b.like(out, 0), out);
  return b.cast(out, grad.dtype());
}

}  // namespace torchport::ops
