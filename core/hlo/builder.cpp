#include "hlo/builder.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace torchport::hlo {

namespace {
std::string list(const Dims& v) {  // array<i64: 1, 2>
  if (v.empty()) return "array<i64>";
  std::string s = "array<i64: ";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + ">";
}
std::string plain(const Dims& v) {  // [1, 2]
  std::string s = "[";
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + std::to_string(v[i]);
  return s + "]";
}
std::string flag(bool b) { return b ? "true" : "false"; }
std::string padding(const Dims& low, const Dims& high) {
  if (low.empty()) return "dense<> : tensor<0x2xi64>";
  std::string s = "dense<[";
  for (size_t i = 0; i < low.size(); ++i)
    s += (i ? ", [" : "[") + std::to_string(low[i]) + ", " + std::to_string(high[i]) + "]";
  return s + "]> : tensor<" + std::to_string(low.size()) + "x2xi64>";
}
template <class U>
std::string hex(U bits, int digits) {
  char t[24];
  std::snprintf(t, sizeof t, "0x%0*llX", digits, static_cast<unsigned long long>(bits));
  return t;
}
template <class U, class F>
U bits_of(F f) {
  U u;
  std::memcpy(&u, &f, sizeof u);
  return u;
}
// Wraps as a cast does: MLIR refuses a literal outside the type's range.
std::string integer(int64_t v, Dtype d) {
  const int unused = 64 - 8 * static_cast<int>(size_of(d));
  const uint64_t top = static_cast<uint64_t>(v) << unused;
  return is_unsigned(d) ? std::to_string(top >> unused) : std::to_string(static_cast<int64_t>(top) >> unused);
}
// A floating literal that survives the round trip: decimal when finite, the bit pattern when not.
std::string literal(double v, Dtype d) {
  const Dtype real = real_of(d);
  if (is_bool(d)) return v != 0 ? "true" : "false";
  if (is_int(d)) {
    return integer(
        v >= 9223372036854775808.0 ? static_cast<int64_t>(static_cast<uint64_t>(v)) : static_cast<int64_t>(v), d);
  }
  if (std::isfinite(v)) {
    const double limit = real == Dtype::f32    ? 3.4028234663852886e38
                         : real == Dtype::f16  ? 65504.0
                         : real == Dtype::bf16 ? 3.3895313892515355e38
                                               : std::numeric_limits<double>::max();
    if (std::fabs(v) > limit) v = v > 0 ? INFINITY : -INFINITY;
  }
  if (!std::isfinite(v)) {
    const bool neg = std::signbit(v), is_nan = std::isnan(v);
    switch (real) {
      case Dtype::f64: return hex(bits_of<uint64_t>(v), 16);
      case Dtype::f32: return hex(bits_of<uint32_t>(static_cast<float>(v)), 8);
      case Dtype::f16: return is_nan ? "0x7E00" : neg ? "0xFC00" : "0x7C00";
      case Dtype::bf16: return is_nan ? "0x7FC0" : neg ? "0xFF80" : "0x7F80";
      case Dtype::f8e5m2: return is_nan ? "0x7F" : neg ? "0xFC" : "0x7C";
      default: return "0x7F";
    }
  }
  char t[40];
  std::snprintf(t, sizeof t, "%.17e", v);
  return t;
}
std::string_view cmp_name(Cmp c) {
  static constexpr std::string_view names[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  return names[static_cast<int>(c)];
}
int64_t window_out(int64_t in, int64_t size, int64_t stride, int64_t base_dil, int64_t win_dil, int64_t low,
                   int64_t high) {
  const int64_t dilated = in == 0 ? 0 : (in - 1) * base_dil + 1, padded = dilated + low + high,
                reach = (size - 1) * win_dil + 1;
  return padded < reach ? 0 : (padded - reach) / stride + 1;
}
Window complete(Window w, size_t rank) {
  auto fill = [&](Dims& d, int64_t v) {
    if (d.empty()) d.assign(rank, v);
  };
  fill(w.size, 1), fill(w.strides, 1), fill(w.base_dilation, 1), fill(w.window_dilation, 1), fill(w.low, 0),
      fill(w.high, 0);
  return w;
}
}  // namespace

const Type& Value::type() const {
  if (!builder_) [[unlikely]]
    fail(Code::bad_value, "hlo", "must get a tensor, got none");
  return builder_->types_[id_];
}

Builder::Builder() { text_.reserve(1 << 12); }

std::string Builder::type_text(const Type& t) {
  std::string s = "tensor<";
  for (int64_t d : t.dims) s += std::to_string(d) + "x";
  return s + std::string(hlo_name(t.dtype)) + ">";
}

void Builder::expect(bool ok, const std::string& what) const {
  if (!ok) [[unlikely]]
    fail(Code::shape_mismatch, where, what);
}

Value Builder::make(const Type& t) {
  types_.push_back(t);
  return Value(this, static_cast<int>(types_.size()) - 1);
}

Value Builder::argument(const Type& t) {
  Value v = make(t);
  args_.push_back(v.id_);
  return v;
}

void Builder::alias(size_t argument, size_t result) { aliases_.emplace_back(argument, result); }

std::string Builder::finish(const Values& results, std::string_view name, const Placement& placement) {
  auto placed = [](const std::vector<std::string>& texts, size_t i) {
    return i < texts.size() && !texts[i].empty() ? "mhlo.sharding = \"" + texts[i] + "\"" : std::string();
  };
  auto braced = [](const std::string& attributes) { return attributes.empty() ? "" : " {" + attributes + "}"; };
  std::string head = "module @" + std::string(name == "main" ? "m" : name);
  if (placement.partitions > 1)
    head += " attributes {mhlo.num_partitions = " + std::to_string(placement.partitions) +
            " : i32, mhlo.num_replicas = 1 : i32}";
  head += " {\nfunc.func @main(";
  for (size_t i = 0; i < args_.size(); ++i) {
    if (i) head += ", ";
    head += "%" + std::to_string(args_[i]) + ": " + type_text(types_[args_[i]]);
    std::string attributes = placed(placement.arguments, i);
    for (auto& [a, r] : aliases_)
      if (a == i)
        attributes += (attributes.empty() ? "" : ", ") + ("tf.aliasing_output = " + std::to_string(r)) + " : i32";
    head += braced(attributes);
  }
  head += ") -> (";
  std::string tail = results.empty() ? "return" : "return ", tail_types;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string t = type_text(results[i].type());
    head += (i ? ", " : "") + t + braced(placed(placement.results, i));
    tail += (i ? ", %" : "%") + std::to_string(results[i].id_);
    tail_types += (i ? ", " : "") + t;
  }
  return head + ") {\n" + text_ + tail + (results.empty() ? "" : " : ") + tail_types + "\n}\n}\n";
}

Values Builder::emit_many(std::string_view op, const Values& operands, const std::vector<Type>& results,
                          std::string_view attributes, const std::string& regions) {
  Values out;
  for (const Type& t : results) out.push_back(make(t));
  std::string line;
  if (out.size() == 1) {
    line = "%" + std::to_string(out[0].id_) + " = ";
  } else if (!out.empty()) {  // %a, %b = : each result keeps a name of its own
    for (size_t i = 0; i < out.size(); ++i) line += (i ? ", %" : "%") + std::to_string(out[i].id_);
    line += " = ";
  }
  line += op.find('.') == std::string_view::npos ? "\"stablehlo." : "\"";
  line += op;
  line += "\"(";
  for (size_t i = 0; i < operands.size(); ++i) {
    expect(static_cast<bool>(operands[i]),
           "must get a tensor for operand " + std::to_string(i) + " of " + std::string(op) + ", got none");
    line += (i ? ", %" : "%") + std::to_string(operands[i].id_);
  }
  line += ")";
  if (!attributes.empty()) line += " <{" + std::string(attributes) + "}>";
  line += regions;
  line += " : (";
  for (size_t i = 0; i < operands.size(); ++i) line += (i ? ", " : "") + type_text(operands[i].type());
  line += ") -> ";
  if (out.size() != 1) line += "(";
  for (size_t i = 0; i < results.size(); ++i) line += (i ? ", " : "") + type_text(results[i]);
  if (out.size() != 1) line += ")";
  text_ += line + "\n";
  return out;
}

Value Builder::emit(std::string_view op, const Values& operands, const Type& result, std::string_view attributes,
                    const std::string& regions) {
  return emit_many(op, operands, {result}, attributes, regions)[0];
}

std::string Builder::region(const std::vector<Type>& args, const Body& body) {
  std::string outer = std::move(text_);
  text_.clear();
  Values block;
  std::string head = "({\n^bb0(";
  for (size_t i = 0; i < args.size(); ++i) {
    block.push_back(make(args[i]));
    head += (i ? ", %" : "%") + std::to_string(block.back().id_) + ": " + type_text(args[i]);
  }
  head += "):\n";
  if (args.empty()) head = "({\n";
  const Values out = body(block);
  std::string inner = std::move(text_);
  text_ = std::move(outer);
  inner += "\"stablehlo.return\"(";
  std::string ts;
  for (size_t i = 0; i < out.size(); ++i) {
    inner += (i ? ", %" : "%") + std::to_string(out[i].id_);
    ts += (i ? ", " : "") + type_text(out[i].type());
  }
  return head + inner + ") : (" + ts + ") -> ()\n})";
}

// ---- constants

Value Builder::constant(double v, Dtype d, const Dims& dims) {
  if (is_complex(d)) return constant_complex(v, 0, d, dims);
  const Type t{d, dims};
  return emit("constant", {}, t, "value = dense<" + (t.numel() == 0 ? "" : literal(v, d)) + "> : " + type_text(t));
}
Value Builder::constant_int(int64_t v, Dtype d, const Dims& dims) {
  if (!is_int(d)) return constant(static_cast<double>(v), d, dims);
  const Type t{d, dims};
  return emit("constant", {}, t, "value = dense<" + (t.numel() == 0 ? "" : integer(v, d)) + "> : " + type_text(t));
}
Value Builder::constant_complex(double re, double im, Dtype d, const Dims& dims) {
  const Type t{d, dims};
  return emit("constant", {}, t,
              "value = dense<" +
                  (t.numel() == 0 ? ""
                                  : "(" + literal(re, d == Dtype::c64 ? Dtype::f32 : Dtype::f64) + ", " +
                                        literal(im, d == Dtype::c64 ? Dtype::f32 : Dtype::f64) + ")") +
                  "> : " + type_text(t));
}
Value Builder::constants(const std::vector<int64_t>& v, Dtype d) {
  const Type t{d, {static_cast<int64_t>(v.size())}};
  std::string s;
  for (size_t i = 0; i < v.size(); ++i)
    s += (i ? ", " : "") + (is_int(d) ? integer(v[i], d) : literal(static_cast<double>(v[i]), d));
  return emit("constant", {}, t, "value = dense<" + (v.empty() ? "" : "[" + s + "]") + "> : " + type_text(t));
}
Value Builder::constants(const std::vector<double>& v, Dtype d) {
  const Type t{d, {static_cast<int64_t>(v.size())}};
  std::string s;
  for (size_t i = 0; i < v.size(); ++i) s += (i ? ", " : "") + literal(v[i], d);
  return emit("constant", {}, t, "value = dense<" + (v.empty() ? "" : "[" + s + "]") + "> : " + type_text(t));
}
Value Builder::lowest(Dtype d, const Dims& dims) {
  if (is_float(d)) return constant(d == Dtype::f8e4m3fn ? -448.0 : -INFINITY, d, dims);
  if (is_bool(d) || is_unsigned(d)) return constant_int(0, d, dims);
  return constant_int(d == Dtype::i64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (8 * size_of(d) - 1)), d,
                      dims);
}
Value Builder::highest(Dtype d, const Dims& dims) {
  if (is_float(d)) return constant(d == Dtype::f8e4m3fn ? 448.0 : INFINITY, d, dims);
  if (is_bool(d)) return constant(1, d, dims);
  if (is_unsigned(d)) return constant_int(d == Dtype::u64 ? -1 : (int64_t{1} << (8 * size_of(d))) - 1, d, dims);
  return constant_int(d == Dtype::i64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << (8 * size_of(d) - 1)) - 1,
                      d, dims);
}
Value Builder::nan(Dtype d, const Dims& dims) { return constant(std::nan(""), d, dims); }
Value Builder::iota(const Type& t, int64_t dim) {
  if (is_bool(t.dtype)) return cast(iota({Dtype::i32, t.dims}, dim), t.dtype);
  return emit("iota", {}, t, "iota_dimension = " + std::to_string(dim) + " : i64");
}

// ---- exact operations

Value Builder::unary(std::string_view op, const Value& x) { return emit(op, {x}, x.type()); }
Value Builder::unary(std::string_view op, const Value& x, Dtype result) {
  return emit(op, {x}, Type{result, x.dims()});
}
Value Builder::binary(std::string_view op, const Value& x, const Value& y) {
  expect(x.type() == y.type(),
         str(op, " must get two operands of one type, got ", text(x.type()), " and ", text(y.type())));
  return emit(op, {x, y}, x.type());
}
Value Builder::convert(const Value& x, Dtype d) { return x.dtype() == d ? x : unary("convert", x, d); }
Value Builder::bitcast(const Value& x, Dtype d) {
  Type t{d, x.dims()};
  const size_t from = size_of(x.dtype()), to = size_of(d);
  if (from > to) t.dims.push_back(static_cast<int64_t>(from / to));
  if (from < to) {
    expect(x.rank() > 0 && x.dim(-1) == static_cast<int64_t>(to / from),
           str("bitcast to ", name(d), " must get a last dimension of ", to / from, ", got ", text(x.type())));
    t.dims.pop_back();
  }
  return x.dtype() == d ? x : emit("bitcast_convert", {x}, t);
}
Value Builder::reshape(const Value& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  expect(x.numel() == torchport::numel(dims),
         str("must keep the number of elements, got ", text(x.type()), " to ", text(dims)));
  return emit("reshape", {x}, Type{x.dtype(), dims});
}
Value Builder::transpose(const Value& x, const Dims& perm) {
  expect(static_cast<int64_t>(perm.size()) == x.rank(),
         str("permutation ", text(perm), " must have the rank of ", text(x.type())));
  Type t{x.dtype(), Dims(perm.size())};
  bool identity = true;
  for (size_t i = 0; i < perm.size(); ++i)
    t.dims[i] = x.dims()[perm[i]], identity &= perm[i] == static_cast<int64_t>(i);
  return identity ? x : emit("transpose", {x}, t, "permutation = " + list(perm));
}
Value Builder::broadcast_in_dim(const Value& x, const Dims& result, const Dims& mapping) {
  if (x.dims() == result) {
    bool identity = true;
    for (size_t i = 0; i < mapping.size(); ++i) identity &= mapping[i] == static_cast<int64_t>(i);
    if (identity) return x;
  }
  return emit("broadcast_in_dim", {x}, Type{x.dtype(), result}, "broadcast_dimensions = " + list(mapping));
}
Value Builder::slice(const Value& x, const Dims& start, const Dims& limit, const Dims& strides) {
  Dims steps = strides.empty() ? Dims(start.size(), 1) : strides;
  Type t{x.dtype(), Dims(start.size())};
  for (size_t i = 0; i < start.size(); ++i) {
    expect(start[i] >= 0 && limit[i] <= x.dims()[i] && start[i] <= limit[i],
           str("slice [", start[i], ", ", limit[i], ") must lie in dimension ", i, " of ", text(x.type())));
    t.dims[i] = (limit[i] - start[i] + steps[i] - 1) / steps[i];
  }
  if (t.dims == x.dims()) return x;
  return emit("slice", {x}, t,
              "start_indices = " + list(start) + ", limit_indices = " + list(limit) + ", strides = " + list(steps));
}
Value Builder::dynamic_slice(const Value& x, const Values& starts, const Dims& sizes) {
  if (sizes == x.dims()) return x;
  Values in{x};
  in.insert(in.end(), starts.begin(), starts.end());
  return emit("dynamic_slice", in, Type{x.dtype(), sizes}, "slice_sizes = " + list(sizes));
}
Value Builder::dynamic_update_slice(const Value& x, const Value& update, const Values& starts) {
  if (update.dims() == x.dims()) return update;
  Values in{x, update};
  in.insert(in.end(), starts.begin(), starts.end());
  return emit("dynamic_update_slice", in, x.type());
}
Value Builder::pad(const Value& x, const Value& scalar, const Dims& low, const Dims& high, const Dims& interior) {
  Dims inner = interior.empty() ? Dims(low.size(), 0) : interior;
  Type t{x.dtype(), Dims(low.size())};
  bool nothing = true;
  for (size_t i = 0; i < low.size(); ++i) {
    const int64_t n = x.dims()[i];
    t.dims[i] = low[i] + high[i] + n + (n > 0 ? (n - 1) * inner[i] : 0);
    expect(t.dims[i] >= 0, str("padding must leave a size of at least 0, got ", t.dims[i], " for dimension ", i, " of ",
                               text(x.type())));
    nothing &= low[i] == 0 && high[i] == 0 && inner[i] == 0;
  }
  if (nothing) return x;
  return emit("pad", {x, scalar}, t,
              "edge_padding_low = " + list(low) + ", edge_padding_high = " + list(high) +
                  ", interior_padding = " + list(inner));
}
Value Builder::concatenate(const Values& xs, int64_t dim) {
  if (xs.size() == 1) return xs[0];
  Type t = xs[0].type();
  t.dims[dim] = 0;
  for (const Value& x : xs) t.dims[dim] += x.dims()[dim];
  return emit("concatenate", xs, t, "dimension = " + std::to_string(dim) + " : i64");
}
Value Builder::reverse(const Value& x, const Dims& dims) {
  return dims.empty() ? x : emit("reverse", {x}, x.type(), "dimensions = " + list(dims));
}
Value Builder::complex(const Value& re, const Value& im) {
  return emit("complex", {re, im}, Type{complex_of(re.dtype()), re.dims()});
}
Value Builder::reduce_precision(const Value& x, int exponent_bits, int mantissa_bits) {
  return emit("reduce_precision", {x}, x.type(),
              str("exponent_bits = ", exponent_bits, " : i32, mantissa_bits = ", mantissa_bits, " : i32"));
}

Body Builder::body_of(Reduce kind, Dtype d) {
  const bool b = is_bool(d);
  const char* op = kind == Reduce::add   ? (b ? "or" : "add")
                   : kind == Reduce::mul ? (b ? "and" : "multiply")
                   : kind == Reduce::max ? (b ? "or" : "maximum")
                   : kind == Reduce::min ? (b ? "and" : "minimum")
                   : kind == Reduce::all ? "and"
                                         : "or";
  return [this, op](const Values& a) { return Values{binary(op, a[0], a[1])}; };
}
Value Builder::init_of(Reduce kind, Dtype d) {
  switch (kind) {
    case Reduce::add:
    case Reduce::any: return constant(0, d);
    case Reduce::mul:
    case Reduce::all: return constant(1, d);
    case Reduce::max: return lowest(d);
    default: return highest(d);
  }
}
Value Builder::reduce(Reduce kind, const Value& x, const Dims& dims) {
  if (dims.empty()) return x;
  return reduce(Values{x}, {init_of(kind, x.dtype())}, dims, body_of(kind, x.dtype()))[0];
}
Values Builder::reduce(const Values& inputs, const Values& inits, const Dims& dims, const Body& body) {
  std::vector<Type> results, scalars;
  for (const Value& x : inputs) {
    Type t{x.dtype(), {}};
    for (int64_t i = 0; i < x.rank(); ++i) {
      bool gone = false;
      for (int64_t d : dims) gone |= d == i;
      if (!gone) t.dims.push_back(x.dims()[i]);
    }
    results.push_back(t);
  }
  for (int twice = 0; twice < 2; ++twice)
    for (const Value& x : inputs) scalars.push_back({x.dtype(), {}});
  Values in = inputs;
  in.insert(in.end(), inits.begin(), inits.end());
  const std::string r = region(scalars, body);
  return emit_many("reduce", in, results, "dimensions = " + list(dims), " " + r);
}
Value Builder::reduce_window(Reduce kind, const Value& x, const Window& w) {
  return reduce_window(Values{x}, {init_of(kind, x.dtype())}, w, body_of(kind, x.dtype()))[0];
}
Values Builder::reduce_window(const Values& inputs, const Values& inits, const Window& window, const Body& body) {
  const Window w = complete(window, inputs[0].dims().size());
  std::vector<Type> results, scalars;
  for (const Value& x : inputs) {
    Type t{x.dtype(), Dims(x.dims().size())};
    for (size_t i = 0; i < t.dims.size(); ++i)
      t.dims[i] = window_out(x.dims()[i], w.size[i], w.strides[i], w.base_dilation[i], w.window_dilation[i], w.low[i],
                             w.high[i]);
    results.push_back(t);
  }
  for (int twice = 0; twice < 2; ++twice)
    for (const Value& x : inputs) scalars.push_back({x.dtype(), {}});
  Values in = inputs;
  in.insert(in.end(), inits.begin(), inits.end());
  const std::string r = region(scalars, body);
  return emit_many("reduce_window", in, results,
                   "window_dimensions = " + list(w.size) + ", window_strides = " + list(w.strides) +
                       ", base_dilations = " + list(w.base_dilation) +
                       ", window_dilations = " + list(w.window_dilation) + ", padding = " + padding(w.low, w.high),
                   " " + r);
}
Value Builder::select_and_scatter(const Value& operand, const Value& source, const Value& init, const Window& window,
                                  Cmp select) {
  const Window w = complete(window, operand.dims().size());
  const std::vector<Type> two(2, Type{operand.dtype(), {}});
  const std::string pick = region(two, [&](const Values& a) { return Values{compare(select, a[0], a[1])}; });
  const std::string sum = region(two, body_of(Reduce::add, operand.dtype()));
  return emit("select_and_scatter", {operand, source, init}, operand.type(),
              "window_dimensions = " + list(w.size) + ", window_strides = " + list(w.strides) +
                  ", padding = " + padding(w.low, w.high),
              " (" + pick.substr(1, pick.size() - 2) + ", " + sum.substr(1, sum.size() - 2) + ")");
}
Value Builder::gather(const Value& operand, const Value& indices, const GatherDims& g, const Dims& slice_sizes) {
  Dims batch = indices.dims();
  if (g.index_vector_dim < static_cast<int64_t>(batch.size())) batch.erase(batch.begin() + g.index_vector_dim);
  auto in = [](const Dims& v, int64_t x) {
    for (int64_t e : v)
      if (e == x) return true;
    return false;
  };
  Dims offsets;
  for (size_t i = 0; i < slice_sizes.size(); ++i)
    if (!in(g.collapsed_slice_dims, i) && !in(g.operand_batching_dims, i)) offsets.push_back(slice_sizes[i]);
  Type t{operand.dtype(), Dims(batch.size() + offsets.size())};
  size_t bi = 0, oi = 0;
  for (size_t i = 0; i < t.dims.size(); ++i) t.dims[i] = in(g.offset_dims, i) ? offsets[oi++] : batch[bi++];
  std::string batching;
  if (!g.operand_batching_dims.empty())
    batching = ", operand_batching_dims = " + plain(g.operand_batching_dims) +
               ", start_indices_batching_dims = " + plain(g.start_indices_batching_dims);
  return emit("gather", {operand, indices}, t,
              "dimension_numbers = #stablehlo.gather<offset_dims = " + plain(g.offset_dims) +
                  ", collapsed_slice_dims = " + plain(g.collapsed_slice_dims) + batching + ", start_index_map = " +
                  plain(g.start_index_map) + ", index_vector_dim = " + std::to_string(g.index_vector_dim) +
                  ">, slice_sizes = " + list(slice_sizes) + ", indices_are_sorted = " + flag(g.sorted));
}
Value Builder::scatter(const Value& operand, const Value& indices, const Value& updates, const ScatterDims& s,
                       const Body& body) {
  const std::string r = region({Type{operand.dtype(), {}}, Type{operand.dtype(), {}}},
                               body ? body : Body([](const Values& a) { return Values{a[1]}; }));
  std::string batching;
  if (!s.input_batching_dims.empty())
    batching = ", input_batching_dims = " + plain(s.input_batching_dims) +
               ", scatter_indices_batching_dims = " + plain(s.scatter_indices_batching_dims);
  return emit("scatter", {operand, indices, updates}, operand.type(),
              "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = " + plain(s.update_window_dims) +
                  ", inserted_window_dims = " + plain(s.inserted_window_dims) + batching +
                  ", scatter_dims_to_operand_dims = " + plain(s.scatter_dims_to_operand_dims) +
                  ", index_vector_dim = " + std::to_string(s.index_vector_dim) +
                  ">, indices_are_sorted = " + flag(s.sorted) + ", unique_indices = " + flag(s.unique),
              " " + r);
}
Values Builder::sort(const Values& xs, int64_t dim, bool stable, const Body& less) {
  std::vector<Type> results, scalars;
  for (const Value& x : xs) {
    results.push_back(x.type());
    scalars.insert(scalars.end(), 2, Type{x.dtype(), {}});
  }
  const std::string r = region(scalars, less);
  return emit_many("sort", xs, results, "dimension = " + std::to_string(dim) + " : i64, is_stable = " + flag(stable),
                   " " + r);
}
Value Builder::dot_general(const Value& x, const Value& y, const Dims& xb, const Dims& yb, const Dims& xc,
                           const Dims& yc, Dtype result) {
  Type t{result, {}};
  auto in = [](const Dims& v, int64_t e) {
    for (int64_t k : v)
      if (k == e) return true;
    return false;
  };
  for (size_t i = 0; i < xb.size(); ++i) {
    expect(x.dims()[xb[i]] == y.dims()[yb[i]],
           str("batch sizes must match, got ", text(x.type()), " and ", text(y.type())));
    t.dims.push_back(x.dims()[xb[i]]);
  }
  for (size_t i = 0; i < xc.size(); ++i)
    expect(x.dims()[xc[i]] == y.dims()[yc[i]],
           str("contracted sizes must match, got ", text(x.type()), " and ", text(y.type())));
  for (int64_t i = 0; i < x.rank(); ++i)
    if (!in(xb, i) && !in(xc, i)) t.dims.push_back(x.dims()[i]);
  for (int64_t i = 0; i < y.rank(); ++i)
    if (!in(yb, i) && !in(yc, i)) t.dims.push_back(y.dims()[i]);
  bool one = !xb.empty();
  for (int64_t k : xb) one &= x.dims()[k] == 1;
  if (one) {  // a batch of one is a plain product: CPU plugins refuse some bf16 x bf16 = f32 forms with such batches
    auto drop = [&](const Value& v, const Dims& batch, Dims contract) {
      Dims kept;
      for (int64_t i = 0; i < v.rank(); ++i)
        if (!in(batch, i)) kept.push_back(v.dims()[i]);
      for (int64_t& c : contract) {
        const int64_t at = c;
        for (int64_t k : batch) c -= k < at;
      }
      return std::pair(reshape(v, kept), contract);
    };
    const auto [l, lc] = drop(x, xb, xc);
    const auto [r, rc] = drop(y, yb, yc);
    return reshape(dot_general(l, r, {}, {}, lc, rc, result), t.dims);
  }
  if (is_wide(x.dtype())) return wide_dot(x, y, xb, yb, xc, yc, t);
  std::string attrs = "dot_dimension_numbers = #stablehlo.dot<";
  if (!xb.empty())
    attrs += "lhs_batching_dimensions = " + plain(xb) + ", rhs_batching_dimensions = " + plain(yb) + ", ";
  attrs += "lhs_contracting_dimensions = " + plain(xc) + ", rhs_contracting_dimensions = " + plain(yc) + ">";
  if (is_float(x.dtype()) || is_complex(x.dtype()))
    uses_precision = true,
    attrs += ", precision_config = [#stablehlo<precision " + precision + ">, #stablehlo<precision " + precision + ">]";
  return emit("dot_general", {x, y}, t, attrs);
}
Value Builder::convolution(const Value& input, const Value& kernel, const ConvDims& conv) {
  ConvDims c = conv;
  const int64_t spatial = input.rank() - 2;
  auto rest = [&](Dims& d, int64_t a, int64_t b) {
    if (d.empty())
      for (int64_t i = 0; i < input.rank(); ++i)
        if (i != a && i != b) d.push_back(i);
  };
  rest(c.in_spatial, c.in_batch, c.in_feature), rest(c.k_spatial, c.k_out, c.k_in),
      rest(c.out_spatial, c.out_batch, c.out_feature);
  auto fill = [&](Dims& d, int64_t v) {
    if (d.empty()) d.assign(spatial, v);
  };
  fill(c.strides, 1), fill(c.low, 0), fill(c.high, 0), fill(c.lhs_dilation, 1), fill(c.rhs_dilation, 1);
  Type t{c.result == Dtype::kCount ? input.dtype() : c.result, Dims(input.rank())};
  t.dims[c.out_batch] = input.dims()[c.in_batch] / c.batch_groups;
  t.dims[c.out_feature] = kernel.dims()[c.k_out];
  for (int64_t i = 0; i < spatial; ++i)
    t.dims[c.out_spatial[i]] = window_out(input.dims()[c.in_spatial[i]], kernel.dims()[c.k_spatial[i]], c.strides[i],
                                          c.lhs_dilation[i], c.rhs_dilation[i], c.low[i], c.high[i]);
  if (is_wide(input.dtype())) return wide_convolution(input, kernel, c, t);
  auto labels = [&](const char* a, int64_t ia, const char* b, int64_t ib, const Dims& sp) {
    std::vector<std::string> l(input.rank());
    l[ia] = a, l[ib] = b;
    for (size_t i = 0; i < sp.size(); ++i) l[sp[i]] = std::to_string(i);
    std::string s = "[";
    for (size_t i = 0; i < l.size(); ++i) s += (i ? ", " : "") + l[i];
    return s + "]";
  };
  uses_precision = true;
  std::string reversal;
  if (c.reverse_kernel) {
    reversal = ", window_reversal = array<i1: ";
    for (int64_t i = 0; i < spatial; ++i) reversal += i ? ", true" : "true";
    reversal += ">";
  }
  return emit("convolution", {input, kernel}, t,
              "window_strides = " + list(c.strides) + ", padding = " + padding(c.low, c.high) +
                  ", lhs_dilation = " + list(c.lhs_dilation) + ", rhs_dilation = " + list(c.rhs_dilation) + reversal +
                  ", dimension_numbers = #stablehlo.conv<" + labels("b", c.in_batch, "f", c.in_feature, c.in_spatial) +
                  "x" + labels("o", c.k_out, "i", c.k_in, c.k_spatial) + "->" +
                  labels("b", c.out_batch, "f", c.out_feature, c.out_spatial) + ">, feature_group_count = " +
                  std::to_string(c.groups) + " : i64, batch_group_count = " + std::to_string(c.batch_groups) +
                  " : i64, precision_config = [#stablehlo<precision " + precision + ">, #stablehlo<precision " +
                  precision + ">]");
}
std::pair<Value, Value> Builder::rng_bits(const Value& state, Dtype d, const Dims& dims) {
  Values r = emit_many("rng_bit_generator", {state}, {state.type(), Type{d, dims}},
                       "rng_algorithm = #stablehlo<rng_algorithm PHILOX>");
  return {r[0], r[1]};
}
Values Builder::while_loop(const Values& inits, const Body& condition, const Body& body) {
  std::vector<Type> ts;
  for (const Value& v : inits) ts.push_back(v.type());
  const std::string c = region(ts, condition), b = region(ts, body);
  return emit_many("while", inits, ts, "", " (" + c.substr(1, c.size() - 2) + ", " + b.substr(1, b.size() - 2) + ")");
}
Values Builder::if_else(const Value& pred, const std::function<Values()>& yes, const std::function<Values()>& no) {
  std::vector<Type> ts;
  const std::string y = region({}, [&](const Values&) {
    Values out = yes();
    for (const Value& v : out) ts.push_back(v.type());
    return out;
  });
  const std::string n = region({}, [&](const Values&) { return no(); });
  return emit_many("if", {pred}, ts, "", " (" + y.substr(1, y.size() - 2) + ", " + n.substr(1, n.size() - 2) + ")");
}
Value Builder::sharding(const Value& x, std::string_view placement) {
  return emit("custom_call", {x}, x.type(),
              "call_target_name = \"Sharding\", backend_config = \"\", api_version = 1 : i32",
              " {mhlo.sharding = \"" + std::string(placement) + "\"}");
}
Values Builder::optimization_barrier(const Values& in) {
  std::vector<Type> types;
  for (const Value& v : in) types.push_back(v.type());
  return emit_many("optimization_barrier", in, types);
}
Values Builder::custom_call(std::string_view target, const Values& in, const std::vector<Type>& results,
                            std::string_view config) {
  return emit_many("custom_call", in, results,
                   "call_target_name = \"" + std::string(target) + "\", backend_config = \"" + std::string(config) +
                       "\", api_version = 1 : i32");
}
Value Builder::cholesky(const Value& x, bool lower) {
  return emit("cholesky", {x}, x.type(), "lower = " + flag(lower));
}
Value Builder::triangular_solve(const Value& a, const Value& b, bool left, bool lower, bool unit,
                                std::string_view trans) {
  return emit("triangular_solve", {a, b}, b.type(),
              "left_side = " + flag(left) + ", lower = " + flag(lower) + ", unit_diagonal = " + flag(unit) +
                  ", transpose_a = #stablehlo<transpose " + std::string(trans) + ">");
}
Value Builder::fft(const Value& x, std::string_view kind, const Dims& lengths) {
  Type t = x.type();
  if (kind == "RFFT") t.dtype = complex_of(t.dtype), t.dims.back() = lengths.back() / 2 + 1;
  if (kind == "IRFFT") t.dtype = real_of(t.dtype), t.dims.back() = lengths.back();
  return emit("fft", {x}, t,
              "fft_type = #stablehlo<fft_type " + std::string(kind) + ">, fft_length = " + list(lengths));
}

// ---- torch's rules

Value Builder::cast(const Value& x, Dtype d) {
  if (x.dtype() == d) return x;
  if (is_bool(d)) return compare(Cmp::ne, x, constant(0, x.dtype()));
  if (is_complex(x.dtype()) && !is_complex(d)) return cast(real(x), d);
  if (is_complex(d) && !is_complex(x.dtype())) {
    const Value re = cast(x, real_of(d));
    return complex(re, like(re, 0));
  }
  // XLA clamps when a float leaves an unsigned or small integer type's range; torch wraps through a wider signed
  // integer.
  if (is_float(x.dtype()) && is_int(d) && (size_of(d) < 4 || d == Dtype::u32))
    return convert(convert(x, size_of(d) < 4 ? Dtype::i32 : Dtype::i64), d);
  return convert(x, d);
}
Value Builder::broadcast_to(const Value& x, const Dims& dims) {
  if (x.dims() == dims) return x;
  const int64_t lead = static_cast<int64_t>(dims.size()) - x.rank();
  expect(lead >= 0, str("must broadcast ", text(x.type()), " to at least its own rank, got ", text(dims)));
  Dims mapping;
  for (int64_t i = 0; i < x.rank(); ++i) {
    expect(x.dims()[i] == 1 || x.dims()[i] == dims[lead + i],
           str("must broadcast ", text(x.type()), " to ", text(dims), ": size ", x.dims()[i], " at dimension ", i));
    mapping.push_back(lead + i);
  }
  return broadcast_in_dim(x, dims, mapping);
}
Value Builder::full(const Value& scalar, const Dims& dims) { return broadcast_in_dim(scalar, dims, {}); }
Value Builder::broadcasting(std::string_view op, Value x, Value y) {
  expect(x.dtype() == y.dtype(),
         str(op, " must get operands of one dtype, got ", text(x.type()), " and ", text(y.type())));
  const Dims dims = broadcast(x.dims(), y.dims(), where);
  if (is_bool(x.dtype())) op = op == "add" || op == "maximum" ? "or" : op == "multiply" || op == "minimum" ? "and" : op;
  return binary(op, broadcast_to(x, dims), broadcast_to(y, dims));
}
Value Builder::compare(Cmp c, const Value& x, const Value& y) {
  expect(x.dtype() == y.dtype(),
         str("comparison must get operands of one dtype, got ", text(x.type()), " and ", text(y.type())));
  const Dims dims = broadcast(x.dims(), y.dims(), where);
  const char* kind = is_float(x.dtype()) || is_complex(x.dtype())   ? "FLOAT"
                     : is_unsigned(x.dtype()) || is_bool(x.dtype()) ? "UNSIGNED"
                                                                    : "SIGNED";
  return emit("compare", {broadcast_to(x, dims), broadcast_to(y, dims)}, Type{Dtype::b1, dims},
              "comparison_direction = #stablehlo<comparison_direction " + std::string(cmp_name(c)) +
                  ">, compare_type = #stablehlo<comparison_type " + kind + ">");
}
Value Builder::select(const Value& pred, const Value& yes, const Value& no) {
  expect(yes.dtype() == no.dtype(),
         str("select must get two values of one dtype, got ", text(yes.type()), " and ", text(no.type())));
  const Dims dims = broadcast(broadcast(pred.dims(), yes.dims(), where), no.dims(), where);
  return emit("select", {broadcast_to(pred, dims), broadcast_to(yes, dims), broadcast_to(no, dims)},
              Type{yes.dtype(), dims});
}
Value Builder::abs(const Value& x) {
  if (is_unsigned(x.dtype()) || is_bool(x.dtype())) return x;
  return unary("abs", x, real_of(x.dtype()));
}

// ---- shapes

Value Builder::unsqueeze(const Value& x, int64_t dim) {
  Dims d = x.dims();
  d.insert(d.begin() + (dim < 0 ? dim + x.rank() + 1 : dim), 1);
  return reshape(x, d);
}
Value Builder::squeeze(const Value& x, int64_t dim) {
  Dims d = x.dims();
  d.erase(d.begin() + (dim < 0 ? dim + x.rank() : dim));
  return reshape(x, d);
}
Value Builder::slice_dim(const Value& x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  Dims lo(x.dims().size(), 0), hi = x.dims(), st(x.dims().size(), 1);
  if (dim < 0) dim += x.rank();
  lo[dim] = start, hi[dim] = limit, st[dim] = stride;
  return slice(x, lo, hi, st);
}
Value Builder::swap_dims(const Value& x, int64_t a, int64_t b) {
  Dims perm(x.dims().size());
  for (size_t i = 0; i < perm.size(); ++i) perm[i] = static_cast<int64_t>(i);
  std::swap(perm[a < 0 ? a + x.rank() : a], perm[b < 0 ? b + x.rank() : b]);
  return transpose(x, perm);
}
Value Builder::reduce_keep(Reduce kind, const Value& x, Dims dims, bool keepdim) {
  if (x.rank() == 0) return x;
  if (dims.empty())
    for (int64_t i = 0; i < x.rank(); ++i) dims.push_back(i);
  Dims kept = x.dims();
  for (int64_t& d : dims) {
    d = wrap_dim(d, x.rank(), where);
    kept[d] = 1;
  }
  const Value r = reduce(kind, x, dims);
  return keepdim ? reshape(r, kept) : r;
}

}  // namespace torchport::hlo
