// Strided views as PyTorch makes them, drawn at random over a dense value.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "base/shape.h"

namespace torchport::test {

struct Strided {
  Dims sizes, strides;
  int64_t offset = 0;
};

// Storage positions of a view's elements, row-major.
inline std::vector<int64_t> positions(const Strided& v) {
  std::vector<int64_t> out;
  const int64_t n = numel(v.sizes);
  Dims at(v.sizes.size(), 0);
  for (int64_t k = 0; k < n; ++k) {
    int64_t p = v.offset;
    for (size_t i = 0; i < at.size(); ++i) p += at[i] * v.strides[i];
    out.push_back(p);
    for (size_t i = at.size(); i-- > 0;) {
      if (++at[i] < v.sizes[i]) break;
      at[i] = 0;
    }
  }
  return out;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  bool chance(int percent) { return pick(1, 100) <= percent; }

  Dims dims(int64_t max_rank, int64_t max_size) {
    Dims d(static_cast<size_t>(pick(0, max_rank)));
    for (int64_t& n : d) n = chance(3) ? 0 : chance(15) ? 1 : pick(2, max_size);
    return d;
  }
  static Strided whole(const Dims& base) { return {base, contiguous_strides(base), 0}; }

  // x[a:b:c, ...] of every dimension, then permute, unsqueeze, expand and select: what indexing gives.
  Strided indexed(const Dims& base) {
    Strided v = whole(base);
    for (size_t i = 0; i < base.size(); ++i) slice(v, i);
    for (int64_t steps = pick(0, 3); steps > 0; --steps) rearrange(v);
    return v;
  }
  // Any view: also reshaped, diagonal, unfolded and as_strided.
  Strided any(const Dims& base) {
    if (chance(20)) return as_strided(numel(base));
    Strided v = whole(base);
    for (int64_t steps = pick(0, 5); steps > 0; --steps) {
      const int64_t kind = pick(0, 5);
      if (kind == 0 && v.strides == contiguous_strides(v.sizes))
        reshape(v);
      else if (kind == 1)
        diagonal(v);
      else if (kind == 2)
        unfold(v);
      else if (kind == 3 && !v.sizes.empty())
        slice(v, static_cast<size_t>(pick(0, static_cast<int64_t>(v.sizes.size()) - 1)));
      else
        rearrange(v);
    }
    return v;
  }
  Strided as_strided(int64_t n) {
    Strided v;
    if (n == 0) return {{0}, {1}, 0};
    v.offset = chance(50) ? 0 : pick(0, n - 1);
    int64_t room = n - 1 - v.offset;
    for (int64_t rank = pick(0, 4); rank > 0; --rank) {
      const int64_t stride = pick(0, 7),
                    size = stride == 0 ? pick(1, 3) : pick(1, std::min<int64_t>(5, room / stride + 1));
      room -= stride * (size - 1);
      v.sizes.push_back(size), v.strides.push_back(stride);
    }
    return v;
  }

 private:
  void slice(Strided& v, size_t i) {
    const int64_t n = v.sizes[i];
    if (n == 0 || chance(30)) return;
    const int64_t start = pick(0, n - 1), stop = pick(start + 1, n), step = chance(50) ? 1 : pick(1, 4);
    v.offset += start * v.strides[i];
    v.sizes[i] = (stop - start + step - 1) / step;
    v.strides[i] *= step;
  }
  void rearrange(Strided& v) {
    const auto rank = static_cast<int64_t>(v.sizes.size());
    const int64_t kind = pick(0, 3);
    if (kind == 0) {  // permute
      std::vector<size_t> order(v.sizes.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::shuffle(order.begin(), order.end(), random_);
      const Strided old = v;
      for (size_t i = 0; i < order.size(); ++i) v.sizes[i] = old.sizes[order[i]], v.strides[i] = old.strides[order[i]];
    } else if (kind == 1 && rank < 6) {  // unsqueeze; PyTorch gives the new dimension the stride of what lies inside it
      const int64_t at = pick(0, rank);
      const int64_t stride = at < rank ? v.sizes[at] * v.strides[at] : 1;
      v.sizes.insert(v.sizes.begin() + at, 1), v.strides.insert(v.strides.begin() + at, stride);
    } else if (kind == 2) {  // expand
      for (size_t i = 0; i < v.sizes.size(); ++i)
        if (v.sizes[i] == 1 && chance(50)) v.sizes[i] = pick(0, 3), v.strides[i] = 0;
    } else if (kind == 3 && rank > 0) {  // select
      const int64_t at = pick(0, rank - 1);
      if (v.sizes[at] == 0) return;
      v.offset += pick(0, v.sizes[at] - 1) * v.strides[at];
      v.sizes.erase(v.sizes.begin() + at), v.strides.erase(v.strides.begin() + at);
    }
  }
  void reshape(Strided& v) {
    int64_t rest = numel(v.sizes);
    if (rest == 0) return;
    v.sizes.clear();
    for (int64_t f : {2, 3, 5})
      while (rest % f == 0 && chance(60)) v.sizes.push_back(f), rest /= f;
    v.sizes.push_back(rest);
    std::shuffle(v.sizes.begin(), v.sizes.end(), random_);
    v.strides = contiguous_strides(v.sizes);
  }
  void diagonal(Strided& v) {
    if (v.sizes.size() < 2) return;
    const int64_t n = std::min(v.sizes[0], v.sizes[1]), stride = v.strides[0] + v.strides[1];
    v.sizes.erase(v.sizes.begin(), v.sizes.begin() + 2), v.strides.erase(v.strides.begin(), v.strides.begin() + 2);
    v.sizes.push_back(n), v.strides.push_back(stride);
  }
  void unfold(Strided& v) {
    if (v.sizes.empty() || v.sizes[0] == 0) return;
    const int64_t size = pick(1, v.sizes[0]), step = pick(1, 3), stride = v.strides[0];
    v.sizes[0] = (v.sizes[0] - size) / step + 1, v.strides[0] *= step;
    v.sizes.push_back(size), v.strides.push_back(stride);
  }
  std::mt19937 random_;
};

}  // namespace torchport::test
