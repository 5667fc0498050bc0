// Tensors without values: a cell that has no buffer yet.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/kernel.h"

namespace torchport::aten {

namespace {

int device_index(std::optional<c10::Device> d) { return d && d->has_index() ? d->index() : current_device(); }

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pinned, const char* where) {
  check(!layout || *layout == c10::kStrided, Code::layout_unsupported, where,
        ::torchport::str("layout must be torch.strided, got ", layout.value_or(c10::kStrided)),
        "make the dense tensor");
  check(!pinned || !*pinned, Code::bad_value, where,
        "pin_memory must be False for a device tensor: only dense CPU tensors can be pinned");
}
void check_sizes(at::IntArrayRef sizes, Dtype d, int device, const char* where) {
  int64_t bytes = static_cast<int64_t>(size_of(d));
  for (int64_t s : sizes) {
    check(s >= 0, Code::bad_value, where,
          ::torchport::str("sizes must not be negative (Trying to create tensor with negative dimension ", s, "), got ",
                           text(sizes.vec())));
    if (__builtin_mul_overflow(bytes, s, &bytes)) bytes = std::numeric_limits<int64_t>::max() / 2;
  }
  exec::Runtime::get().device(device).reserve(bytes, where);
}

at::Tensor empty(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                 std::optional<c10::Device> device, std::optional<bool> pinned,
                 std::optional<at::MemoryFormat> format) {
  return guarded([&] {
    check_options(layout, pinned, "empty");
    const auto sizes = C10_AS_INTARRAYREF_SLOW(size);
    const Dtype d = from_torch(c10::dtype_or_default(dtype));
    const int index = device_index(device);
    check_sizes(sizes, d, index, "empty");
    if (!format || *format == at::MemoryFormat::Contiguous || *format == at::MemoryFormat::Preserve)
      return make_tensor({}, d, sizes, index);
    at::Tensor shape = at::empty(sizes, at::TensorOptions().device(at::kMeta).dtype(to_torch(d)), format);
    return make_strided(d, sizes, shape.strides(), index);
  });
}
at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<c10::ScalarType> dtype,
                         std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                         std::optional<bool> pinned) {
  return guarded([&] {
    check_options(layout, pinned, "empty_strided");
    const auto sizes = C10_AS_INTARRAYREF_SLOW(size), strides = C10_AS_INTARRAYREF_SLOW(stride);
    check(sizes.size() == strides.size(), Code::bad_value, "empty_strided",
          ::torchport::str("sizes and strides must have one length, got ", sizes.size(), " and ", strides.size()));
    const Dtype d = from_torch(c10::dtype_or_default(dtype));
    const int index = device_index(device);
    check_sizes(sizes, d, index, "empty_strided");
    return make_strided(d, sizes, strides, index);
  });
}

// torch's lazy zeros: a cell that nobody has written reads as zeros already.
at::Tensor efficient_zeros(c10::SymIntArrayRef size, std::optional<c10::ScalarType> dtype,
                           std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                           std::optional<bool> pinned) {
  return empty(size, dtype, layout, device, pinned, std::nullopt);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zeros));
}

}  // namespace torchport::aten
