// Fused optimiser steps and loss scaling: a whole list of parameters in one program. The learning rate is a runtime
// operand.
#include <cmath>

#include "ops/op.h"

namespace torchport::ops {

namespace {

constexpr const char* kMarks = "lr? weight_decay~ momentum~ dampening~ lr_decay~";

// One parameter's tensors in the type of computation, written back in their own, and not at all when a gradient
// overflowed.
class Step {
 public:
  Step(Builder& b, Args& a) : b_(b), a_(a) {
    const Value inf = a.tensor("found_inf");
    if (inf) skip_ = b.compare(Cmp::ne, b.reshape(inf, {}), 0);
    if (const Value scale = a.tensor("grad_scale")) grad_scale_ = b.reshape(scale, {});
  }

  void begin(size_t k, const Value& param) { k_ = k, wide_ = opmath(param.dtype()); }
  Dtype wide() const { return wide_; }
  Value wide(const Value& x) { return b_.cast(x, wide_); }
  Value number(const char* name) { return a_.number(name, wide_); }

  // The gradient, unscaled (and left so, as GradScaler expects), with its sign and weight decay.
  Value gradient(const Value& raw, const Value& param, bool decay) {
    Value g = wide(raw);
    if (grad_scale_) {
      g = b_.div(g, b_.cast(grad_scale_, wide_));
      write("grads", raw, g);
    }
    if (a_.flag("maximize")) g = b_.neg(g);
    if (decay && !a_.is("weight_decay", 0)) g = b_.add(g, b_.mul(wide(param), number("weight_decay")));
    return g;
  }
  void write(const char* list, const Value& old, const Value& fresh) {
    const Value v = b_.cast(fresh, old.dtype());
    a_.assign(list, k_, skip_ ? b_.select(skip_, old, v) : v);
  }

 private:
  Builder& b_;
  Args& a_;
  Value skip_, grad_scale_;
  size_t k_ = 0;
  Dtype wide_ = Dtype::f32;
};

void check_lists(Args& a, size_t count, std::initializer_list<std::pair<const char*, const Values*>> lists) {
  for (const auto& [name, list] : lists)
    a.check(list->size() == count, Code::bad_value,
            str(name, " must have one entry a parameter, got ", list->size(), " for ", count));
}

// 1 - beta^step without the cancellation that a short type would suffer.
Value bias_correction(Builder& b, const Value& step, double beta) {
  if (beta == 0) return b.like(step, 1);
  return b.neg(b.expm1(b.mul(step, std::log(beta))));
}

Result adam(Builder& b, Args& a, bool decoupled) {
  const Values params = a.tensors("self"), grads = a.tensors("grads"), averages = a.tensors("exp_avgs"),
               squares = a.tensors("exp_avg_sqs"), maxima = a.tensors("max_exp_avg_sqs"),
               steps = a.tensors("state_steps");
  const bool amsgrad = a.flag("amsgrad");
  const double beta1 = a.f("beta1"), beta2 = a.f("beta2"), eps = a.f("eps");
  check_lists(a, params.size(),
              {{"grads", &grads}, {"exp_avgs", &averages}, {"exp_avg_sqs", &squares}, {"state_steps", &steps}});
  if (amsgrad) check_lists(a, params.size(), {{"max_exp_avg_sqs", &maxima}});
  Step s(b, a);
  for (size_t k = 0; k < params.size(); ++k) {
    s.begin(k, params[k]);
    const Value grad = s.gradient(grads[k], params[k], !decoupled), step = b.reshape(s.wide(steps[k]), {}),
                lr = s.number("lr");
    Value p = s.wide(params[k]);
    if (decoupled && !a.is("weight_decay", 0)) p = b.sub(p, b.mul(p, b.mul(lr, s.number("weight_decay"))));
    const Value old = s.wide(averages[k]), average = b.add(old, b.mul(b.sub(grad, old), 1 - beta1));
    const Value square = b.add(b.mul(s.wide(squares[k]), beta2), b.mul(b.mul(grad, grad), 1 - beta2));
    Value second = square;
    if (amsgrad) {
      second = b.max(s.wide(maxima[k]), square);
      s.write("max_exp_avg_sqs", maxima[k], second);
    }
    const Value denominator = b.add(b.div(b.sqrt(second), b.sqrt(bias_correction(b, step, beta2))), eps);
    p = b.sub(p, b.div(b.mul(b.div(lr, bias_correction(b, step, beta1)), average), denominator));
    s.write("self", params[k], p);
    s.write("exp_avgs", averages[k], average);
    s.write("exp_avg_sqs", squares[k], square);
  }
  return Values{};
}

}  // namespace

OP("_fused_adam_ _fused_adam_.tensor_lr", Promote::none, kMarks) { return adam(b, a, false); }
OP("_fused_adamw_ _fused_adamw_.tensor_lr", Promote::none, kMarks) { return adam(b, a, true); }

OP("_fused_sgd_ _fused_sgd_.tensor_lr", Promote::none, kMarks) {
  const Values params = a.tensors("self"), grads = a.tensors("grads"), buffers = a.tensors("momentum_buffer_list");
  const bool momentum = !a.is("momentum", 0), first = a.flag("is_first_step");
  check_lists(a, params.size(), {{"grads", &grads}});
  if (momentum) check_lists(a, params.size(), {{"momentum_buffer_list", &buffers}});
  Step s(b, a);
  for (size_t k = 0; k < params.size(); ++k) {
    s.begin(k, params[k]);
    Value grad = s.gradient(grads[k], params[k], true);
    if (momentum) {
      Value buffer = grad;
      if (!first) {
        const Value fresh = a.is("dampening", 0) ? grad : b.mul(grad, b.rsub(1, s.number("dampening")));
        buffer = b.add(b.mul(s.wide(buffers[k]), s.number("momentum")), fresh);
      }
      s.write("momentum_buffer_list", buffers[k], buffer);
      grad = a.flag("nesterov") ? b.add(grad, b.mul(buffer, s.number("momentum"))) : buffer;
    }
    s.write("self", params[k], b.sub(s.wide(params[k]), b.mul(grad, s.number("lr"))));
  }
  return Values{};
}

OP("_fused_adagrad_ _fused_adagrad_.tensor_lr", Promote::none, kMarks) {
  const Values params = a.tensors("self"), grads = a.tensors("grads"), sums = a.tensors("state_sums"),
               steps = a.tensors("state_steps");
  check_lists(a, params.size(), {{"grads", &grads}, {"state_sums", &sums}, {"state_steps", &steps}});
  Step s(b, a);
  for (size_t k = 0; k < params.size(); ++k) {
    s.begin(k, params[k]);
    const Value grad = s.gradient(grads[k], params[k], true);
    Value lr = s.number("lr");
    if (!a.is("lr_decay", 0))
      lr = b.div(lr, b.add(b.mul(b.sub(b.reshape(s.wide(steps[k]), {}), 1), s.number("lr_decay")), 1));
    const Value sum = b.add(s.wide(sums[k]), b.mul(grad, grad));
    s.write("self", params[k], b.sub(s.wide(params[k]), b.div(b.mul(grad, lr), b.add(b.sqrt(sum), a.f("eps")))));
    s.write("state_sums", sums[k], sum);
  }
  return Values{};
}

// ---- loss scaling

OP("_amp_foreach_non_finite_check_and_unscale_") {
  const Values grads = a.tensors("self");
  const Value found = a.tensor("found_inf"), scale = b.reshape(a.tensor("inv_scale"), {});
  a.check(found.numel() == 1, Code::bad_value, str("found_inf must have 1 element, got ", text(found.type())));
  Value bad = b.compare(Cmp::ne, b.reshape(found, {}), 0);
  for (size_t k = 0; k < grads.size(); ++k) {
    const Value g = grads[k];
    a.check(is_float(g.dtype()), Code::dtype_unsupported,
            str("must get floating point gradients, got ", text(g.type())));
    Dims all;
    for (int64_t d = 0; d < g.rank(); ++d) all.push_back(d);
    bad = b.bit_or(bad, b.reduce(Reduce::any, b.logical_not(b.is_finite(g)), all));
    const Dtype w = opmath(g.dtype());
    a.assign("self", k, b.cast(b.mul(b.cast(g, w), b.cast(scale, w)), g.dtype()));
  }
  a.assign("found_inf", b.reshape(b.cast(bad, found.dtype()), found.dims()));
  return Values{};
}

OP("_amp_update_scale_", Promote::none, "scale_growth_factor! scale_backoff_factor!") {
  const Value scale = a.tensor("self"), tracker = a.tensor("growth_tracker"), found = a.tensor("found_inf");
  for (const Value& v : {scale, tracker, found})
    a.check(v.numel() == 1, Code::bad_value, str("must get tensors of 1 element, got ", text(v.type())));
  const Value bad = b.compare(Cmp::ne, b.reshape(found, scale.dims()), 0);
  const Value good = b.add(tracker, 1),
              due = b.compare(Cmp::eq, b.reshape(good, scale.dims()), static_cast<double>(a.i("growth_interval")));
  const Value grown = b.mul(scale, a.f("scale_growth_factor"));
  const Value kept = b.select(b.bit_and(due, b.is_finite(grown)), grown, scale);  // growth stops below infinity
  const Value count = b.select(b.reshape(b.bit_or(bad, due), tracker.dims()), b.like(tracker, 0), good);
  return {b.select(bad, b.mul(scale, a.f("scale_backoff_factor")), kept), count};
}

}  // namespace torchport::ops
