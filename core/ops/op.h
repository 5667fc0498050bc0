// The op table. One OP block lowers one op of aten (or several overloads that share their meaning); the in-place and
// out= variants, the cache key, the output types, promotion and the docs row are derived from it and from PyTorch's
// schema.
//
//   OP("cumsum", Promote::none) {
//     Value x = a.tensor("self");
//     ...b.cast(x, a.dtype("dtype", x.dtype()))...
//     return result;                      // a Value, or {Value, Value} for several outputs; Value{} = undefined tensor
//   }
#pragma once
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "hlo/builder.h"

namespace torchport::ops {

using hlo::Body;
using hlo::Builder;
using hlo::Cmp;
using hlo::GatherDims;
using hlo::Reduce;
using hlo::ScatterDims;
using hlo::Value;
using hlo::Values;
using hlo::Window;

// What happens to tensor (and promoted Scalar) arguments before the block sees them.
enum class Promote : uint8_t {
  none,      // each keeps its dtype
  same,      // torch.result_type of all of them; the result keeps it
  to_float,  // as same, integers become the default float dtype
  compare = same,
};

struct Traits {
  Promote promote = Promote::none;
  // Marks on arguments, separated by spaces. A Scalar argument is a runtime operand and a float argument static unless
  // marked:
  //   name!  static (part of the key)      name?  runtime operand
  //   name~  static for 0, 1, -1, 2, -2, 3, 0.5, -0.5, runtime otherwise (where the lowering is simpler for those)
  //   name-  does not take part in promotion and is not cast (a condition, an index)
  //   name+  a Scalar that takes part in promotion; self, other, exponent, min and max do already
  const char* marks = "";
  // Compute in f32 when the common dtype is f16 or bf16, round the result once, as PyTorch's CPU kernels do.
  bool opmath = false;
  // Serves compiled graphs alone: eager has its own implementation in aten/, or none.
  bool graph_only = false;
  // What PyTorch asks of this op's out= tensors beyond a dtype that holds the result: kOwnDtype, kOwnMemory.
  int out = 0;
  // Results keep an order in memory of their own whatever the operands' (LAPACK's lie column by column, FFT's by the
  // dimensions that were transformed): the op's meta kernel is asked for it each time.
  bool own_order = false;
};
constexpr int kOwnDtype = 1;   // exactly the result's dtype
constexpr int kOwnMemory = 2;  // no memory shared with an input, not even all of it
constexpr bool kOpmath = true, kGraphOnly = true;

class Args;
// Outputs of a block.
struct Result {
  Values values;
  Result(Value v) : values{v} {}
  Result(Values v) : values(std::move(v)) {}
  Result(std::initializer_list<Value> v) : values(v) {}
};

using Lower = Result (*)(Builder&, Args&);
struct Op {
  std::string name;  // aten's: "add.Tensor"
  const char* file;
  int line;
  Lower lower;
  Traits traits;
  std::string element;  // of a derived list op: the op of one element and its arguments (ops/foreach.cpp)
  char mark(std::string_view arg) const;  // the mark of an argument, 0 when it has none
  bool has_mark(std::string_view arg, char c) const;
};
const Op* find(std::string_view name);
const std::map<std::string, Op, std::less<>>& all();

struct Register {
  Register(const char* names, const char* file, int line, Lower, Traits);
};

// Where a launch's numbers, random state, writes and checks come from: exec implements it.
class Launch {
 public:
  virtual ~Launch() = default;
  virtual Value number(Builder&, int runtime, Dtype) = 0;   // 0-d
  virtual Value rng_state(Builder&, int64_t elements) = 0;  // u64[2]; reserves what `elements` 32-bit draws need
  virtual void assign(graph::Ref target, Value) = 0;        // a hidden write into an argument
  virtual void require(Builder&, Value ok, Code,
                       std::string message) = 0;  // i1 of any shape: all must hold, else Error
  virtual Dtype default_dtype() const = 0;        // torch.get_default_dtype()
  virtual bool f64() const = 0;                   // the platform has double precision
};

class Args {
 public:
  Args(Builder&, const Op&, const graph::Node&, const std::vector<Value>& values,
       const std::vector<graph::Value>& infos, Launch&);

  // Tensors, cast to the common dtype when the op promotes. A promoted Scalar comes as a 0-d value. A missing optional
  // tensor is Value{} (false).
  Value tensor(std::string_view name);
  Values tensors(std::string_view name);            // of a list; with Value{} for None entries
  bool has(std::string_view name) const;            // given and not None
  Dtype given_dtype(std::string_view name) const;   // a tensor's or number's dtype before promotion
  bool is_contiguous(std::string_view name) const;  // a tensor's strides as its caller sees them
  Dtype dtype() const { return common_; }           // the common dtype after promotion (before opmath)
  Dtype result_dtype() const { return common_; }

  // Numbers as 0-d values of a dtype: a constant when static, else a runtime operand. Where another overload has a 0-d
  // tensor of that name (lr), that tensor.
  Value number(std::string_view name, Dtype);
  Value number(const graph::Number&, Dtype);
  bool is(std::string_view name, double v) const;  // static and equal
  double f(std::string_view name) const;           // a static number's value
  double f(std::string_view name, double fallback) const;
  graph::Number raw(std::string_view name) const;  // kind and, when static, value

  int64_t i(std::string_view name) const;
  int64_t i(std::string_view name, int64_t fallback) const;  // when None or absent
  bool flag(std::string_view name) const;
  bool flag(std::string_view name, bool fallback) const;
  Dims ints(std::string_view name) const;  // None = {}
  std::vector<double> floats(std::string_view name) const;
  // Of a Scalar[], which comes as a list of host numbers; nullopt for a list of tensors.
  std::optional<std::vector<graph::Number>> numbers(std::string_view name) const;
  std::vector<bool> flags(std::string_view name) const;
  std::string text(std::string_view name) const;             // None = ""
  Dtype dtype(std::string_view name, Dtype fallback) const;  // of a ScalarType argument
  int64_t dim(std::string_view name, const Value& x) const;  // wrapped; IndexError outside the rank
  Dims dims(std::string_view name, const Value& x) const;    // wrapped, IndexError outside; all dims when None or empty
  Dims expand_ints(std::string_view name, int64_t count, int64_t fallback) const;  // [k] -> [k, k, k]; {} -> fallback

  Dtype default_dtype() const { return launch_.default_dtype(); }
  bool platform_has_f64() const { return launch_.f64(); }
  // Random bits: uniform integers of dtype u32 or u64. Reserves the draws from the device's generator.
  Value random_bits(Dtype, const Dims&);
  Value random_state(int64_t draws) { return launch_.rng_state(b_, draws); }  // for an op that repeats its draws later
  Value uniform(Dtype float_dtype, const Dims&);                              // [0, 1)
  Value normal(Dtype float_dtype, const Dims&);                               // mean 0, deviation 1
  // A write into an argument that the schema does not show (running statistics), or into the elements of a list.
  void assign(std::string_view name, Value);
  void assign(std::string_view name, size_t element, Value);
  // ok: i1 of any shape. Raises `code` when an element is false: at once on platforms that share the host's memory and
  // in debug mode, else at the next synchronisation.
  void require(Value ok, Code code, std::string message) { launch_.require(b_, ok, code, std::move(message)); }
  [[noreturn]] void fail(Code code, const std::string& what, const std::string& hint = {}) const {
    torchport::fail(code, where(), what, hint);
  }
  void check(bool ok, Code code, const std::string& what) const {
    if (!ok) fail(code, what);
  }
  std::string where() const { return std::string(name_); }  // "add": for messages
  const std::string& op_name() const { return op_.name; }   // "add.Tensor"
  const Op& op() const { return op_; }
  const std::vector<std::string>& arg_names() const { return node_.schema->args; }
  Launch& launch() { return launch_; }                        // for call() of ops/call.h
  const graph::Attr* find_attr(std::string_view name) const;  // null when the overload has no such argument

 private:
  const graph::Attr& attr(std::string_view name) const;
  void find_common();
  Value materialise(graph::Ref, std::optional<Dtype>);
  Dtype number_dtype(const graph::Number&) const;

  Builder& b_;
  const Op& op_;
  const graph::Node& node_;
  const std::vector<Value>& values_;
  const std::vector<graph::Value>& infos_;
  Launch& launch_;
  std::string_view name_;
  Dtype common_ = Dtype::f32;
  Dtype compute_ = Dtype::f32;  // common, or opmath of it
};

// Runs a block: promotion, the block, the rounding that opmath asks for.
Values lower(Builder&, const Op&, Args&);

#define OP(NAMES, ...) TORCHPORT_OP_(__COUNTER__, NAMES, __VA_ARGS__)
#define TORCHPORT_OP_(N, NAMES, ...) TORCHPORT_OP__(N, NAMES, __VA_ARGS__)
#define TORCHPORT_OP__(N, NAMES, ...)                                                                 \
  static ::torchport::ops::Result lower_##N(::torchport::ops::Builder& b, ::torchport::ops::Args& a); \
  static const ::torchport::ops::Register register_##N{NAMES, __FILE__, __LINE__, &lower_##N,         \
                                                       ::torchport::ops::Traits{__VA_ARGS__}};        \
  static ::torchport::ops::Result lower_##N([[maybe_unused]] ::torchport::ops::Builder& b,            \
                                            [[maybe_unused]] ::torchport::ops::Args& a)

}  // namespace torchport::ops
