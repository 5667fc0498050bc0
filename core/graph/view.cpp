#include "graph/view.h"

#include <algorithm>

namespace torchport::graph {

namespace {

int64_t product(Span s) {
  int64_t n = 1;
  for (int i = 0; i < s.rank; ++i) n *= s[i];
  return n;
}

bool contiguous(Span sizes, Span strides) {
  int64_t expect = 1;
  for (int i = sizes.rank; i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != expect) return false;
    expect *= sizes[i];
  }
  return true;
}

struct Moving {  // a dimension along which the view moves
  int64_t size, stride;
  int dim;
};

// The view's own strides as units: [n/t0, t0/t1, ..., tk]. Fits every permutation, reshape and aligned slice.
bool by_strides(int64_t n, const Moving* m, int count, int64_t offset, ViewPlan& p) {
  if (count + 1 > kMaxAxes) return false;
  int64_t outer = n;
  p.count = 0;
  for (int i = 0; i < count; ++i) {
    if (outer % m[i].stride != 0) return false;
    const int64_t extent = outer / m[i].stride, start = offset / m[i].stride % extent;
    if (i == 0 && offset / m[i].stride >= extent) return false;
    if (start + m[i].size > extent) return false;
    p.axes[p.count] = {extent, m[i].size, 1, m[i].dim};
    p.starts[p.count++] = start;
    outer = m[i].stride;
  }
  if (outer > 1) {
    p.axes[p.count] = {outer, 1, 1, -1};
    p.starts[p.count++] = offset % outer;
  }
  return true;
}

// The value's own dims as units, with steps: fits x[:, 1::3].
bool by_dims(Span base, const Moving* m, int count, int64_t offset, ViewPlan& p) {
  if (base.rank > kMaxAxes) return false;
  int64_t unit = 1, rest = offset;
  for (int i = base.rank; i-- > 0;) {
    p.axes[i] = {base[i], 1, 1, -1};
    p.starts[i] = rest % base[i];
    rest /= base[i];
  }
  if (rest != 0) return false;
  p.count = base.rank;
  unit = 1;
  int next = count - 1;  // innermost movement first
  for (int i = base.rank; i-- > 0 && next >= 0; unit *= base[i]) {
    const Moving& d = m[next];
    if (d.stride % unit == 0 && d.stride < unit * base[i]) {
      p.axes[i].size = d.size, p.axes[i].step = d.stride / unit, p.axes[i].dim = d.dim;
      if (p.starts[i] + (d.size - 1) * p.axes[i].step + 1 > base[i]) return false;
      --next;
    }
  }
  return next < 0;
}

}  // namespace

void plan_view(Span base, int64_t flat_numel, Span sizes, Span strides, int64_t offset, ViewPlan& p) {
  const int64_t n = flat_numel >= 0 ? flat_numel : product(base), view_numel = product(sizes);
  if (view_numel == 0) {
    p.cls = ViewClass::empty;
    return;
  }
  if (offset == 0 && view_numel == n && contiguous(sizes, strides)) {
    const bool same = flat_numel < 0
                          ? base.rank == sizes.rank && std::equal(sizes.data, sizes.data + sizes.rank, base.data)
                          : sizes.rank == 1;
    p.cls = same ? ViewClass::whole : ViewClass::reshape;
    return;
  }
  Moving m[64];
  int count = 0;
  for (int i = 0; i < sizes.rank && i < 64; ++i)
    if (sizes[i] != 1 && strides[i] != 0) m[count++] = {sizes[i], strides[i], i};
  std::sort(m, m + count, [](const Moving& a, const Moving& b) {
    return a.stride != b.stride ? a.stride > b.stride : a.dim < b.dim;
  });
  p.cls = ViewClass::box;
  bool distinct = true;
  for (int i = 1; i < count; ++i) distinct &= m[i].stride < m[i - 1].stride;
  if (distinct && by_strides(n, m, count, offset, p)) return;
  if (distinct && flat_numel < 0 && by_dims(base, m, count, offset, p)) return;
  p.cls = ViewClass::gather;
  p.count = 0;
  p.starts[0] = offset;
}

}  // namespace torchport::graph
