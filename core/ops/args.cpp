// Args: a node's arguments as a block sees them.
#include <cmath>
#include <numbers>

#include "ops/op.h"

namespace torchport::ops {

namespace {

using graph::Attr;
using graph::Number;
using graph::Ref;

bool promotes(std::string_view name) {
  return name == "self" || name == "other" || name == "exponent" || name == "min" || name == "max";
}

// torch's combine_categories: a tensor with dimensions outranks a 0-d tensor, which outranks a Python number.
std::optional<Dtype> combine(std::optional<Dtype> higher, std::optional<Dtype> lower) {
  if (!higher) return lower;
  if (!lower) return higher;
  if (is_complex(*higher)) return higher;
  if (is_float(*higher)) return is_complex(*lower) ? complex_of(*higher) : *higher;
  if (is_bool(*higher) || is_float(*lower) || is_complex(*lower)) return promote(*higher, *lower);
  return higher;
}
std::optional<Dtype> join(std::optional<Dtype> a, Dtype b) { return a ? promote(*a, b) : b; }

}  // namespace

Args::Args(Builder& b, const Op& op, const graph::Node& node, const std::vector<Value>& values,
           const std::vector<graph::Value>& infos, Launch& launch)
    : b_(b), op_(op), node_(node), values_(values), infos_(infos), launch_(launch) {
  name_ = std::string_view(op.name).substr(0, op.name.find('.'));
  if (op.traits.promote != Promote::none) find_common();
}

const Attr* Args::find_attr(std::string_view name) const {
  for (size_t k = 0; k < node_.schema->args.size(); ++k)
    if (node_.schema->args[k] == name) return &node_.args[k];
  return nullptr;
}
const Attr& Args::attr(std::string_view name) const {
  const Attr* found = find_attr(name);
  torchport::check(found, Code::internal, where(),
                   str("asks for argument '", name, "', which ", node_.schema->name, " does not have"));
  return *found;
}

Dtype Args::number_dtype(const Number& n) const {
  switch (n.kind) {
    case Number::Kind::boolean: return Dtype::b1;
    case Number::Kind::integer: return Dtype::i64;
    case Number::Kind::real: return launch_.default_dtype();
    default: return complex_of(launch_.default_dtype());
  }
}

void Args::find_common() {
  std::optional<Dtype> dimmed, zero, wrapped;
  auto tensor = [&](Ref r) {
    if (r.id < 0) return;
    const graph::Value& info = infos_[r.id];
    if (info.wrapped) {
      Dtype d = info.view.dtype;
      if (is_float(d)) d = launch_.default_dtype();
      if (is_complex(d)) d = complex_of(launch_.default_dtype());
      wrapped = join(wrapped, d);
    } else if (info.kind == graph::Value::Kind::host_number) {
      zero = join(zero, info.view.dtype);
    } else {
      const Type& t = values_[r.id].type();
      (t.dims.empty() ? zero : dimmed) = join(t.dims.empty() ? zero : dimmed, t.dtype);
    }
  };
  for (size_t k = 0; k < node_.args.size(); ++k) {
    const std::string& name = node_.schema->args[k];
    if (op_.has_mark(name, '-')) continue;
    if (const Ref* r = std::get_if<Ref>(&node_.args[k])) tensor(*r);
    if (const auto* list = std::get_if<std::vector<Ref>>(&node_.args[k]))
      for (Ref r : *list) tensor(r);
    if (const Number* n = std::get_if<Number>(&node_.args[k]); n && (promotes(name) || op_.has_mark(name, '+')))
      wrapped = join(wrapped, number_dtype(*n));
  }
  common_ = combine(dimmed, combine(zero, wrapped)).value_or(launch_.default_dtype());
  if (op_.traits.promote == Promote::to_float && is_integral(common_)) common_ = launch_.default_dtype();
  compute_ = op_.traits.opmath ? opmath(common_) : common_;
}

Value Args::materialise(Ref r, std::optional<Dtype> to) {
  if (r.id < 0) return {};
  const graph::Value& info = infos_[r.id];
  if (info.kind == graph::Value::Kind::host_number) return launch_.number(b_, info.index, to.value_or(info.view.dtype));
  return to ? b_.cast(values_[r.id], *to) : values_[r.id];
}

Value Args::tensor(std::string_view name) {
  const Attr* found = find_attr(name);
  torchport::check(found, Code::internal, where(),
                   str("asks for tensor '", name, "', which ", node_.schema->name, " does not have"));
  const bool cast = op_.traits.promote != Promote::none && !op_.has_mark(name, '-');
  if (const Ref* r = std::get_if<Ref>(found)) return materialise(*r, cast ? std::optional(compute_) : std::nullopt);
  if (const Number* n = std::get_if<Number>(found)) return number(name, cast ? compute_ : number_dtype(*n));
  return {};
}
Values Args::tensors(std::string_view name) {
  Values out;
  const bool cast = op_.traits.promote != Promote::none && !op_.has_mark(name, '-');
  if (const auto* list = std::get_if<std::vector<Ref>>(&attr(name)))
    for (Ref r : *list) out.push_back(materialise(r, cast ? std::optional(compute_) : std::nullopt));
  return out;
}
bool Args::has(std::string_view name) const {
  const Attr* found = find_attr(name);
  if (!found || std::holds_alternative<std::monostate>(*found)) return false;
  const Ref* r = std::get_if<Ref>(found);
  return !r || r->id >= 0;
}

Dtype Args::given_dtype(std::string_view name) const {
  if (const Number* n = std::get_if<Number>(&attr(name))) return number_dtype(*n);
  const Ref r = std::get<Ref>(attr(name));
  return infos_[r.id].kind == graph::Value::Kind::host_number ? infos_[r.id].view.dtype : values_[r.id].dtype();
}

bool Args::is_contiguous(std::string_view name) const {
  const Ref* r = std::get_if<Ref>(&attr(name));
  if (!r || r->id < 0) return true;
  const graph::Value& info = infos_[r->id];
  if (info.kind != graph::Value::Kind::input && info.kind != graph::Value::Kind::view_of_value) return true;
  int64_t step = 1;
  for (size_t i = info.view.sizes.size(); i-- > 0;) {
    if (info.view.sizes[i] != 1 && info.view.strides[i] != step) return numel(info.view.sizes) == 0;
    step *= info.view.sizes[i];
  }
  return true;
}

Number Args::raw(std::string_view name) const {
  const Attr& x = attr(name);
  if (const Number* n = std::get_if<Number>(&x)) return *n;
  Number n;
  if (const bool* v = std::get_if<bool>(&x))
    n.kind = Number::Kind::boolean, n.i = *v;
  else if (const int64_t* v = std::get_if<int64_t>(&x))
    n.i = *v;
  else if (const double* v = std::get_if<double>(&x))
    n.kind = Number::Kind::real, n.c = *v;
  else
    torchport::fail(Code::internal, where(), str("argument '", name, "' is not a number"));
  return n;
}
Value Args::number(std::string_view name, Dtype d) {
  if (const Ref* r = std::get_if<Ref>(&attr(name))) return materialise(*r, d);
  return number(raw(name), d);
}
Value Args::number(const Number& n, Dtype d) {
  if (n.runtime >= 0) return launch_.number(b_, n.runtime, d);
  switch (n.kind) {
    case Number::Kind::complex:
      return is_complex(d) ? b_.constant_complex(n.c.real(), n.c.imag(), d) : b_.constant(n.c.real(), d);
    case Number::Kind::real:
      return is_int(d) ? b_.constant_int(static_cast<int64_t>(n.c.real()), d) : b_.constant(n.c.real(), d);
    default: return b_.constant_int(n.i, d);
  }
}
bool Args::is(std::string_view name, double v) const {
  if (std::holds_alternative<Ref>(attr(name))) return false;
  const Number n = raw(name);
  return n.runtime < 0 && n.kind != Number::Kind::complex && n.real() == v;
}
double Args::f(std::string_view name) const {
  const Number n = raw(name);
  torchport::check(n.runtime < 0, Code::internal, where(),
                   str("reads runtime number '", name, "' as a static one: mark it ", name, "!"));
  return n.real();
}
double Args::f(std::string_view name, double fallback) const { return has(name) ? f(name) : fallback; }

int64_t Args::i(std::string_view name) const {
  const Attr& x = attr(name);
  if (const int64_t* v = std::get_if<int64_t>(&x)) return *v;
  if (const bool* v = std::get_if<bool>(&x)) return *v;
  if (const auto* v = std::get_if<Dims>(&x); v && v->size() == 1) return (*v)[0];
  const Number n = raw(name);
  torchport::check(n.runtime < 0, Code::internal, where(),
                   str("reads runtime number '", name, "' as a static one: mark it ", name, "!"));
  return n.kind <= Number::Kind::integer ? n.i : static_cast<int64_t>(n.c.real());
}
int64_t Args::i(std::string_view name, int64_t fallback) const { return has(name) ? i(name) : fallback; }
bool Args::flag(std::string_view name) const {
  const bool* v = std::get_if<bool>(&attr(name));
  return v ? *v : i(name) != 0;
}
bool Args::flag(std::string_view name, bool fallback) const { return has(name) ? flag(name) : fallback; }
Dims Args::ints(std::string_view name) const {
  const Attr& x = attr(name);
  if (const Dims* v = std::get_if<Dims>(&x)) return *v;
  if (const int64_t* v = std::get_if<int64_t>(&x)) return {*v};
  return {};
}
std::vector<double> Args::floats(std::string_view name) const {
  const auto* v = std::get_if<std::vector<double>>(&attr(name));
  return v ? *v : std::vector<double>{};
}
std::optional<std::vector<Number>> Args::numbers(std::string_view name) const {
  const auto* refs = std::get_if<std::vector<Ref>>(&attr(name));
  if (!refs) return {};
  std::vector<Number> out;
  for (const Ref r : *refs) {
    if (r.id < 0 || infos_[r.id].kind != graph::Value::Kind::host_number || !infos_[r.id].wrapped) return {};
    const Dtype d = infos_[r.id].view.dtype;
    const auto kind = is_bool(d)      ? Number::Kind::boolean
                      : is_int(d)     ? Number::Kind::integer
                      : is_complex(d) ? Number::Kind::complex
                                      : Number::Kind::real;
    out.push_back({kind, 0, 0.0, infos_[r.id].index});
  }
  return out;
}
std::vector<bool> Args::flags(std::string_view name) const {
  const auto* v = std::get_if<std::vector<bool>>(&attr(name));
  return v ? *v : std::vector<bool>{};
}
std::string Args::text(std::string_view name) const {
  const auto* v = std::get_if<std::string>(&attr(name));
  return v ? *v : std::string{};
}
Dtype Args::dtype(std::string_view name, Dtype fallback) const {
  const Attr* x = find_attr(name);
  const Dtype* v = x ? std::get_if<Dtype>(x) : nullptr;
  return v ? *v : fallback;
}
int64_t Args::dim(std::string_view name, const Value& x) const { return wrap_dim(i(name), x.rank(), where()); }
Dims Args::dims(std::string_view name, const Value& x) const {
  Dims out = ints(name);
  if (out.empty())
    for (int64_t k = 0; k < x.rank(); ++k) out.push_back(k);
  else if (x.rank() == 0) {
    for (int64_t d : out) wrap_dim(d, 0, where());
    return {};
  }
  std::vector<bool> seen(x.rank());
  for (int64_t& d : out) {
    d = wrap_dim(d, x.rank(), where());
    torchport::check(!seen[d], Code::bad_value, where(), str("dim must appear once, got ", d, " twice"));
    seen[d] = true;
  }
  return out;
}
Dims Args::expand_ints(std::string_view name, int64_t count, int64_t fallback) const {
  Dims v = ints(name);
  if (v.empty()) return Dims(count, fallback);
  if (v.size() == 1) return Dims(count, v[0]);
  torchport::check(static_cast<int64_t>(v.size()) == count, Code::bad_value, where(),
                   str(name, " must have 1 or ", count, " entries, got ", torchport::text(v)));
  return v;
}

Value Args::random_bits(Dtype d, const Dims& dims) {
  const int64_t draws = torchport::numel(dims) * (size_of(d) == 8 ? 2 : 1);
  return b_.rng_bits(launch_.rng_state(b_, draws), d, dims).second;
}
Value Args::uniform(Dtype d, const Dims& dims) {
  // 24 (53) random bits times 2^-24 (2^-53): every value below 1 and exactly representable, as PyTorch draws them.
  if (d == Dtype::f64) {
    const Value bits = random_bits(Dtype::u64, dims);
    return b_.mul(b_.convert(b_.shift_right(bits, b_.constant(11, Dtype::u64)), d), std::ldexp(1.0, -53));
  }
  const int kept = d == Dtype::bf16 ? 8 : d == Dtype::f16 ? 11 : 24;
  const Value bits = random_bits(Dtype::u32, dims);
  const Value f =
      b_.mul(b_.convert(b_.shift_right(bits, b_.constant(32 - kept, Dtype::u32)), Dtype::f32), std::ldexp(1.0, -kept));
  return b_.cast(f, d);
}
Value Args::normal(Dtype d, const Dims& dims) {
  // Box-Muller; 1 - u keeps the logarithm's argument above 0.
  const Dtype w = d == Dtype::f64 ? d : Dtype::f32;
  const Value u = uniform(w, dims), v = uniform(w, dims);
  const Value r = b_.sqrt(b_.mul(b_.log(b_.rsub(1, u)), -2));
  return b_.cast(b_.mul(r, b_.cos(b_.mul(v, 2 * std::numbers::pi))), d);
}

void Args::assign(std::string_view name, Value v) {
  const Ref* r = std::get_if<Ref>(&attr(name));
  torchport::check(r && r->id >= 0, Code::internal, where(), str("assigns to '", name, "', which is not a tensor"));
  launch_.assign(*r, v);
}
void Args::assign(std::string_view name, size_t element, Value v) {
  const auto* list = std::get_if<std::vector<Ref>>(&attr(name));
  torchport::check(list && element < list->size() && (*list)[element].id >= 0, Code::internal, where(),
                   str("assigns to '", name, "', which is not a list of tensors"));
  launch_.assign((*list)[element], v);
}

}  // namespace torchport::ops
