// Dense arrays on the host, of every element type, and the platform that the tests run programs on.
#pragma once
#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "base/shape.h"
#include "exec/runtime.h"
#include "gtest/gtest.h"
#include "pjrt/fixture.h"

namespace torchport::test {

using pjrt::error_of;

inline const std::vector<Dtype>& all_dtypes() {
  static const std::vector<Dtype> all = [] {
    std::vector<Dtype> d;
    for (int i = 0; i < static_cast<int>(Dtype::kCount); ++i) d.push_back(static_cast<Dtype>(i));
    return d;
  }();
  return all;
}

struct Array {
  Type type;
  std::vector<uint8_t> bytes;
  bool operator==(const Array&) const = default;
};

struct FloatLayout {
  int exponent, mantissa;  // bits
  bool infinities;
};
inline FloatLayout layout(Dtype d) {
  switch (d) {
    case Dtype::f16: return {5, 10, true};
    case Dtype::bf16: return {8, 7, true};
    case Dtype::f8e5m2: return {5, 2, true};
    default: return {4, 3, false};  // f8e4m3fn
  }
}

// The bits of a number that the small type holds exactly; tests use no others.
inline uint16_t encode_small(double v, Dtype d) {
  const FloatLayout f = layout(d);
  const uint16_t sign = std::signbit(v) ? 1 << (f.exponent + f.mantissa) : 0;
  if (v == 0) return sign;
  int e = 0;
  const double m = std::frexp(std::fabs(v), &e);  // in [0.5, 1)
  const double scaled = std::ldexp(m, f.mantissa + 1);
  EXPECT_EQ(scaled, std::floor(scaled)) << v << " is not exact in " << name(d);
  const int exponent = e - 1 + (1 << (f.exponent - 1)) - 1;
  EXPECT_GT(exponent, 0) << v << " is too small for " << name(d);
  return static_cast<uint16_t>(sign | exponent << f.mantissa | (static_cast<int>(scaled) - (1 << f.mantissa)));
}
inline double decode_small(uint16_t bits, Dtype d) {
  const FloatLayout f = layout(d);
  const double sign = bits >> (f.exponent + f.mantissa) & 1 ? -1 : 1;
  const int top = (1 << f.exponent) - 1, e = bits >> f.mantissa & top, m = bits & ((1 << f.mantissa) - 1);
  const int bias = (1 << (f.exponent - 1)) - 1;
  if (e == top && f.infinities) return m ? NAN : sign * INFINITY;
  if (e == top && m == (1 << f.mantissa) - 1) return NAN;
  return e == 0 ? sign * std::ldexp(m, 1 - bias - f.mantissa)
                : sign * std::ldexp(m + (1 << f.mantissa), e - bias - f.mantissa);
}

template <class T, class V>
void put(std::vector<uint8_t>& bytes, V v) {
  const T x = static_cast<T>(v);
  const auto* from = reinterpret_cast<const uint8_t*>(&x);
  bytes.insert(bytes.end(), from, from + sizeof x);
}
// V: double, or an integer where a double would not be exact.
template <class V>
void encode(std::vector<uint8_t>& bytes, Dtype d, V v) {
  switch (d) {
    case Dtype::b1: return put<uint8_t>(bytes, v != 0);
    case Dtype::u8: return put<uint8_t>(bytes, v);
    case Dtype::u16: return put<uint16_t>(bytes, v);
    case Dtype::u32: return put<uint32_t>(bytes, v);
    case Dtype::u64: return put<uint64_t>(bytes, v);
    case Dtype::i8: return put<int8_t>(bytes, v);
    case Dtype::i16: return put<int16_t>(bytes, v);
    case Dtype::i32: return put<int32_t>(bytes, v);
    case Dtype::i64: return put<int64_t>(bytes, v);
    case Dtype::f32: return put<float>(bytes, v);
    case Dtype::f64: return put<double>(bytes, v);
    case Dtype::c64: return put<float>(bytes, v), put<float>(bytes, 0);
    case Dtype::c128: return put<double>(bytes, v), put<double>(bytes, 0);
    case Dtype::f16:
    case Dtype::bf16: return put<uint16_t>(bytes, encode_small(static_cast<double>(v), d));
    default: return put<uint8_t>(bytes, encode_small(static_cast<double>(v), d));
  }
}
template <class T>
T take(const uint8_t* at) {
  T x;
  std::memcpy(&x, at, sizeof x);
  return x;
}
inline std::complex<double> decode(Dtype d, const uint8_t* at) {
  switch (d) {
    case Dtype::b1:
    case Dtype::u8: return *at;
    case Dtype::u16: return take<uint16_t>(at);
    case Dtype::u32: return take<uint32_t>(at);
    case Dtype::u64: return static_cast<double>(take<uint64_t>(at));
    case Dtype::i8: return take<int8_t>(at);
    case Dtype::i16: return take<int16_t>(at);
    case Dtype::i32: return take<int32_t>(at);
    case Dtype::i64: return static_cast<double>(take<int64_t>(at));
    case Dtype::f32: return take<float>(at);
    case Dtype::f64: return take<double>(at);
    case Dtype::c64: return take<std::complex<float>>(at);
    case Dtype::c128: return take<std::complex<double>>(at);
    case Dtype::f16:
    case Dtype::bf16: return decode_small(take<uint16_t>(at), d);
    default: return decode_small(*at, d);
  }
}

template <class V = double>
Array array(Dtype d, const Dims& dims, const std::vector<V>& values) {
  Array a{{d, dims}, {}};
  EXPECT_EQ(numel(dims), static_cast<int64_t>(values.size()));
  for (V v : values) encode(a.bytes, d, v);
  return a;
}
inline Array array(Dtype d, const Dims& dims, std::initializer_list<double> values) {
  return array(d, dims, std::vector<double>(values));
}
inline Array counting(Dtype d, const Dims& dims, double first = 0) {
  std::vector<double> v(static_cast<size_t>(numel(dims)));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + static_cast<double>(i);
  return array(d, dims, v);
}
inline std::vector<std::complex<double>> complex_values(const Array& a) {
  std::vector<std::complex<double>> out;
  const size_t width = size_of(a.type.dtype);
  for (size_t at = 0; at < a.bytes.size(); at += width) out.push_back(decode(a.type.dtype, a.bytes.data() + at));
  return out;
}
inline std::vector<double> values(const Array& a) {
  std::vector<double> out;
  for (const auto& c : complex_values(a)) out.push_back(c.real());
  return out;
}
template <class T>
std::vector<T> words(const Array& a) {  // exact, where a double is not
  std::vector<T> out(a.bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), a.bytes.data(), a.bytes.size());
  return out;
}

// The process's runtime, on the CPU plugin.
inline exec::Runtime& runtime() {
  static exec::Runtime& opened = []() -> exec::Runtime& {
    pjrt::set_search_path(pjrt::test_search_path());
    ::setenv("TORCHPORT_PLATFORM", "cpu", 1);
    return exec::Runtime::get();
  }();
  return opened;
}
inline pjrt::BufferPtr send(const Array& a, int device = 0) {
  return runtime().client().to_device(a.bytes.data(), a.type.dtype, a.type.dims.data(), a.type.dims.size(),
                                      runtime().device(device));
}
inline Array fetch(const pjrt::BufferPtr& buffer, const Type& type) {
  Array a{type, std::vector<uint8_t>(static_cast<size_t>(type.numel()) * size_of(type.dtype))};
  buffer->to_host(a.bytes.data(), a.bytes.size());
  return a;
}

}  // namespace torchport::test
