#include "aten/collector.h"

#include <ATen/ops/scalar_tensor.h>
#include <c10/core/Scalar.h>

#include <cstring>

namespace torchport::aten {

namespace {

enum class Tag : uint64_t { none = 1, whole, viewed, host, number, fixed };
uint64_t head(Tag tag, uint64_t a, uint64_t b = 0, uint64_t c = 0, uint64_t d = 0) {
  return static_cast<uint64_t>(tag) | a << 8 | b << 16 | c << 32 | d << 48;
}
uint64_t bits(double v) {
  uint64_t u;
  std::memcpy(&u, &v, 8);
  return u;
}
bool special(double v) { return v == 0 || v == 1 || v == -1 || v == 2 || v == -2 || v == 3 || v == 0.5 || v == -0.5; }

// item() without the trip through the dispatcher for the types of Python's numbers.
at::Scalar read_host(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case at::kDouble: return *t.const_data_ptr<double>();
    case at::kLong: return *t.const_data_ptr<int64_t>();
    case at::kFloat: return *t.const_data_ptr<float>();
    case at::kBool: return *t.const_data_ptr<bool>();
    default: return t.item();
  }
}

exec::RuntimeNumber runtime(const at::Scalar& s) {
  exec::RuntimeNumber n;
  if (s.isBoolean())
    n = {graph::Number::Kind::boolean, s.toBool()};
  else if (s.isComplex()) {
    const auto c = s.toComplexDouble();
    n = {graph::Number::Kind::complex, 0, c.real(), c.imag()};
  } else if (s.isFloatingPoint())
    n = {graph::Number::Kind::real, 0, s.toDouble()};
  else if (s.isIntegral(false) && s.type() == c10::ScalarType::UInt64)
    n = {graph::Number::Kind::integer, static_cast<int64_t>(s.toUInt64())};
  else
    n = {graph::Number::Kind::integer, s.toLong()};
  return n;
}

}  // namespace

int Collector::input(Cell& cell) {
  for (size_t i = 0; i < cells.size(); ++i)
    if (cells[i] == &cell) return static_cast<int>(i);
  cells.push_back(&cell);
  held.push_back(cell.buffer);
  if (device < 0) device = cell.device;
  if (device != cell.device) [[unlikely]]
    fail(Code::device_mismatch, "device",
         ::torchport::str("must find all tensors on the same device, but found at least two devices, ", device_name(),
                          ":", device, " and ", device_name(), ":", cell.device,
                          " (Expected all tensors to be on the same device)"));
  if (graph) {
    graph->inputs.push_back(cell.type());
    graph->read.push_back(static_cast<bool>(held.back()));
  }
  return static_cast<int>(cells.size()) - 1;
}

graph::Ref Collector::host_number(const at::Tensor& t) {
  if (t.dim() != 0 || !t.device().is_cpu()) [[unlikely]]
    fail(Code::device_mismatch, "device",
         ::torchport::str("must find all tensors on the same device, but found at least two devices, ", device_name(),
                          " and ", t.device().str(), " (Expected all tensors to be on the same device)"),
         "tensor.to('" + device_name() + "')");
  const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
  const Dtype d = from_torch(t.scalar_type());
  word(head(Tag::host, static_cast<uint64_t>(d), wrapped));
  numbers.push_back(runtime(read_host(t)));
  if (!graph) return {0};
  graph::Value v;
  v.kind = graph::Value::Kind::host_number;
  v.index = static_cast<int>(numbers.size()) - 1;
  v.wrapped = wrapped;
  v.view.dtype = d;
  graph->values.push_back(v);
  return {static_cast<int>(graph->values.size()) - 1};
}

graph::Ref Collector::tensor(const at::Tensor& t) {
  if (!t.defined()) {
    word(head(Tag::none, 0));
    return {};
  }
  if (t.device().type() != kDevice) return host_number(t);
  Cell& cell = cell_of(t);
  ++tensors;
  const int in = input(cell);
  const Dtype d = from_torch(t.scalar_type());
  const auto sizes = t.sizes();
  const int64_t offset = t.storage_offset();
  const bool wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
  const uint64_t flags = static_cast<uint64_t>(in) << 3 | static_cast<uint64_t>(t.is_conj()) << 2 |
                         static_cast<uint64_t>(wrapped) << 1 | static_cast<uint64_t>(static_cast<bool>(held[in]));
  const int first = static_cast<int>(numbers.size());
  bool moving = false;
  if (d == cell.dtype && offset == 0 && t.is_contiguous() && sizes.size() == cell.dims.size() &&
      std::equal(sizes.begin(), sizes.end(), cell.dims.begin())) {
    word(head(Tag::whole, static_cast<uint64_t>(d), sizes.size(), flags & 0xFFFF, flags >> 16));
    for (int64_t s : sizes) word(static_cast<uint64_t>(s));
  } else {
    const auto strides = t.strides();
    graph::ViewPlan plan;
    const int64_t flat =
        d == cell.dtype ? -1
                        : cell.numel() * static_cast<int64_t>(size_of(cell.dtype)) / static_cast<int64_t>(size_of(d));
    graph::plan_view({cell.dims.data(), static_cast<int>(cell.dims.size())}, flat,
                     {sizes.data(), static_cast<int>(sizes.size())}, {strides.data(), static_cast<int>(strides.size())},
                     offset, plan);
    word(head(Tag::viewed, static_cast<uint64_t>(d), sizes.size(), flags & 0xFFFF, flags >> 16));
    word(head(Tag::viewed, static_cast<uint64_t>(cell.dtype), cell.dims.size(), static_cast<uint64_t>(plan.cls)));
    for (int64_t s : cell.dims) word(static_cast<uint64_t>(s));
    for (int64_t s : sizes) word(static_cast<uint64_t>(s));
    for (int64_t s : strides) word(static_cast<uint64_t>(s));
    auto start = [&](int64_t v) { numbers.push_back({graph::Number::Kind::integer, v}), moving = true; };
    if (plan.cls == graph::ViewClass::gather) start(offset);
    if (plan.cls == graph::ViewClass::box)
      for (int i = 0; i < plan.count; ++i)
        if (plan.has_start(i)) start(plan.starts[i]);
  }
  if (!graph) return {0};
  graph::Value v;
  v.index = in;
  v.wrapped = wrapped;
  v.conjugated = t.is_conj();  // torch lets its matrix products see the lazy bit
  v.view = {d, sizes.vec(), t.strides().vec(), offset, moving ? first : -1};
  graph->values.push_back(v);
  return {static_cast<int>(graph->values.size()) - 1};
}

void Collector::write(const at::Tensor& dst, graph::Ref value) {
  // the geometry of the read is the geometry of the write
  for (const graph::Value& v : graph->values)
    if (v.kind == graph::Value::Kind::input && cells[v.index] == &cell_of(dst) && v.view.sizes == dst.sizes().vec() &&
        v.view.strides == dst.strides().vec() && v.view.offset == dst.storage_offset() &&
        v.view.dtype == from_torch(dst.scalar_type())) {
      graph->writes.push_back({value.id, v.index, v.view});
      return;
    }
  fail(Code::internal, "write", "must have walked the written tensor");
}

void Collector::scalar(const ArgSpec& spec, const at::Scalar& s, graph::Attr* out) {
  const exec::RuntimeNumber n = runtime(s);
  const bool real = n.kind == graph::Number::Kind::real, complex = n.kind == graph::Number::Kind::complex;
  const double v = real || complex ? n.re : static_cast<double>(n.i);
  const bool fixed =
      !complex && (spec.mark == '!' || (spec.mark == '~' && special(v)) || (spec.standard && *spec.standard == v));
  graph::Number attr;
  attr.kind = n.kind;
  if (fixed || (complex && spec.mark == '!')) {
    word(head(Tag::fixed, static_cast<uint64_t>(n.kind)));
    word(real || complex ? bits(n.re) : static_cast<uint64_t>(n.i));
    if (complex) word(bits(n.im));
    attr.i = n.i, attr.c = {n.re, n.im};
  } else {
    word(head(Tag::number, static_cast<uint64_t>(n.kind)));
    attr.runtime = static_cast<int>(numbers.size());
    numbers.push_back(n);
  }
  if (out) *out = attr;
}

void Collector::number(const ArgSpec& spec, const c10::IValue& v, graph::Attr* out) {
  if (v.isNone()) {
    word(head(Tag::none, 1));
    return;
  }
  scalar(spec, v.toScalar(), out);
}

}  // namespace torchport::aten
