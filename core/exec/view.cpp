#include "exec/view.h"

#include <algorithm>
#include <limits>

namespace torchport::exec {

using graph::View;
using graph::ViewClass;
using graph::ViewPlan;
using hlo::Builder;
using hlo::Value;
using hlo::Values;

void plan(const Type& base, const View& v, ViewPlan& p) {
  const int64_t flat = base.dtype == v.dtype ? -1
                                             : base.numel() * static_cast<int64_t>(size_of(base.dtype)) /
                                                   static_cast<int64_t>(size_of(v.dtype));
  graph::plan_view({base.dims.data(), static_cast<int>(base.dims.size())}, flat,
                   {v.sizes.data(), static_cast<int>(v.sizes.size())},
                   {v.strides.data(), static_cast<int>(v.strides.size())}, v.offset, p);
}

int count_starts(const ViewPlan& p) {
  if (p.cls == ViewClass::gather) return 1;
  if (p.cls != ViewClass::box) return 0;
  int n = 0;
  for (int i = 0; i < p.count; ++i) n += p.has_start(i);
  return n;
}

Value reinterpret(Builder& b, const Value& base, Dtype as) {
  const Dtype from = base.dtype();
  if (from == as) return base;
  Value x = b.flatten(base);
  if (is_bool(from)) x = b.convert(x, Dtype::u8);
  if (is_complex(from)) {  // re and im lie next to each other
    const Dtype part = real_of(from);
    const int64_t n = x.numel();
    x = b.reshape(b.concatenate({b.reshape(b.real(x), {n, 1}), b.reshape(b.imag(x), {n, 1})}, 1), {2 * n});
    if (part == as) return x;
    return reinterpret(b, x, as);
  }
  if (is_complex(as)) {
    const Value parts = reinterpret(b, x, real_of(as));
    const int64_t n = parts.numel() / 2;
    const Value pairs = b.reshape(b.slice_dim(parts, 0, 0, 2 * n), {n, 2});
    return b.complex(b.reshape(b.slice_dim(pairs, 1, 0, 1), {n}), b.reshape(b.slice_dim(pairs, 1, 1, 2), {n}));
  }
  const Dtype to = is_bool(as) ? Dtype::u8 : as;
  const int64_t wide = static_cast<int64_t>(size_of(to)), narrow = static_cast<int64_t>(size_of(x.dtype()));
  if (wide > narrow) {  // a tail that does not fill an element is not visible in this dtype
    const int64_t n = x.numel() * narrow / wide;
    x = b.reshape(b.slice_dim(x, 0, 0, n * (wide / narrow)), {n, wide / narrow});
  }
  x = b.flatten(b.bitcast(x, to));
  return is_bool(as) ? b.cast(x, Dtype::b1) : x;
}

namespace {

struct Box {
  Dims extents, sizes, reach;  // factorised value; elements taken; distance they span
  bool stepped = false, full = true;
  Values starts;
};

Box box_of(Builder& b, const ViewPlan& p, const StartSource& start) {
  Box x;
  int operand = 0;
  for (int i = 0; i < p.count; ++i) {
    const graph::Axis& a = p.axes[i];
    x.extents.push_back(a.extent);
    x.sizes.push_back(a.size);
    x.reach.push_back((a.size - 1) * a.step + 1);
    x.stepped |= a.step != 1;
    x.full &= !p.has_start(i) && a.step == 1;
    x.starts.push_back(p.has_start(i) ? start(operand++) : b.constant_int(0, Dtype::i64));
  }
  return x;
}

// Dimensions of the view that the box's axes show, in axis order.
Dims shown(const ViewPlan& p) {
  Dims d;
  for (int i = 0; i < p.count; ++i)
    if (p.axes[i].dim >= 0) d.push_back(p.axes[i].dim);
  return d;
}

// Flat storage positions of a view's elements, for views that are no box.
Value flat_indices(Builder& b, const View& v, const Value& offset, int64_t limit) {
  const Dtype d = limit > std::numeric_limits<int32_t>::max() ? Dtype::i64 : Dtype::i32;
  Value index = b.full(b.convert(offset, d), v.sizes);
  for (size_t i = 0; i < v.sizes.size(); ++i)
    if (v.sizes[i] != 1 && v.strides[i] != 0)
      index = b.add(index, b.mul(b.iota({d, v.sizes}, static_cast<int64_t>(i)), b.constant_int(v.strides[i], d)));
  return index;
}

}  // namespace

Value read_view(Builder& b, const Value& whole, const View& v, const StartSource& start) {
  ViewPlan p;
  plan(whole.type(), v, p);
  if (p.cls == ViewClass::empty) return b.zeros({v.dtype, v.sizes});
  const Value base = reinterpret(b, whole, v.dtype);
  switch (p.cls) {
    case ViewClass::whole:
    case ViewClass::reshape: return b.reshape(base, v.sizes);
    case ViewClass::box: {
      const Box box = box_of(b, p, start);
      Value x = b.reshape(base, box.extents);
      x = b.dynamic_slice(x, box.starts, box.reach);
      if (box.stepped) {
        Dims steps;
        for (int i = 0; i < p.count; ++i) steps.push_back(p.axes[i].step);
        x = b.slice(x, Dims(p.count, 0), box.reach, steps);
      }
      const Dims order = shown(p);  // axis k shows dimension order[k]
      Dims sizes, perm(order.size()), mapping = order;
      for (int64_t d : order) sizes.push_back(v.sizes[d]);
      x = b.reshape(x, sizes);
      for (size_t k = 0; k < perm.size(); ++k) perm[k] = static_cast<int64_t>(k);
      std::sort(perm.begin(), perm.end(), [&](int64_t i, int64_t j) { return order[i] < order[j]; });
      std::sort(mapping.begin(), mapping.end());
      return b.broadcast_in_dim(b.transpose(x, perm), v.sizes, mapping);
    }
    default: {
      const Value flat = b.flatten(base), index = flat_indices(b, v, start(0), flat.numel());
      hlo::GatherDims g;
      g.collapsed_slice_dims = {0}, g.start_index_map = {0};
      g.index_vector_dim = index.rank();
      return b.gather(flat, index, g, {1});
    }
  }
}

Value write_view(Builder& b, const Value& whole, const View& v, const Value& value, const StartSource& start) {
  ViewPlan p;
  plan(whole.type(), v, p);
  if (p.cls == ViewClass::empty) return whole;
  const Value base = reinterpret(b, whole, v.dtype);
  auto back = [&](const Value& x) {  // into the storage's own dtype and dims
    if (whole.dtype() == v.dtype) return b.reshape(x, whole.dims());
    Value y = b.flatten(reinterpret(b, x, whole.dtype()));
    if (y.numel() < whole.numel())
      y = b.concatenate({y, b.slice_dim(b.flatten(whole), 0, y.numel(), whole.numel())}, 0);
    return b.reshape(y, whole.dims());
  };
  switch (p.cls) {
    case ViewClass::whole:
    case ViewClass::reshape: return back(value);
    case ViewClass::box: {
      const Box box = box_of(b, p, start);
      const Dims order = shown(p);
      // Dimensions of size 1 and stride 0 drop out; what is left goes into axis order.
      Dims kept = order, sizes, perm;
      std::sort(kept.begin(), kept.end());
      for (int64_t d : kept) sizes.push_back(v.sizes[d]);
      Value x = value;
      for (size_t i = v.sizes.size(); i-- > 0;)
        if (v.sizes[i] != 1 && v.strides[i] == 0) x = b.slice_dim(x, static_cast<int64_t>(i), 0, 1);
      x = b.reshape(x, sizes);
      for (int64_t d : order) perm.push_back(std::find(kept.begin(), kept.end(), d) - kept.begin());
      x = b.reshape(b.transpose(x, perm), box.sizes);
      if (box.full) return back(x);
      const Value target = b.reshape(base, box.extents);
      if (box.stepped) {  // keep what lies between the written elements
        const Dims none(p.count, 0);
        Dims gaps;
        for (int i = 0; i < p.count; ++i) gaps.push_back(p.axes[i].step - 1);
        const Value old = b.dynamic_slice(target, box.starts, box.reach);
        const Value mask = b.pad(b.constant(1, Dtype::b1, box.sizes), b.constant(0, Dtype::b1), none, none, gaps);
        x = b.select(mask, b.pad(x, b.constant(0, x.dtype()), none, none, gaps), old);
      }
      return back(b.dynamic_update_slice(target, x, box.starts));
    }
    default: {
      const Value flat = b.flatten(base), index = flat_indices(b, v, start(0), flat.numel());
      hlo::ScatterDims s;
      s.inserted_window_dims = {0}, s.scatter_dims_to_operand_dims = {0};
      s.index_vector_dim = index.rank();
      return back(b.scatter(flat, index, value, s));
    }
  }
}

}  // namespace torchport::exec
