// Overloads that are another op under a second name, or whose schema differs from their functional form's so that
// register.cpp cannot derive them.
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool3d.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward.h>
#include <ATen/ops/_batch_norm_with_update.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/_slow_conv2d_forward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/lshift.h>
#include <ATen/ops/narrow_copy.h>
#include <ATen/ops/rrelu_with_noise.h>
#include <ATen/ops/rshift.h>
#include <ATen/ops/slow_conv3d_forward.h>
#include <ATen/ops/slow_conv_transpose2d.h>
#include <ATen/ops/slow_conv_transpose3d.h>
#include <torch/library.h>

#include <cmath>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using Sizes = c10::SymIntArrayRef;

Tensor& narrow_copy_out(const Tensor& self, int64_t dim, c10::SymInt start, c10::SymInt length, Tensor& out) {
  store_out(out, self.narrow_symint(dim, std::move(start), std::move(length)), "narrow_copy");
  return out;
}

// Both ends included, unlike arange.
Tensor& range_out(const at::Scalar& start, const at::Scalar& end, const at::Scalar& step, Tensor& out) {
  return guarded([&]() -> Tensor& {
    const double first = start.toDouble(), last = end.toDouble(), by = step.toDouble();
    check(by != 0, Code::bad_value, "range", "step must be nonzero, got 0");
    check(std::isfinite(first) && std::isfinite(last), Code::bad_value, "range",
          ::torchport::str("must get a finite range (unsupported range), got ", first, " to ", last));
    check(
        by > 0 ? last >= first : last <= first, Code::bad_value, "range",
        ::torchport::str("the ends must fit the sign of the step (upper bound and larger bound inconsistent with step "
                         "sign), got ",
                         first, ", ", last, " and ", by));
    const auto count = static_cast<int64_t>((last - first) / by + 1);
    const bool whole = c10::isIntegralType(out.scalar_type(), false);
    const Tensor place = at::arange(count, out.options().dtype(whole ? at::kLong : at::kDouble));
    store_out(out, place.mul(step).add(start).to(out.scalar_type()), "range");
    return out;
  });
}

Tensor& rrelu_out(const Tensor& self, Tensor& noise, const at::Scalar& lower, const at::Scalar& upper, bool training,
                  std::optional<at::Generator> generator, Tensor& out) {
  store_out(out, at::rrelu_with_noise(self, noise, lower, upper, training, std::move(generator)), "rrelu_with_noise");
  return out;
}

Tensor& adaptive_avg_pool2d_out(const Tensor& self, Sizes size, Tensor& out) {
  store_out(out, at::_adaptive_avg_pool2d_symint(self, size), "adaptive_avg_pool2d");
  return out;
}
Tensor& adaptive_avg_pool3d_out(const Tensor& self, Sizes size, Tensor& out) {
  store_out(out, at::_adaptive_avg_pool3d_symint(self, size), "adaptive_avg_pool3d");
  return out;
}
Tensor& adaptive_avg_pool3d_backward_out(const Tensor& grad, const Tensor& self, Tensor& out) {
  store_out(out, at::_adaptive_avg_pool3d_backward(grad, self), "adaptive_avg_pool3d_backward");
  return out;
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> batch_norm_with_update_out(
    const Tensor& input, const MaybeTensor& weight, const MaybeTensor& bias, Tensor& running_mean, Tensor& running_var,
    double momentum, double eps, Tensor& out, Tensor& save_mean, Tensor& save_invstd, Tensor& reserve) {
  const auto r = at::_batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps);
  const std::string where = "_batch_norm_with_update";
  store_out(out, std::get<0>(r), where), store_out(save_mean, std::get<1>(r), where);
  store_out(save_invstd, std::get<2>(r), where), store_out(reserve, std::get<3>(r), where);
  return {out, save_mean, save_invstd, reserve};
}

std::tuple<Tensor&, Tensor&, Tensor&> batch_norm_legit_out(const Tensor& input, const MaybeTensor& weight,
                                                           const MaybeTensor& bias, Tensor& running_mean,
                                                           Tensor& running_var, bool training, double momentum,
                                                           double eps, Tensor& out, Tensor& save_mean,
                                                           Tensor& save_invstd) {
  const auto r = at::_native_batch_norm_legit(input, weight, bias, running_mean, running_var, training, momentum, eps);
  const std::string where = "_native_batch_norm_legit";
  store_out(out, std::get<0>(r), where), store_out(save_mean, std::get<1>(r), where);
  store_out(save_invstd, std::get<2>(r), where);
  return {out, save_mean, save_invstd};
}

template <class Other>
Tensor& shift_left(Tensor& self, const Other& other) {
  return self.copy_(at::__lshift__(self, other));
}
template <class Other>
Tensor& shift_right(Tensor& self, const Other& other) {
  return self.copy_(at::__rshift__(self, other));
}

// ---- convolution by its older names: without a batch as well, and the size of the kernel said twice

Tensor convolve(const Tensor& self, const Tensor& weight, const MaybeTensor& bias, Sizes stride, Sizes padding,
                Sizes dilation, bool transposed, Sizes output_padding) {
  const bool batched = self.dim() == weight.dim();
  const Tensor y = at::convolution_symint(batched ? self : self.unsqueeze(0), weight, bias, stride, padding, dilation,
                                          transposed, output_padding, 1);
  return batched ? y : y.squeeze(0);
}
template <int kSpatial>
Tensor plain(const Tensor& self, const Tensor& weight, Sizes, const MaybeTensor& bias, Sizes stride, Sizes padding) {
  const std::vector<c10::SymInt> ones(kSpatial, 1), zeros(kSpatial, 0);
  return convolve(self, weight, bias, stride, padding, ones, false, zeros);
}
template <int kSpatial>
Tensor& plain_out(const Tensor& self, const Tensor& weight, Sizes kernel, const MaybeTensor& bias, Sizes stride,
                  Sizes padding, Tensor& out) {
  store_out(out, plain<kSpatial>(self, weight, kernel, bias, stride, padding), "convolution");
  return out;
}
template <int kSpatial>
Tensor dilated(const Tensor& self, const Tensor& weight, Sizes, const MaybeTensor& bias, Sizes stride, Sizes padding,
               Sizes dilation) {
  const std::vector<c10::SymInt> zeros(kSpatial, 0);
  return convolve(self, weight, bias, stride, padding, dilation, false, zeros);
}
Tensor transposed(const Tensor& self, const Tensor& weight, Sizes, const MaybeTensor& bias, Sizes stride, Sizes padding,
                  Sizes output_padding, Sizes dilation) {
  return convolve(self, weight, bias, stride, padding, dilation, true, output_padding);
}
Tensor& transposed_out(const Tensor& self, const Tensor& weight, Sizes kernel, const MaybeTensor& bias, Sizes stride,
                       Sizes padding, Sizes output_padding, Sizes dilation, Tensor& out) {
  store_out(out, transposed(self, weight, kernel, bias, stride, padding, output_padding, dilation), "convolution");
  return out;
}
std::tuple<Tensor, Tensor, Tensor> plain_backward(const Tensor& grad, const Tensor& self, const Tensor& weight, Sizes,
                                                  Sizes stride, Sizes padding, std::array<bool, 3> mask) {
  const bool batched = self.dim() == weight.dim();
  const std::vector<c10::SymInt> ones(2, 1), zeros(2, 0), bias{weight.sym_size(0)};
  auto r =
      at::convolution_backward_symint(batched ? grad : grad.unsqueeze(0), batched ? self : self.unsqueeze(0), weight,
                                      c10::SymIntArrayRef(bias), stride, padding, ones, false, zeros, 1, mask);
  if (!batched && mask[0]) std::get<0>(r) = std::get<0>(r).squeeze(0);
  return r;
}
std::tuple<Tensor&, Tensor&, Tensor&> plain_backward_out(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                         Sizes kernel, Sizes stride, Sizes padding, Tensor& grad_input,
                                                         Tensor& grad_weight, Tensor& grad_bias) {
  const std::array<bool, 3> mask{grad_input.defined(), grad_weight.defined(), grad_bias.defined()};
  const auto r = plain_backward(grad, self, weight, kernel, stride, padding, mask);
  if (mask[0]) store_out(grad_input, std::get<0>(r), "convolution_backward");
  if (mask[1]) store_out(grad_weight, std::get<1>(r), "convolution_backward");
  if (mask[2]) store_out(grad_bias, std::get<2>(r), "convolution_backward");
  return {grad_input, grad_weight, grad_bias};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("narrow_copy.out", TORCH_FN(narrow_copy_out));
  m.impl("range.out", TORCH_FN(range_out));
  m.impl("rrelu_with_noise.out", TORCH_FN(rrelu_out));
  m.impl("adaptive_avg_pool2d.out", TORCH_FN(adaptive_avg_pool2d_out));
  m.impl("adaptive_avg_pool3d.out", TORCH_FN(adaptive_avg_pool3d_out));
  m.impl("adaptive_avg_pool3d_backward.grad_input", TORCH_FN(adaptive_avg_pool3d_backward_out));
  m.impl("_batch_norm_with_update.out", TORCH_FN(batch_norm_with_update_out));
  m.impl("_native_batch_norm_legit.out", TORCH_FN(batch_norm_legit_out));
  m.impl("__ilshift__.Scalar", TORCH_FN(shift_left<at::Scalar>));
  m.impl("__ilshift__.Tensor", TORCH_FN(shift_left<Tensor>));
  m.impl("__irshift__.Scalar", TORCH_FN(shift_right<at::Scalar>));
  m.impl("__irshift__.Tensor", TORCH_FN(shift_right<Tensor>));
  m.impl("_slow_conv2d_forward", TORCH_FN(plain<2>));
  m.impl("_slow_conv2d_forward.output", TORCH_FN(plain_out<2>));
  m.impl("slow_conv3d_forward", TORCH_FN(plain<3>));
  m.impl("slow_conv3d_forward.output", TORCH_FN(plain_out<3>));
  m.impl("slow_conv_dilated2d", TORCH_FN(dilated<2>));
  m.impl("slow_conv_dilated3d", TORCH_FN(dilated<3>));
  m.impl("slow_conv_transpose2d", TORCH_FN(transposed));
  m.impl("slow_conv_transpose2d.out", TORCH_FN(transposed_out));
  m.impl("slow_conv_transpose3d", TORCH_FN(transposed));
  m.impl("slow_conv_transpose3d.out", TORCH_FN(transposed_out));
  m.impl("_slow_conv2d_backward.output_mask", TORCH_FN(plain_backward));
  m.impl("_slow_conv2d_backward.grad_input", TORCH_FN(plain_backward_out));
}

}  // namespace torchport::aten
