// Variance and standard deviation, in two passes: the mean, then the squared distances from it.
#include <cmath>

#include "ops/math.h"
#include "ops/reduce.h"

namespace torchport::ops {

namespace {

struct Moments {
  Value variance, mean;
};
Moments moments(Builder& b, Args& a) {
  const Value self = a.tensor("self"), x = widen(b, self);
  a.check(!is_integral(x.dtype()), Code::bad_value,
          str("must get a floating point or complex tensor, got ", name(x.dtype())));
  const Dims dims = reduced_dims(a, x);
  const double n = reduced_count(x, dims);
  const Value mean = b.div(reduce_over(b, Reduce::add, x, dims, false), n);
  const Value d = b.sub(x, keep_dims(b, mean, x, dims));
  const Value squares = is_complex(x.dtype()) ? b.add(square(b, b.real(d)), square(b, b.imag(d))) : square(b, d);
  const Value sum = reduce_over(b, Reduce::add, squares, dims, false);
  const double divisor = std::max(0.0, n - a.f("correction", 1));
  Moments m{b.div(sum, divisor), mean};
  if (keepdim(a)) m.variance = keep_dims(b, m.variance, x, dims), m.mean = keep_dims(b, m.mean, x, dims);
  return m;
}
Dtype real_dtype(Args& a) { return real_of(a.tensor("self").dtype()); }

}  // namespace

OP("var.correction", Promote::none, "correction!") { return b.cast(moments(b, a).variance, real_dtype(a)); }
OP("std.correction", Promote::none, "correction!") { return b.cast(b.sqrt(moments(b, a).variance), real_dtype(a)); }
OP("var_mean.correction", Promote::none, "correction!") {
  const Moments m = moments(b, a);
  return {b.cast(m.variance, real_dtype(a)), b.cast(m.mean, a.tensor("self").dtype())};
}
OP("std_mean.correction", Promote::none, "correction!") {
  const Moments m = moments(b, a);
  return {b.cast(b.sqrt(m.variance), real_dtype(a)), b.cast(m.mean, a.tensor("self").dtype())};
}

}  // namespace torchport::ops
