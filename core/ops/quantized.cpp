// Products with weights of 8 and 4 bits, and of scaled float8 operands. Products run in f32 and round once.
#include "ops/product.h"

namespace torchport::ops {

// x [M, K] times the transpose of int8 weights [N, K], scaled a row of weights.
OP("_weight_int8pack_mm") {
  const Value x = a.tensor("self"), w = a.tensor("mat2"), scales = a.tensor("scales");
  a.check(is_float(x.dtype()) && x.rank() == 2, Code::bad_value,
          str("self must be a floating point matrix, got ", text(x.type())));
  a.check(w.dtype() == Dtype::i8 && w.rank() == 2 && w.dim(1) == x.dim(1), Code::bad_value,
          str("mat2 must be int8 [N, ", x.dim(1), "], got ", text(w.type())));
  a.check(scales.rank() == 1 && scales.dim(0) == w.dim(0), Code::bad_value,
          str("scales must have ", w.dim(0), " entries, got ", text(scales.type())));
  const Value y = product(b, x, false, b.cast(w, x.dtype()), true);  // 8 bits fit the halves exactly
  return b.cast(b.mul(y, b.cast(scales, y.dtype())), x.dtype());
}

// Two 4-bit weights a byte, the even column in the high half. PyTorch leaves the packed order to the device; here it is
// the order of the rows, in the shape that CUDA's has.
OP("_convert_weight_to_int4pack") {
  const Value w = a.tensor("self");
  const int64_t tiles = a.i("innerKTiles");
  a.check(w.rank() == 2 && w.dtype() == Dtype::u8, Code::bad_value,
          str("self must be a uint8 matrix [N, K / 2], got ", text(w.type())));
  a.check(tiles == 2 || tiles == 4 || tiles == 8, Code::bad_value, str("innerKTiles must be 2, 4 or 8, got ", tiles));
  const int64_t n = w.dim(0), k = w.dim(1) * 2;
  a.check(n % 8 == 0 && k % (tiles * 16) == 0, Code::bad_value,
          str("self must have a multiple of 8 rows and K a multiple of ", tiles * 16, ", got ", text(w.type())));
  const Value words = b.bitcast(b.reshape(w, {n, k / 8, 4}), Dtype::i32);
  return b.reshape(words, {n / 8, k / (tiles * 16), 32, tiles / 2});
}

// x [M, K] times the transpose of w[n, k] = (q - 8) * scale + zero, with a scale and a zero each qGroupSize columns.
OP("_weight_int4pack_mm") {
  const Value x = a.tensor("self"), packed = a.tensor("mat2"), pairs = a.tensor("qScaleAndZeros");
  const int64_t group = a.i("qGroupSize");
  a.check(is_float(x.dtype()) && x.rank() == 2, Code::bad_value,
          str("self must be a floating point matrix, got ", text(x.type())));
  a.check(packed.rank() == 4 && packed.dtype() == Dtype::i32, Code::bad_value,
          str("mat2 must be what _convert_weight_to_int4pack gave, got ", text(packed.type())));
  const int64_t n = packed.dim(0) * 8, k = x.dim(1);
  a.check(packed.numel() * 8 == n * k, Code::bad_value,
          str("mat2 must hold ", k, " columns, got ", text(packed.type())));
  a.check(group == 32 || group == 64 || group == 128 || group == 256, Code::bad_value,
          str("qGroupSize must be 32, 64, 128 or 256, got ", group));
  a.check(k % group == 0 && pairs.dims() == Dims{k / group, n, 2}, Code::bad_value,
          str("qScaleAndZeros must be [", k / group, ", ", n, ", 2], got ", text(pairs.type())));
  const Value bytes = b.reshape(b.bitcast(b.reshape(packed, {n, k / 8}), Dtype::u8), {n, k / 2, 1});
  const Value high = b.shift_right(bytes, b.constant(4, Dtype::u8)), low = b.bit_and(bytes, b.constant(15, Dtype::u8));
  const Value q = b.reshape(b.concatenate({high, low}, 2), {n, k / group, group});
  auto side = [&](int64_t i) {  // [K / group, N, 1] -> spread over [N, K / group, group]
    const Value v = b.reshape(b.slice_dim(b.cast(pairs, Dtype::f32), 2, i, i + 1), {k / group, n});
    return b.broadcast_in_dim(v, {n, k / group, group}, {1, 0});
  };
  const Value w = b.add(b.mul(b.sub(b.cast(q, Dtype::f32), 8.0), side(0)), side(1));
  return b.cast(product(b, x, false, b.cast(b.reshape(w, {n, k}), x.dtype()), true), x.dtype());
}

// (x * scale_a) times (y * scale_b): one scale each, or one a row of x and a column of y.
OP("_scaled_mm") {
  const Value x = a.tensor("self"), y = a.tensor("mat2"), sx = a.tensor("scale_a"), sy = a.tensor("scale_b");
  a.check(x.rank() == 2 && y.rank() == 2 && x.dim(1) == y.dim(0), Code::shape_mismatch,
          str("shapes must multiply, got ", text(x.dims()), " and ", text(y.dims())));
  const int64_t m = x.dim(0), n = y.dim(1);
  a.check(sx.dtype() == Dtype::f32 && sy.dtype() == Dtype::f32 && (sx.numel() == 1 || sx.dims() == Dims{m, 1}) &&
              (sy.numel() == 1 || sy.dims() == Dims{1, n}),
          Code::bad_value,
          str("scales must be float32, one in all or [", m, ", 1] and [1, ", n, "], got ", text(sx.type()), " and ",
              text(sy.type())));
  const Dtype out = a.dtype("out_dtype", x.dtype());
  auto scale = [&](const Value& s) { return s.numel() == 1 ? b.reshape(s, {}) : s; };
  // float8 numbers are bf16 numbers: the product of those is exact in f32
  const Value sum = b.dot_general(b.cast(x, Dtype::bf16), b.cast(y, Dtype::bf16), {}, {}, {1}, {0}, Dtype::f32);
  Value r = b.mul(b.mul(sum, scale(sx)), scale(sy));
  if (const Value bias = a.tensor("bias")) r = b.add(r, b.cast(bias, Dtype::f32));
  if (a.has("scale_result") && size_of(out) == 1) r = b.mul(r, b.reshape(a.tensor("scale_result"), {}));
  return b.cast(r, out);
}

}  // namespace torchport::ops
