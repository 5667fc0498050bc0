// Writes StableHLO text and infers every result type on the way, so a lowering run on types alone gives the op's output
// shape and dtype. One method an operation, StableHLO's names; the methods of section "torch's rules" add broadcasting
// and casts as PyTorch defines them.
#pragma once
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace torchport::hlo {

class Builder;

// An SSA value: cheap to copy, lives as long as its Builder. A default-made Value stands for "no tensor".
class Value {
 public:
  Value() = default;
  explicit operator bool() const { return builder_ != nullptr; }
  const Type& type() const;
  Dtype dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  int64_t rank() const { return type().rank(); }
  int64_t dim(int64_t i) const { return type().dims[i < 0 ? i + rank() : i]; }
  int64_t numel() const { return type().numel(); }
  bool same(const Value& o) const { return builder_ == o.builder_ && id_ == o.id_; }

 private:
  friend class Builder;
  Value(Builder* b, int id) : builder_(b), id_(id) {}
  Builder* builder_ = nullptr;
  int id_ = -1;
};
using Values = std::vector<Value>;
using Body = std::function<Values(const Values& args)>;  // of a region: block arguments in, returned values out

enum class Cmp { eq, ne, lt, le, gt, ge };
enum class Reduce { add, mul, max, min, all, any };  // all/any on i1

// How a partitioned program's arguments and results lie on its devices, in the compiler's notation: one text each, in
// order, "" where the compiler chooses, which is also what happens to those beyond the lists.
struct Placement {
  int partitions = 1;
  std::vector<std::string> arguments = {}, results = {};
};

struct Window {  // of reduce_window and select_and_scatter; one entry a dimension, empty = ones (zeros for padding)
  Dims size, strides, base_dilation, window_dilation, low, high;
};
struct ConvDims {  // StableHLO's convolution; spatial lists have one entry a spatial dimension
  Dims strides, low, high, lhs_dilation, rhs_dilation;
  int64_t groups = 1, batch_groups = 1;
  // positions: (batch, feature) of the input, (output feature, input feature) of the kernel, (batch, feature) of the
  // output; the remaining dimensions are spatial, in order, unless listed here
  int64_t in_batch = 0, in_feature = 1, k_out = 0, k_in = 1, out_batch = 0, out_feature = 1;
  Dims in_spatial, k_spatial, out_spatial;
  bool reverse_kernel = false;   // window_reversal on every spatial dimension
  Dtype result = Dtype::kCount;  // element type of the result, the input's when not given
};
struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, start_index_map;
  int64_t index_vector_dim = 0;
  bool sorted = false;
  Dims operand_batching_dims, start_indices_batching_dims;
};
struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool sorted = false, unique = false;
  Dims input_batching_dims, scatter_indices_batching_dims;
};

class Builder {
 public:
  Builder();
  Builder(const Builder&) = delete;

  // ---- the function: arguments first, then operations, then finish
  Value argument(const Type&);
  void alias(size_t argument, size_t result);  // the result may take the argument's buffer (donation)
  std::string finish(const Values& results, std::string_view name = "main", const Placement& = {});
  size_t num_arguments() const { return args_.size(); }

  std::string where = "hlo";          // what errors name: the op being lowered
  std::string precision = "HIGHEST";  // of dot_general and convolution on floating point: DEFAULT, HIGH or HIGHEST
  bool uses_precision = false;        // set by those
  bool s64_dot = true;                // they take 64-bit integers; where false, such ones become products and sums

  // ---- constants
  Value constant(double, Dtype, const Dims& = {});       // splat; exact for ints below 2^53
  Value constant_int(int64_t, Dtype, const Dims& = {});  // splat; exact for all 64 bits
  Value constant_complex(double re, double im, Dtype, const Dims& = {});
  Value constants(const std::vector<int64_t>&, Dtype = Dtype::i64);  // 1-d
  Value constants(const std::vector<double>&, Dtype);                // 1-d
  Value zeros(const Type& t) { return constant(0, t.dtype, t.dims); }
  Value like(const Value& x, double v) { return constant(v, x.dtype(), x.dims()); }  // splat of x's type
  Value lowest(Dtype, const Dims& = {});   // -inf, or the smallest integer, or false
  Value highest(Dtype, const Dims& = {});  // +inf, or the largest integer, or true
  Value nan(Dtype, const Dims& = {});
  Value iota(const Type&, int64_t dim);

  // ---- StableHLO, exact types (no broadcasting). `op` is the name without "stablehlo."; "chlo.erf" is taken as it is
  Value unary(std::string_view op, const Value&);
  Value unary(std::string_view op, const Value&, Dtype result);
  Value binary(std::string_view op, const Value&, const Value&);
  Value convert(const Value&, Dtype);  // stablehlo.convert as it is; see cast
  Value bitcast(const Value&, Dtype);  // bitcast_convert; a size change adds or removes the last dimension
  Value reshape(const Value&, const Dims&);
  Value transpose(const Value&, const Dims& perm);
  Value broadcast_in_dim(const Value&, const Dims& result, const Dims& mapping);
  Value slice(const Value&, const Dims& start, const Dims& limit, const Dims& strides = {});
  Value dynamic_slice(const Value&, const Values& starts, const Dims& sizes);  // starts: 0-d integers
  Value dynamic_update_slice(const Value&, const Value& update, const Values& starts);
  Value pad(const Value&, const Value& scalar, const Dims& low, const Dims& high, const Dims& interior = {});
  Value concatenate(const Values&, int64_t dim);
  Value reverse(const Value&, const Dims& dims);
  Value complex(const Value& re, const Value& im);
  Value real(const Value& x) { return is_complex(x.dtype()) ? unary("real", x, real_of(x.dtype())) : x; }
  Value imag(const Value& x) { return is_complex(x.dtype()) ? unary("imag", x, real_of(x.dtype())) : like(x, 0); }
  Value is_finite(const Value& x) { return unary("is_finite", x, Dtype::b1); }
  Value reduce_precision(const Value&, int exponent_bits, int mantissa_bits);
  // Reduces dims away. The general form takes a body over (accumulators..., elements...) of 0-d values.
  Value reduce(Reduce, const Value&, const Dims& dims);
  Values reduce(const Values& inputs, const Values& inits, const Dims& dims, const Body&);
  Value reduce_window(Reduce, const Value&, const Window&);
  Values reduce_window(const Values& inputs, const Values& inits, const Window&, const Body&);
  // For each window the element chosen by `select` (ge: the first maximum) receives source, combined by addition.
  Value select_and_scatter(const Value& operand, const Value& source, const Value& init, const Window&,
                           Cmp select = Cmp::ge);
  Value gather(const Value& operand, const Value& indices, const GatherDims&, const Dims& slice_sizes);
  // body combines (old, update) 0-d values; null body overwrites.
  Value scatter(const Value& operand, const Value& indices, const Value& updates, const ScatterDims&,
                const Body& = nullptr);
  Values sort(const Values&, int64_t dim, bool stable, const Body& less);  // less(a0, b0, a1, b1, ...) -> i1
  Value dot_general(const Value&, const Value&, const Dims& lhs_batch, const Dims& rhs_batch, const Dims& lhs_contract,
                    const Dims& rhs_contract, Dtype result);
  Value convolution(const Value& input, const Value& kernel, const ConvDims&);
  // Philox: state u64[2] (key, counter) -> (new state, bits of dtype u32 or u64)
  std::pair<Value, Value> rng_bits(const Value& state, Dtype, const Dims&);
  Values while_loop(const Values& inits, const Body& condition, const Body& body);
  Values if_else(const Value& pred, const std::function<Values()>& yes, const std::function<Values()>& no);
  Value sharding(const Value&, std::string_view placement);  // the same value, lying on the devices as placement says
  Values optimization_barrier(const Values&);                // the same values; no operation moves or merges across
  Values custom_call(std::string_view target, const Values&, const std::vector<Type>& results,
                     std::string_view config = "");
  Value cholesky(const Value&, bool lower = true);
  Value triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit_diagonal,
                         std::string_view transpose_a = "NO_TRANSPOSE");
  Value fft(const Value&, std::string_view kind, const Dims& lengths);  // kind: FFT, IFFT, RFFT, IRFFT

  // ---- torch's rules: broadcasting between operands of one dtype, casts, wrapped dims
  Value cast(const Value&, Dtype);                // to bool: x != 0; complex to real: the real part; bool to int 0/1
  Value broadcast_to(const Value&, const Dims&);  // expand: aligned at the right
  Value full(const Value& scalar, const Dims&);   // 0-d value to a shape
  Value add(const Value& x, const Value& y) { return broadcasting("add", x, y); }  // on bool: or
  Value sub(const Value& x, const Value& y) { return broadcasting("subtract", x, y); }
  Value mul(const Value& x, const Value& y) { return broadcasting("multiply", x, y); }  // on bool: and
  Value div(const Value& x, const Value& y) { return broadcasting("divide", x, y); }
  Value rem(const Value& x, const Value& y) { return broadcasting("remainder", x, y); }  // sign of x, as C
  Value pow(const Value& x, const Value& y) { return broadcasting("power", x, y); }
  Value max(const Value& x, const Value& y) { return broadcasting("maximum", x, y); }  // NaN wins
  Value min(const Value& x, const Value& y) { return broadcasting("minimum", x, y); }
  Value atan2(const Value& x, const Value& y) { return broadcasting("atan2", x, y); }
  Value bit_and(const Value& x, const Value& y) { return broadcasting("and", x, y); }  // logical on i1
  Value bit_or(const Value& x, const Value& y) { return broadcasting("or", x, y); }
  Value bit_xor(const Value& x, const Value& y) { return broadcasting("xor", x, y); }
  Value shift_left(const Value& x, const Value& y) { return broadcasting("shift_left", x, y); }
  Value shift_right(const Value& x, const Value& y) {
    return broadcasting(is_unsigned(x.dtype()) ? "shift_right_logical" : "shift_right_arithmetic", x, y);
  }
  Value compare(Cmp, const Value&, const Value&);
  Value eq(const Value& x, const Value& y) { return compare(Cmp::eq, x, y); }
  Value ne(const Value& x, const Value& y) { return compare(Cmp::ne, x, y); }
  Value lt(const Value& x, const Value& y) { return compare(Cmp::lt, x, y); }
  Value le(const Value& x, const Value& y) { return compare(Cmp::le, x, y); }
  Value gt(const Value& x, const Value& y) { return compare(Cmp::gt, x, y); }
  Value ge(const Value& x, const Value& y) { return compare(Cmp::ge, x, y); }
  Value select(const Value& pred, const Value& yes, const Value& no);
  Value clamp(const Value& low, const Value& x, const Value& high) { return min(max(x, low), high); }
  // with a number: the number takes x's dtype
  Value add(const Value& x, double v) { return add(x, constant(v, x.dtype())); }
  Value sub(const Value& x, double v) { return sub(x, constant(v, x.dtype())); }
  Value mul(const Value& x, double v) { return mul(x, constant(v, x.dtype())); }
  Value div(const Value& x, double v) { return div(x, constant(v, x.dtype())); }
  Value max(const Value& x, double v) { return max(x, constant(v, x.dtype())); }
  Value min(const Value& x, double v) { return min(x, constant(v, x.dtype())); }
  Value pow(const Value& x, double v) { return pow(x, constant(v, x.dtype())); }
  Value compare(Cmp c, const Value& x, double v) { return compare(c, x, constant(v, x.dtype())); }
  Value rsub(double v, const Value& x) { return sub(constant(v, x.dtype()), x); }
  Value neg(const Value& x) { return unary("negate", x); }
  Value abs(const Value& x);  // of a complex value: its modulus, real
  Value sign(const Value& x) { return unary("sign", x); }
  Value exp(const Value& x) { return unary("exponential", x); }
  Value expm1(const Value& x) { return unary("exponential_minus_one", x); }
  Value log(const Value& x) { return unary("log", x); }
  Value log1p(const Value& x) { return unary("log_plus_one", x); }
  Value sqrt(const Value& x) { return unary("sqrt", x); }
  Value rsqrt(const Value& x) { return unary("rsqrt", x); }
  Value tanh(const Value& x) { return unary("tanh", x); }
  Value sigmoid(const Value& x) { return unary("logistic", x); }
  Value sin(const Value& x) { return unary("sine", x); }
  Value cos(const Value& x) { return unary("cosine", x); }
  Value floor(const Value& x) { return unary("floor", x); }
  Value ceil(const Value& x) { return unary("ceil", x); }
  Value round_even(const Value& x) { return unary("round_nearest_even", x); }
  Value logical_not(const Value& x) { return unary("not", x); }  // bitwise on integers
  Value is_nan(const Value& x) { return compare(Cmp::ne, x, x); }

  // ---- shapes
  Value unsqueeze(const Value&, int64_t dim);  // dim in [0, rank]
  Value squeeze(const Value&, int64_t dim);
  Value slice_dim(const Value&, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value swap_dims(const Value&, int64_t, int64_t);
  Value flatten(const Value& x) { return reshape(x, {x.numel()}); }
  // Reduces over dims (wrapped, all when empty) and keeps them as 1 when keepdim.
  Value reduce_keep(Reduce, const Value&, Dims dims, bool keepdim);

  // The text of one type: tensor<3x4xf32>
  static std::string type_text(const Type&);

 private:
  friend class Value;
  Value emit(std::string_view op, const Values& operands, const Type& result, std::string_view attributes = "",
             const std::string& regions = "");
  Values emit_many(std::string_view op, const Values& operands, const std::vector<Type>& results,
                   std::string_view attributes = "", const std::string& regions = "");
  Value broadcasting(std::string_view op, Value x, Value y);
  bool is_wide(Dtype d) const { return !s64_dot && is_int(d) && size_of(d) == 8; }  // needs the forms of wide.cpp
  Value wide_dot(const Value&, const Value&, const Dims& lhs_batch, const Dims& rhs_batch, const Dims& lhs_contract,
                 const Dims& rhs_contract, const Type& result);
  Value wide_convolution(const Value& input, const Value& kernel, const ConvDims&, const Type& result);
  // Text of a region with block arguments of these types.
  std::string region(const std::vector<Type>& args, const Body&);
  Value make(const Type&);
  Body body_of(Reduce, Dtype);
  Value init_of(Reduce, Dtype);
  void expect(bool ok, const std::string& what) const;

  std::deque<Type> types_;  // by value id; a deque, because lowerings hold references to dims while they add values
  std::vector<std::string> names_;
  std::vector<int> args_;
  std::vector<std::pair<size_t, size_t>> aliases_;
  std::string text_;
};

}  // namespace torchport::hlo
