// Between torch's types and ours, and the one place where our errors become the exceptions that Python sees.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/shape.h"

namespace torchport::aten {

Dtype from_torch(c10::ScalarType);  // NotImplementedError for types that no platform has
c10::ScalarType to_torch(Dtype);
constexpr c10::DeviceType kDevice = c10::DeviceType::PrivateUse1;
std::string device_name();  // "tpu": the name of PrivateUse1 in this process

[[noreturn]] void rethrow(const Error&);  // as c10::IndexError, c10::ValueError, ...

// Runs f and translates.
template <class F>
decltype(auto) guarded(F&& f) {
  try {
    return f();
  } catch (const Error& e) { rethrow(e); }
}

Type type_of(const at::Tensor&);

}  // namespace torchport::aten
