// Joining, repeating, reversing and rearranging: cat, stack, flip, roll, repeat, pixel_shuffle, ...
#include "ops/op.h"

namespace torchport::ops {

namespace {

// torch skips tensors of shape [0] whatever the rank of the others.
Value cat(Args& a, Builder& b, const Values& tensors) {
  a.check(!tensors.empty(), Code::bad_setting, "must get a non-empty list of tensors, got none");
  Values parts;
  for (const Value& t : tensors) {
    a.check(t.rank() > 0, Code::bad_value, "must get tensors of at least one dimension, got a 0-d tensor");
    if (t.dims() != Dims{0}) parts.push_back(t);
  }
  if (parts.empty()) return tensors[0];
  const int64_t dim = a.dim("dim", parts[0]);
  for (const Value& t : parts) {
    a.check(t.rank() == parts[0].rank(), Code::shape_mismatch,
            str("tensors must have one rank, got ", text(parts[0].type()), " and ", text(t.type())));
    for (int64_t k = 0; k < t.rank(); ++k)
      a.check(k == dim || t.dim(k) == parts[0].dim(k), Code::shape_mismatch,
              str("tensors must have one shape except in dimension ", dim, ", got ", text(parts[0].type()), " and ",
                  text(t.type())));
  }
  return b.concatenate(parts, dim);
}

int64_t modulo(int64_t x, int64_t n) { return ((x % n) + n) % n; }

Value roll(Builder& b, const Value& x, int64_t shift, int64_t dim) {
  const int64_t n = x.dim(dim);
  if (n == 0 || modulo(shift, n) == 0) return x;
  const int64_t cut = n - modulo(shift, n);
  return b.concatenate({b.slice_dim(x, dim, cut, n), b.slice_dim(x, dim, 0, cut)}, dim);
}

Dims unique_dims(Args& a, const Dims& given, int64_t rank) {
  Dims out;
  for (int64_t d : given) {
    d = wrap_dim(d, rank, a.where());
    for (int64_t seen : out) a.check(seen != d, Code::bad_value, str("dim must appear once, got ", d, " twice"));
    out.push_back(d);
  }
  return out;
}

}  // namespace

OP("cat", .promote = Promote::same, .out = kOwnMemory) { return cat(a, b, a.tensors("tensors")); }
OP("stack _stack", Promote::same) {
  const Values tensors = a.tensors("tensors");
  a.check(!tensors.empty(), Code::bad_value, "must get a non-empty list of tensors, got none");
  const int64_t dim = wrap_dim(a.i("dim", 0), tensors[0].rank() + 1, a.where());
  Values parts;
  for (const Value& t : tensors) {
    a.check(t.dims() == tensors[0].dims(), Code::shape_mismatch,
            str("tensors must have one shape, got ", text(tensors[0].type()), " and ", text(t.type())));
    parts.push_back(b.unsqueeze(t, dim));
  }
  return b.concatenate(parts, dim);
}

OP("block_diag", Promote::same) {
  const Values tensors = a.tensors("tensors");
  Values blocks;
  int64_t cols = 0, col = 0;
  for (const Value& t : tensors) {
    a.check(t.rank() <= 2, Code::bad_value, str("must get tensors of at most 2 dimensions, got ", text(t.type())));
    blocks.push_back(t.rank() == 2 ? t : b.reshape(t, {1, t.numel()}));
    cols += blocks.back().dim(1);
  }
  Values bands;
  for (const Value& t : blocks) {
    bands.push_back(b.pad(t, b.constant(0, t.dtype()), {0, col}, {0, cols - col - t.dim(1)}));
    col += t.dim(1);
  }
  return bands.empty() ? b.zeros({a.default_dtype(), {1, 0}}) : b.concatenate(bands, 0);
}

OP("flip") {
  const Value x = a.tensor("self");
  const Dims dims = unique_dims(a, a.ints("dims"), x.rank());
  return x.rank() ? b.reverse(x, dims) : x;
}
OP("roll") {
  Value x = a.tensor("self");
  const Dims shifts = a.ints("shifts"), dims = a.ints("dims");
  a.check(!shifts.empty(), Code::bad_value, "shifts must have at least one entry, got none");
  if (dims.empty() && shifts.size() == 1) return b.reshape(roll(b, b.flatten(x), shifts[0], 0), x.dims());
  a.check(dims.size() == shifts.size(), Code::bad_value,
          str("shifts and dims must have one length, got ", text(shifts), " and ", text(dims)));
  a.check(
      x.rank() > 0, Code::dim_out_of_range,
      str("dims must be empty for a 0-d tensor (Dimension specified as ", dims[0], " but tensor has no dimensions)"));
  for (size_t k = 0; k < dims.size(); ++k) {
    const int64_t d = wrap_dim(dims[k], x.rank(), a.where());
    x = roll(b, x, shifts[k], d);
  }
  return x;
}
OP("rot90", .own_order = true) {
  const Value x = a.tensor("self");
  const Dims dims = a.ints("dims");
  a.check(dims.size() == 2, Code::bad_value, str("dims must have two entries, got ", text(dims)));
  a.check(x.rank() >= 2, Code::bad_value, str("self must have at least 2 dimensions, got ", text(x.type())));
  const Dims d{wrap_dim(dims[0], x.rank(), a.where()), wrap_dim(dims[1], x.rank(), a.where())};
  a.check(d[0] != d[1], Code::bad_value, str("dims must be different, got ", text(dims)));
  switch (modulo(a.i("k"), 4)) {
    case 1: return b.swap_dims(b.reverse(x, {d[1]}), d[0], d[1]);
    case 2: return b.reverse(x, d);
    case 3: return b.swap_dims(b.reverse(x, {d[0]}), d[0], d[1]);
    default: return x;
  }
}

OP("repeat") {
  const Value x = a.tensor("self");
  const Dims repeats = a.ints("repeats");
  const int64_t rank = static_cast<int64_t>(repeats.size()), lead = rank - x.rank();
  a.check(lead >= 0, Code::bad_value, str("repeats must have at least ", x.rank(), " entries, got ", text(repeats)));
  Dims wide, mapping, out;  // [r0, n0, r1, n1, ...]
  for (int64_t k = 0; k < rank; ++k) {
    a.check(repeats[k] >= 0, Code::bad_value, str("repeats must not be negative, got ", text(repeats)));
    const int64_t n = k < lead ? 1 : x.dim(k - lead);
    if (k >= lead) mapping.push_back(static_cast<int64_t>(wide.size()) + 1);
    wide.push_back(repeats[k]);
    wide.push_back(n);
    out.push_back(repeats[k] * n);
  }
  return b.reshape(b.broadcast_in_dim(x, wide, mapping), out);
}

OP("pixel_shuffle") {
  const Value x = a.tensor("self");
  const int64_t r = a.i("upscale_factor");
  a.check(x.rank() >= 3, Code::bad_value, str("self must have at least 3 dimensions, got ", text(x.type())));
  a.check(r > 0, Code::bad_value, str("upscale_factor must be positive, got ", r));
  const int64_t c = x.dim(-3), h = x.dim(-2), w = x.dim(-1), lead = x.rank() - 3;
  a.check(c % (r * r) == 0, Code::bad_value, str("channels must be a multiple of ", r * r, ", got ", text(x.type())));
  Dims batch(x.dims().begin(), x.dims().end() - 3), split = batch, out = batch, perm;
  for (int64_t d : {c / (r * r), r, r, h, w}) split.push_back(d);
  for (int64_t d : {c / (r * r), h * r, w * r}) out.push_back(d);
  for (int64_t k = 0; k < lead; ++k) perm.push_back(k);
  for (int64_t k : {0, 3, 1, 4, 2}) perm.push_back(lead + k);
  return b.reshape(b.transpose(b.reshape(x, split), perm), out);
}
OP("pixel_unshuffle") {
  const Value x = a.tensor("self");
  const int64_t r = a.i("downscale_factor");
  a.check(x.rank() >= 3, Code::bad_value, str("self must have at least 3 dimensions, got ", text(x.type())));
  a.check(r > 0, Code::bad_value, str("downscale_factor must be positive, got ", r));
  const int64_t c = x.dim(-3), h = x.dim(-2), w = x.dim(-1), lead = x.rank() - 3;
  a.check(h % r == 0 && w % r == 0, Code::bad_value,
          str("height and width must be multiples of ", r, ", got ", text(x.type())));
  Dims batch(x.dims().begin(), x.dims().end() - 3), split = batch, out = batch, perm;
  for (int64_t d : {c, h / r, r, w / r, r}) split.push_back(d);
  for (int64_t d : {c * r * r, h / r, w / r}) out.push_back(d);
  for (int64_t k = 0; k < lead; ++k) perm.push_back(k);
  for (int64_t k : {0, 2, 4, 1, 3}) perm.push_back(lead + k);
  return b.reshape(b.transpose(b.reshape(x, split), perm), out);
}
OP("channel_shuffle native_channel_shuffle") {
  const Value x = a.tensor("self");
  const int64_t groups = a.i("groups");
  a.check(x.rank() > 2, Code::bad_value, str("self must have more than 2 dimensions, got ", text(x.type())));
  a.check(groups > 0 && x.dim(1) % groups == 0, Code::bad_value,
          str("channels must be a multiple of groups, got ", text(x.type()), " and ", groups));
  Dims split = x.dims();
  split[1] = x.dim(1) / groups;
  split.insert(split.begin() + 1, groups);
  return b.reshape(b.swap_dims(b.reshape(x, split), 1, 2), x.dims());
}

}  // namespace torchport::ops
