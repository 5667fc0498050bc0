// Element types: one enum for the whole core; every other spelling (StableHLO, PJRT, torch) is derived from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace torchport {

enum class Dtype : uint8_t {
  b1,
  u8,
  u16,
  u32,
  u64,
  i8,
  i16,
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  c128,
  f8e4m3fn,
  f8e5m2,
  kCount
};

std::string_view name(Dtype);      // "f32": in keys, errors, docs
std::string_view hlo_name(Dtype);  // "f32", "i1", "ui8", "complex<f32>": in StableHLO text
size_t size_of(Dtype);             // bytes of one element

constexpr bool is_bool(Dtype d) { return d == Dtype::b1; }
constexpr bool is_unsigned(Dtype d) { return d >= Dtype::u8 && d <= Dtype::u64; }
constexpr bool is_signed_int(Dtype d) { return d >= Dtype::i8 && d <= Dtype::i64; }
constexpr bool is_int(Dtype d) { return d >= Dtype::u8 && d <= Dtype::i64; }  // without bool
constexpr bool is_integral(Dtype d) { return d <= Dtype::i64; }               // with bool, as torch says
constexpr bool is_complex(Dtype d) { return d == Dtype::c64 || d == Dtype::c128; }
// Real floating point.
constexpr bool is_float(Dtype d) { return d >= Dtype::f16 && !is_complex(d) && d < Dtype::kCount; }
constexpr bool is_half(Dtype d) { return d == Dtype::f16 || d == Dtype::bf16; }

Dtype real_of(Dtype);         // c64 -> f32, c128 -> f64, else itself
Dtype complex_of(Dtype);      // f32 -> c64, f64 -> c128, else c64 for halves
Dtype opmath(Dtype);          // f16, bf16, f8 -> f32, else itself: what PyTorch computes in
Dtype promote(Dtype, Dtype);  // torch.promote_types; Error(dtype_mismatch) for the pairs that it refuses

}  // namespace torchport
