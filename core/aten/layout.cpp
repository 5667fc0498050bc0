#include "aten/layout.h"

#include <ATen/TensorIterator.h>
#include <ATen/core/stack.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "aten/cell.h"

namespace torchport::aten {

namespace {

// The same geometry without data. Numbers that live on the host stay: they bring no layout.
at::Tensor meta_of(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != kDevice) return t;
  at::Tensor m = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
  if (t.unsafeGetTensorImpl()->is_wrapped_number()) m.unsafeGetTensorImpl()->set_wrapped_number(true);
  return m;
}

c10::IValue meta_of(const c10::IValue& v) {
  if (v.isTensor()) return meta_of(v.toTensor());
  if (v.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : v.toTensorVector()) list.push_back(meta_of(t));
    return list;
  }
  if (v.isList() && v.toList().elementType()->kind() == c10::TypeKind::OptionalType) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& e : v.toListRef())
      list.push_back(e.isNone() ? std::nullopt : std::optional(meta_of(e.toTensor())));
    return list;
  }
  if (v.isDevice()) return c10::Device(c10::kMeta);
  return v;
}

// Outermost first, by stride; empty when that is the order of the dimensions, or when memory has gaps.
Dims order_of(const at::Tensor& t) {
  if (t.is_contiguous() || !t.is_non_overlapping_and_dense()) return {};
  const auto strides = t.strides();
  Dims order(t.dim());
  for (int64_t i = 0; i < t.dim(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    // A dimension of one element has a stride like any other, and may share it with the next one inside.
    return strides[a] != strides[b] ? strides[a] > strides[b] : t.size(a) < t.size(b);
  });
  return order;
}

// The meta kernels of convolutions leave channels_last out; the CPU keeps it in every result of that rank when the
// input or the weight has it.
bool convolves_channels_last(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args) {
  const std::string& name = op.schema().name();
  if (name.rfind("aten::convolution", 0) != 0) return false;
  const size_t input = name.find("backward") == std::string::npos ? 0 : 1;
  for (size_t k : {input, input + 1})
    if (const auto format = args[k].toTensor().suggest_memory_format();
        format == at::MemoryFormat::ChannelsLast || format == at::MemoryFormat::ChannelsLast3d)
      return true;
  return false;
}
Dims channels_last(size_t rank) {
  if (rank < 4) return {};
  Dims order{0};
  for (size_t i = 2; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  order.push_back(1);
  return order;
}

// Every tensor among the arguments that has an order: those of the device.
std::vector<at::Tensor> operands_of(at::ArrayRef<c10::IValue> args) {
  std::vector<at::Tensor> found;
  auto take = [&](const at::Tensor& t) {
    if (t.defined() && t.device().type() == kDevice) found.push_back(t);
  };
  for (const c10::IValue& v : args) {
    if (v.isTensor()) take(v.toTensor());
    if (v.isList())
      for (const c10::IValue& e : v.toListRef())
        if (e.isTensor()) take(e.toTensor());
  }
  return found;
}

// TensorIterator's rule for an elementwise op, asked of itself.
Dims pointwise_order(const std::vector<at::Tensor>& operands) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).declare_static_dtype_and_device(at::kFloat,
                                                                                                  at::kMeta);
  config.add_owned_output(at::Tensor());
  for (const at::Tensor& t : operands) config.add_owned_const_input(meta_of(t));
  return order_of(config.build().output());
}

struct Silence final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

std::vector<Dims> memory_orders(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> args,
                                const std::vector<Dims>& results, bool own_order) {
  std::vector<Dims> orders(results.size());
  if (convolves_channels_last(op, args)) {
    for (size_t i = 0; i < results.size(); ++i) orders[i] = channels_last(results[i].size());
    return orders;
  }
  const std::vector<at::Tensor> operands = operands_of(args);
  const bool in_order = std::all_of(operands.begin(), operands.end(), [](const auto& t) { return t.is_contiguous(); });
  if (in_order && !own_order) return orders;  // spares the time that meta kernels in Python take
  if (op.hasTag(at::Tag::pointwise) && results.size() == 1) {
    const Dims order = pointwise_order(operands);
    if (order.size() == results[0].size()) orders[0] = order;
    return orders;
  }
  torch::jit::Stack stack;
  try {
    for (const c10::IValue& v : args) stack.push_back(meta_of(v));
    Silence silence;
    c10::WarningUtils::WarningHandlerGuard quiet(&silence);
    c10::impl::ExcludeDispatchKeyGuard below(c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::python_ks |
                                             c10::DispatchKeySet(c10::DispatchKey::Functionalize));
    op.callBoxed(stack);
  } catch (const std::exception&) {  // no meta kernel, or a shape that depends on values: memory in order
    return orders;
  }
  std::vector<at::Tensor> tensors;
  for (const c10::IValue& v : stack) {
    if (v.isTensor()) tensors.push_back(v.toTensor());
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector()) tensors.push_back(t);
  }
  for (size_t i = 0; i < std::min(tensors.size(), orders.size()); ++i)
    if (tensors[i].defined() && tensors[i].sizes() == at::IntArrayRef(results[i])) orders[i] = order_of(tensors[i]);
  return orders;
}

}  // namespace torchport::aten
