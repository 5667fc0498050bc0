#include "base/dtype.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace torchport {

namespace {
struct Info {
  std::string_view name, hlo;
  size_t size;
};
constexpr std::array<Info, static_cast<size_t>(Dtype::kCount)> kInfo{{
    {"bool", "i1", 1},
    {"u8", "ui8", 1},
    {"u16", "ui16", 2},
    {"u32", "ui32", 4},
    {"u64", "ui64", 8},
    {"i8", "i8", 1},
    {"i16", "i16", 2},
    {"i32", "i32", 4},
    {"i64", "i64", 8},
    {"f16", "f16", 2},
    {"bf16", "bf16", 2},
    {"f32", "f32", 4},
    {"f64", "f64", 8},
    {"c64", "complex<f32>", 8},
    {"c128", "complex<f64>", 16},
    {"f8e4m3fn", "f8E4M3FN", 1},
    {"f8e5m2", "f8E5M2", 1},
}};
const Info& info(Dtype d) { return kInfo[static_cast<size_t>(d)]; }
}  // namespace

std::string_view name(Dtype d) { return info(d).name; }
std::string_view hlo_name(Dtype d) { return info(d).hlo; }
size_t size_of(Dtype d) { return info(d).size; }

Dtype real_of(Dtype d) { return d == Dtype::c64 ? Dtype::f32 : d == Dtype::c128 ? Dtype::f64 : d; }
Dtype complex_of(Dtype d) { return is_complex(d) ? d : d == Dtype::f64 ? Dtype::c128 : Dtype::c64; }
Dtype opmath(Dtype d) { return is_float(d) && size_of(d) < 4 ? Dtype::f32 : d; }

Dtype promote(Dtype a, Dtype b) {
  if (a == b) return a;
  auto refuse = [&](const char* what) {
    fail(Code::dtype_mismatch, "promotion",
         str("must promote element types that torch promotes, got ", name(a), " and ", name(b), ": ", what),
         "x.to(dtype)");
  };
  auto f8 = [](Dtype d) { return is_float(d) && size_of(d) == 1; };
  auto barebones = [](Dtype d) { return d == Dtype::u16 || d == Dtype::u32 || d == Dtype::u64; };
  if (f8(a) || f8(b)) refuse("Promotion for Float8 Types is not supported");
  if ((barebones(a) && !is_float(b)) || (barebones(b) && !is_float(a)))
    refuse("Promotion for uint16, uint32, uint64 types is not supported");
  auto rank = [](Dtype d) { return is_bool(d) ? 0 : is_int(d) ? 1 : is_float(d) ? 2 : 3; };
  if (rank(a) < rank(b)) std::swap(a, b);
  if (rank(a) > rank(b)) {  // the higher category wins; a double keeps its precision when it turns complex
    if (is_complex(a) && b == Dtype::f64) return Dtype::c128;
    return a;
  }
  if (is_complex(a)) return Dtype::c128;
  if (is_float(a)) {
    if (size_of(a) == size_of(b)) return Dtype::f32;  // f16 with bf16 meet in f32
    return size_of(a) > size_of(b) ? a : b;
  }
  if (a == Dtype::u8 || b == Dtype::u8) return a == Dtype::i8 || b == Dtype::i8 ? Dtype::i16 : a == Dtype::u8 ? b : a;
  return size_of(a) > size_of(b) ? a : b;
}

}  // namespace torchport
