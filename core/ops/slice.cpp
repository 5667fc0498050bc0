// Writing into a part of a tensor and the gradients of reading one: select, slice, unfold, im2col.
#include "ops/index.h"

namespace torchport::ops {

namespace {

// An int argument that may be a runtime operand, wrapped at 0.
Value wrapped_start(Builder& b, Args& a, std::string_view name, int64_t size) {
  const Value at = a.number(name, Dtype::i64);
  return b.select(b.compare(Cmp::lt, at, 0), b.add(at, b.constant_int(size, Dtype::i64)), at);
}
// x with `part` from `start` on along dim.
Value update(Builder& b, const Value& x, const Value& part, int64_t dim, const Value& start) {
  if (part.numel() == 0) return x;
  Values starts(x.rank(), b.constant_int(0, Dtype::i64));
  starts[dim] = start;
  return b.dynamic_update_slice(x, part, starts);
}
Value dilate(Builder& b, const Value& x, int64_t dim, int64_t step, const Value& filler) {
  if (step == 1 || x.dim(dim) < 2) return x;
  Dims none(x.rank(), 0), interior = none;
  interior[dim] = step - 1;
  return b.pad(x, filler, none, none, interior);
}

struct Range {
  int64_t start, size;
};
Range range_of(Args& a, int64_t n) {
  const int64_t step = a.i("step", 1);
  a.check(step > 0, Code::bad_value, str("step must be positive, got ", step));
  auto bound = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  const int64_t start = bound(a.i("start", 0)), end = std::max(start, a.has("end") ? bound(a.i("end")) : n);
  return {start, (end - start + step - 1) / step};
}

}  // namespace

OP("select_backward", Promote::none, "index?") {
  const Value grad = a.tensor("grad_output");
  const Dims sizes = a.ints("input_sizes");
  const int64_t dim = wrap_dim(a.i("dim"), static_cast<int64_t>(sizes.size()), a.where());
  return update(b, b.zeros({grad.dtype(), sizes}), b.unsqueeze(grad, dim), dim,
                wrapped_start(b, a, "index", sizes[dim]));
}
OP("select_scatter") {
  const Value x = a.tensor("self"), src = a.tensor("src");
  a.check(x.rank() > 0, Code::dim_out_of_range, "self must have at least 1 dimension, got a 0-d tensor");
  const int64_t dim = a.dim("dim", x), index = a.i("index");
  a.check(index >= -x.dim(dim) && index < x.dim(dim), Code::index_out_of_range,
          str("index must be in [", -x.dim(dim), ", ", x.dim(dim) - 1, "], got ", index));
  Dims want = x.dims();
  want.erase(want.begin() + dim);
  a.check(src.dims() == want, Code::shape_mismatch,
          str("src must be of shape ", text(want), ", got ", text(src.dims())));
  return update(b, x, b.unsqueeze(b.cast(src, x.dtype()), dim), dim,
                b.constant_int(index < 0 ? index + x.dim(dim) : index, Dtype::i64));
}

// The length of the slice is that of the gradient, so a moving start needs no new program.
OP("slice_backward", Promote::none, "start? end?") {
  const Value grad = a.tensor("grad_output");
  const Dims sizes = a.ints("input_sizes");
  const int64_t dim = wrap_dim(a.i("dim"), static_cast<int64_t>(sizes.size()), a.where());
  const Value part = dilate(b, grad, dim, a.i("step"), b.constant(0, grad.dtype()));
  const Value start = b.max(wrapped_start(b, a, "start", sizes[dim]), 0);
  return update(b, b.zeros({grad.dtype(), sizes}), part, dim, start);
}
OP("slice_scatter") {
  const Value x = a.tensor("self");
  Value src = b.cast(a.tensor("src"), x.dtype());
  a.check(x.rank() > 0, Code::dim_out_of_range, "self must have at least 1 dimension, got a 0-d tensor");
  const int64_t dim = a.dim("dim", x), step = a.i("step", 1);
  const Range r = range_of(a, x.dim(dim));
  Dims want = x.dims();
  want[dim] = r.size;
  a.check(src.dims() == want, Code::shape_mismatch,
          str("src must be of shape ", text(want), ", got ", text(src.dims())));
  if (src.numel() == 0) return x;
  const Value start = b.constant_int(r.start, Dtype::i64);
  if (step == 1) return update(b, x, src, dim, start);
  const Value mask =
      update(b, b.constant(0, Dtype::b1, x.dims()),
             dilate(b, b.constant(1, Dtype::b1, src.dims()), dim, step, b.constant(0, Dtype::b1)), dim, start);
  return b.select(mask, update(b, x, dilate(b, src, dim, step, b.constant(0, x.dtype())), dim, start), x);
}

OP("unfold_backward") {
  const Value grad = a.tensor("grad_in");
  const Dims sizes = a.ints("input_sizes");
  const int64_t size = a.i("size"), step = a.i("step");
  if (sizes.empty()) return b.reshape(b.slice_dim(grad, 0, 0, 1), {});
  const int64_t dim = wrap_dim(a.i("dim"), static_cast<int64_t>(sizes.size()), a.where()), windows = grad.dim(dim);
  // [.., windows, .., size] -> [.., windows, size, ..]; element k of window w came from w * step + k.
  Dims perm;
  for (int64_t k = 0; k + 1 < grad.rank(); ++k) {
    perm.push_back(k);
    if (k == dim) perm.push_back(grad.rank() - 1);
  }
  const Type t{index_dtype(sizes[dim]), {windows, size}};
  const Value at = b.add(b.mul(b.iota(t, 0), static_cast<double>(step)), b.iota(t, 1));
  const Dtype wide = sum_dtype(grad.dtype());
  return b.cast(put_rows(b, b.constant(0, wide, sizes), dim, at, b.transpose(b.cast(grad, wide), perm), combine_add(b)),
                grad.dtype());
}

// ---- im2col, col2im

namespace {

struct Blocks {
  Dims kernel, dilation, padding, stride, image, out;  // two entries each; image without padding
};
Blocks blocks_of(Args& a, const Dims& image) {
  Blocks k{a.ints("kernel_size"), a.ints("dilation"), a.ints("padding"), a.ints("stride"), image, {}};
  for (const auto& [what, v, least] : {std::tuple{"kernel_size", &k.kernel, 1},
                                       {"dilation", &k.dilation, 1},
                                       {"padding", &k.padding, 0},
                                       {"stride", &k.stride, 1}})
    a.check(v->size() == 2 && (*v)[0] >= least && (*v)[1] >= least, Code::bad_value,
            str(what, " must have two entries of at least ", least, ", got ", text(*v)));
  for (int d = 0; d < 2; ++d) {
    const int64_t reach = k.dilation[d] * (k.kernel[d] - 1) + 1, size = image[d] + 2 * k.padding[d] - reach;
    a.check(size >= 0, Code::bad_value,
            str("kernel_size must fit the padded image, got ", text(k.kernel), " for ", text(image)));
    k.out.push_back(size / k.stride[d] + 1);
  }
  return k;
}
// Position in the padded image of kernel element i at output o: [kernel, out].
Value positions(Builder& b, const Blocks& k, int d) {
  const Type t{Dtype::i32, {k.kernel[d], k.out[d]}};
  return b.add(b.mul(b.iota(t, 0), static_cast<double>(k.dilation[d])),
               b.mul(b.iota(t, 1), static_cast<double>(k.stride[d])));
}

}  // namespace

OP("im2col") {
  Value x = a.tensor("self");
  const bool batched = x.rank() == 4;
  a.check(batched || x.rank() == 3, Code::bad_value, str("self must have 3 or 4 dimensions, got ", text(x.type())));
  if (!batched) x = b.unsqueeze(x, 0);
  const Blocks k = blocks_of(a, {x.dim(2), x.dim(3)});
  const int64_t n = x.dim(0), c = x.dim(1);
  x = b.pad(x, b.constant(0, x.dtype()), {0, 0, k.padding[0], k.padding[1]}, {0, 0, k.padding[0], k.padding[1]});
  x = take_rows(b, x, 2, positions(b, k, 0));  // n c kh oh w
  x = take_rows(b, x, 4, positions(b, k, 1));  // n c kh oh kw ow
  x = b.reshape(b.transpose(x, {0, 1, 2, 4, 3, 5}), {n, c * k.kernel[0] * k.kernel[1], k.out[0] * k.out[1]});
  return batched ? x : b.squeeze(x, 0);
}
OP("col2im") {
  Value x = a.tensor("self");
  const bool batched = x.rank() == 3;
  a.check(batched || x.rank() == 2, Code::bad_value, str("self must have 2 or 3 dimensions, got ", text(x.type())));
  if (!batched) x = b.unsqueeze(x, 0);
  const Dims image = a.ints("output_size");
  a.check(image.size() == 2 && image[0] > 0 && image[1] > 0, Code::bad_value,
          str("output_size must have two positive entries, got ", text(image)));
  const Blocks k = blocks_of(a, image);
  const int64_t n = x.dim(0), window = k.kernel[0] * k.kernel[1], c = x.dim(1) / window;
  a.check(x.dim(1) % window == 0, Code::bad_value,
          str("channels must be a multiple of ", window, ", got ", text(x.type())));
  a.check(x.dim(2) == k.out[0] * k.out[1], Code::bad_value,
          str("self must have ", k.out[0] * k.out[1], " blocks, got ", text(x.type())));
  const Dtype wide = sum_dtype(x.dtype());
  const int64_t h = image[0] + 2 * k.padding[0], w = image[1] + 2 * k.padding[1];
  Value y = b.reshape(b.cast(x, wide), {n, c, k.kernel[0], k.kernel[1], k.out[0], k.out[1]});
  y = b.transpose(y, {0, 1, 2, 4, 3, 5});
  y = put_rows(b, b.constant(0, wide, {n, c, k.kernel[0], k.out[0], w}), 4, positions(b, k, 1), y, combine_add(b));
  y = put_rows(b, b.constant(0, wide, {n, c, h, w}), 2, positions(b, k, 0), y, combine_add(b));
  y = b.slice(y, {0, 0, k.padding[0], k.padding[1]}, {n, c, k.padding[0] + image[0], k.padding[1] + image[1]});
  y = b.cast(y, x.dtype());
  return batched ? y : b.squeeze(y, 0);
}

}  // namespace torchport::ops
