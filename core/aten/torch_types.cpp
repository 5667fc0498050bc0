#include "aten/torch_types.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <array>

namespace torchport::aten {

namespace {
using S = c10::ScalarType;
constexpr std::array<S, static_cast<size_t>(Dtype::kCount)> kTorch{
    S::Bool,   S::Byte,         S::UInt16,        S::UInt32,        S::UInt64,     S::Char,
    S::Short,  S::Int,          S::Long,          S::Half,          S::BFloat16,   S::Float,
    S::Double, S::ComplexFloat, S::ComplexDouble, S::Float8_e4m3fn, S::Float8_e5m2};
constexpr auto kOurs = [] {
  std::array<int8_t, static_cast<size_t>(S::NumOptions)> t{};
  for (auto& e : t) e = -1;
  for (size_t i = 0; i < kTorch.size(); ++i) t[static_cast<size_t>(kTorch[i])] = static_cast<int8_t>(i);
  return t;
}();
}  // namespace

Dtype from_torch(S s) {
  const int8_t d = static_cast<size_t>(s) < kOurs.size() ? kOurs[static_cast<size_t>(s)] : -1;
  if (d < 0) [[unlikely]]
    fail(Code::dtype_unsupported, "dtype", ::torchport::str("must be one of the plain dtypes, got ", c10::toString(s)),
         "tensor.dequantize() or .to(another dtype) first");
  return static_cast<Dtype>(d);
}
S to_torch(Dtype d) { return kTorch[static_cast<size_t>(d)]; }

std::string device_name() { return c10::DeviceTypeName(kDevice, true); }

void rethrow(const Error& e) {
  const c10::SourceLocation at{e.where.c_str(), "", 0};
  const std::string message = e.what();
  switch (info(e.code).raise) {
    case Raise::value_error: throw c10::ValueError(at, message);
    case Raise::index_error: throw c10::IndexError(at, message);
    case Raise::type_error: throw c10::TypeError(at, message);
    case Raise::not_implemented_error: throw c10::NotImplementedError(at, message);
    case Raise::out_of_memory_error: throw c10::OutOfMemoryError(at, message);
    default: throw c10::Error(at, message);
  }
}

Type type_of(const at::Tensor& t) { return {from_torch(t.scalar_type()), t.sizes().vec()}; }

}  // namespace torchport::aten
