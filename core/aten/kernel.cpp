#include "aten/kernel.h"

#include <ATen/Context.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>

#include <atomic>
#include <cstring>

#include "aten/collector.h"
#include "aten/dynamic.h"
#include "aten/fallback.h"
#include "aten/generator.h"
#include "aten/layout.h"
#include "trace/launch.h"

namespace torchport::aten {

namespace {

ArgKind kind_of(const c10::TypePtr& type) {
  using K = c10::TypeKind;
  c10::TypePtr t = type;
  if (t->kind() == K::OptionalType) t = t->castRaw<c10::OptionalType>()->getElementType();
  switch (t->kind()) {
    case K::TensorType: return ArgKind::tensor;
    case K::NumberType: return ArgKind::number;
    case K::FloatType: return ArgKind::real;
    case K::IntType:
    case K::SymIntType: return ArgKind::integer;
    case K::BoolType:
    case K::SymBoolType: return ArgKind::boolean;
    case K::StringType: return ArgKind::text;
    case K::ScalarTypeType: return ArgKind::dtype;
    case K::DeviceObjType: return ArgKind::device;
    case K::GeneratorType: return ArgKind::generator;
    case K::LayoutType:
    case K::MemoryFormatType: return ArgKind::ignored;
    case K::ListType: {
      c10::TypePtr e = t->castRaw<c10::ListType>()->getElementType();
      if (e->kind() == K::OptionalType) return ArgKind::optional_tensor_list;
      switch (e->kind()) {
        case K::TensorType: return ArgKind::tensor_list;
        case K::IntType:
        case K::SymIntType: return ArgKind::integers;
        case K::FloatType: return ArgKind::reals;
        case K::BoolType: return ArgKind::booleans;
        case K::NumberType: return ArgKind::numbers;
        default: break;
      }
      [[fallthrough]];
    }
    default:
      fail(Code::internal, "schema",
           ::torchport::str("has an argument of type ", type->str(), ", which no lowering takes"));
  }
}

std::atomic<uint64_t> next_id{1};

uint64_t bits(double v) {
  uint64_t u;
  std::memcpy(&u, &v, 8);
  return u;
}

// torch.set_float32_matmul_precision in StableHLO's words.
std::string precision() {
  switch (at::globalContext().float32MatmulPrecision()) {
    case at::Float32MatmulPrecision::HIGHEST: return "HIGHEST";
    case at::Float32MatmulPrecision::HIGH: return "HIGH";
    default: return "DEFAULT";
  }
}

}  // namespace

exec::Settings current_settings() { return settings_for(exec::Runtime::get().program_caps()); }
exec::Settings settings_for(const pjrt::Caps& caps) {
  exec::Settings s = exec::settings_for(caps, from_torch(c10::get_default_dtype_as_scalartype()));
  s.precision = precision();
  return s;
}

void check_cast(c10::ScalarType from, c10::ScalarType to) {
  if (!c10::canCast(from, to)) [[unlikely]]
    fail(Code::dtype_cast, "out",
         ::torchport::str("must have a dtype that holds the result: result type ", c10::toString(from),
                          " can't be cast to the desired output type ", c10::toString(to)));
}

void check_no_overlap(const at::Tensor& t) {
  const auto sizes = t.sizes(), strides = t.strides();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] > 1 && strides[i] == 0 && t.numel() > 0) [[unlikely]]
      fail(Code::overlap, "in-place",
           "must not write a tensor in which more than one element refers to a single memory location (unsupported "
           "operation)",
           "tensor.clone() first");
}

std::vector<ArgSpec> read_schema(const c10::FunctionSchema& schema) {
  std::vector<ArgSpec> specs;
  for (const auto& arg : schema.arguments()) {
    ArgSpec spec;
    spec.name = arg.name();
    spec.kind = kind_of(arg.real_type());
    if (spec.name == "pin_memory" || spec.name == "non_blocking") spec.kind = ArgKind::ignored;
    spec.written = arg.alias_info() && arg.alias_info()->isWrite();
    if ((spec.kind == ArgKind::number || spec.kind == ArgKind::real) && arg.default_value() &&
        !arg.default_value()->isNone() && arg.default_value()->isScalar()) {
      const at::Scalar s = arg.default_value()->toScalar();
      if (!s.isComplex()) spec.standard = s.toDouble();
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

Kernel::Kernel(const ops::Op& op, const c10::OperatorHandle& handle, Role role, bool dtype_of_out)
    : op_(op),
      role_(role),
      dtype_of_out_(dtype_of_out),
      id_(next_id.fetch_add(1)),
      handle_(handle),
      random_(handle.hasTag(at::Tag::nondeterministic_seeded)) {
  const auto& schema = handle.schema();
  name_ = schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name());
  if (name_.rfind("aten::", 0) == 0) name_ = name_.substr(6);
  schema_ = std::make_shared<graph::Schema>();
  schema_->name = op.name;
  specs_ = read_schema(schema);
  for (size_t k = 0; k < specs_.size(); ++k) {
    ArgSpec& spec = specs_[k];
    spec.out = role == Role::out && spec.written;
    spec.mark = op.mark(spec.name);
    if (spec.written && role != Role::functional) targets_.push_back(static_cast<int>(k));
    if (!spec.out) schema_->args.push_back(spec.name);
    has_indices_ |= spec.kind == ArgKind::optional_tensor_list;
  }
  if (role == Role::functional) functional_ = handle;
  if (role == Role::out) {  // the overload of the block's name, where it takes the same arguments
    const size_t dot = op.name.find('.');
    const auto other = c10::Dispatcher::singleton().findSchema(
        {"aten::" + op.name.substr(0, dot), dot == std::string::npos ? "" : op.name.substr(dot + 1)});
    if (other && other->schema().arguments().size() == schema_->args.size()) functional_ = other;
  }
  if (dtype_of_out_) schema_->args.push_back("dtype");
  num_returns_ = static_cast<int>(schema.returns().size());
  for (int i = 0; i < num_returns_; ++i)
    if (kind_of(schema.returns()[i].real_type()) == ArgKind::integer) integer_returns_ |= uint64_t{1} << i;
  returns_list_ = num_returns_ == 1 && schema.returns()[0].type()->kind() == c10::TypeKind::ListType;
}

void Kernel::walk(at::ArrayRef<c10::IValue> args, Collector& c) const {
  c.word(id_);
  c.word(static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()));
  if (uses_precision_.load(std::memory_order_relaxed)) c.word(std::hash<std::string>{}(precision()));
  for (size_t k = 0; k < specs_.size(); ++k) {
    const ArgSpec& spec = specs_[k];
    if (spec.out) continue;
    const c10::IValue& v = args[k];
    graph::Attr attr;
    graph::Attr* out = c.graph ? &attr : nullptr;
    switch (spec.kind) {
      case ArgKind::tensor: {
        const graph::Ref r = v.isNone() ? c.tensor(at::Tensor()) : c.tensor(v.toTensor());
        if (out && r.id >= 0) attr = r;
        break;
      }
      case ArgKind::tensor_list:
      case ArgKind::optional_tensor_list: {
        std::vector<graph::Ref> refs;
        if (v.isNone()) {
          c.word(~uint64_t{0});
          break;
        }
        const auto list = v.toListRef();
        c.word(list.size());
        for (const c10::IValue& e : list) {
          const graph::Ref r = c.tensor(e.isNone() ? at::Tensor() : e.toTensor());
          if (out) refs.push_back(r);
        }
        if (out) attr = std::move(refs);
        break;
      }
      case ArgKind::number: c.number(spec, v, out); break;
      case ArgKind::numbers: {  // one number an element, as a list of host numbers
        const auto list = v.toListRef();
        c.word(list.size());
        std::vector<graph::Ref> refs;
        for (const c10::IValue& e : list) {
          const graph::Ref r = c.tensor(
              at::scalar_tensor(e.toScalar(), c10::TensorOptions().dtype(e.isDouble()          ? at::kDouble
                                                                         : e.isComplexDouble() ? at::kComplexDouble
                                                                         : e.isBool()          ? at::kBool
                                                                                               : at::kLong)));
          if (out) {
            c.graph->values[r.id].wrapped = true;
            refs.push_back(r);
          }
        }
        if (out) attr = std::move(refs);
        break;
      }
      case ArgKind::real:
        if (v.isNone()) {
          c.word(1);
        } else if (spec.mark == '?') {
          c.number(spec, v, out);
        } else {
          c.word(bits(v.toDouble()));
          if (out) attr = v.toDouble();
        }
        break;
      case ArgKind::integer:
        if (spec.mark == '?') {
          c.number(spec, v, out);
          break;
        }
        c.word(v.isNone() ? 0x8000000000000001ull : static_cast<uint64_t>(v.toInt()));
        if (out && !v.isNone()) attr = v.toInt();
        break;
      case ArgKind::boolean:
        c.word(v.isNone() ? 2 : v.toBool());
        if (out && !v.isNone()) attr = v.toBool();
        break;
      case ArgKind::text: {
        const std::string s = v.isNone() ? "" : v.toStringRef();
        c.word(std::hash<std::string>{}(s));
        if (out && !v.isNone()) attr = s;
        break;
      }
      case ArgKind::integers: {
        if (v.isNone()) {
          c.word(~uint64_t{0});
          break;
        }
        const auto ints = v.toDimVector();
        c.word(ints.size());
        for (int64_t i : ints) c.word(static_cast<uint64_t>(i));
        if (out) attr = Dims(ints.begin(), ints.end());
        break;
      }
      case ArgKind::reals: {
        if (v.isNone()) {
          c.word(~uint64_t{0});
          break;
        }
        const auto list = v.toDoubleVector();
        c.word(list.size());
        for (double d : list) c.word(bits(d));
        if (out) attr = list;
        break;
      }
      case ArgKind::booleans: {
        const auto list = v.toListRef();
        std::vector<bool> flags;
        uint64_t w = 1;
        for (const c10::IValue& e : list) flags.push_back(e.toBool()), w = w << 1 | e.toBool();
        c.word(w);
        if (out) attr = std::move(flags);
        break;
      }
      case ArgKind::dtype:
        c.word(v.isNone() ? 0xFF : static_cast<uint64_t>(v.toScalarType()));
        if (out && !v.isNone()) attr = from_torch(v.toScalarType());
        break;
      case ArgKind::device:
        if (!v.isNone() && c.device < 0 && v.toDevice().has_index()) c.device = v.toDevice().index();
        break;
      case ArgKind::generator:
        if (!v.isNone()) c.generator = v.toGenerator();
        break;
      case ArgKind::ignored: break;
    }
    if (out) c.node->args.push_back(std::move(attr));
  }
  if (dtype_of_out_) {
    const c10::ScalarType d = args[targets_[0]].toTensor().scalar_type();
    c.word(static_cast<uint64_t>(d));
    if (c.graph) c.node->args.push_back(from_torch(d));
  }
}

exec::ProgramPtr Kernel::compile(at::ArrayRef<c10::IValue> args, const Collector& seen) const {
  graph::Graph g;
  graph::Node node;
  node.schema = schema_;
  Collector c;
  c.graph = &g;
  c.node = &node;
  walk(args, c);
  g.nodes.push_back(std::move(node));
  auto& runtime = exec::Runtime::get();
  const exec::Settings settings = current_settings();
  // How many outputs the block has is known by asking it.
  const auto types = exec::infer(g, g.nodes[0], settings);
  int output = 0;
  auto result = [&] {
    graph::Value v;
    v.kind = graph::Value::Kind::result;
    v.index = 0;
    v.output = output++;
    g.values.push_back(v);
    return graph::Ref{static_cast<int>(g.values.size()) - 1};
  };
  auto store = [&](const at::Tensor& dst) {
    check(output < static_cast<int>(types.size()), Code::internal, name_, "has fewer results than written arguments");
    const Type t = types[output].value_or(Type{});
    check_no_overlap(dst);
    check_cast(to_torch(t.dtype), dst.scalar_type());
    check(t.dims == dst.sizes().vec(), Code::shape_mismatch, name_,
          ::torchport::str("must keep the shape of the written tensor: output with shape ", text(dst.sizes().vec()),
                           " doesn't match the broadcast shape ", text(t.dims)));
    c.write(dst, result());
  };
  if (role_ == Role::inplace && !types.empty()) {
    for (int k : targets_) {
      if (specs_[k].kind == ArgKind::tensor)
        store(args[k].toTensor());
      else
        for (const c10::IValue& e : args[k].toListRef()) store(e.toTensor());
    }
  } else {
    std::vector<Dims> shapes;
    for (size_t i = 0; i < types.size(); ++i) {
      g.results.push_back(result().id);
      shapes.push_back(types[i].value_or(Type{}).dims);
    }
    if (functional_) {
      std::vector<c10::IValue> given;
      for (size_t k = 0; k < specs_.size(); ++k)
        if (!specs_[k].out) given.push_back(args[k]);
      g.orders = memory_orders(*functional_, given, shapes, op_.traits.own_order);
    }
  }
  const auto program = runtime.compile(g, settings, name_);
  if (program->plan.uses_precision &&
      !uses_precision_.exchange(true)) {  // from now on the precision is part of the key
    Collector again;
    walk(args, again);
    again.finish();
    return runtime.cache.insert({{again.words.data(), again.words.size()}, again.hash}, program);
  }
  return runtime.cache.insert({{seen.words.data(), seen.words.size()}, seen.hash}, program);
}

void Kernel::run(torch::jit::Stack& stack) {
  guarded([&] {
    if (random_ && draws() == Draws::cpu) [[unlikely]]
      return run_on_host(handle_, stack);
    if (has_indices_) [[unlikely]]
      prepare(stack);
    const size_t count = specs_.size();
    const at::ArrayRef<c10::IValue> args(stack.data() + stack.size() - count, count);
    Collector c;
    walk(args, c);
    c.finish();
    if (c.device < 0) c.device = current_device();
    if (role_ != Role::functional) check_targets(args, c.tensors > static_cast<int>(c.cells.size()));
    auto& runtime = exec::Runtime::get();
    exec::ProgramPtr program = runtime.cache.lookup({{c.words.data(), c.words.size()}, c.hash});
    if (!program) [[unlikely]]
      program = compile(args, c);

    uint64_t seed = 0, offset = 0;
    if (program->plan.rng_blocks > 0) [[unlikely]]
      std::tie(seed, offset) =
          reserve_random(c.generator ? &*c.generator : nullptr, c.device, program->plan.rng_blocks);

    c10::SmallVector<pjrt::Buffer*, 8> inputs(c.cells.size());
    c10::SmallVector<bool, 8> donatable(c.cells.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = c.held[i].get();
      // held by the cell and by this call alone: nobody else can see the old value
      donatable[i] = inputs[i] && c.held[i].use_count() == 2;
    }
    c10::SmallVector<pjrt::BufferPtr, 4> outputs(program->num_outputs());
    trace::launch({*program,
                   {inputs.data(), inputs.size()},
                   donatable.data(),
                   {c.numbers.data(), c.numbers.size()},
                   seed,
                   offset,
                   runtime.device(c.device)},
                  outputs.data());

    const exec::Lowered& plan = program->plan;
    size_t next = 0;
    c10::SmallVector<at::Tensor, 4> results;
    for (size_t i = 0; i < plan.results.size(); ++i)
      results.push_back(plan.defined[i] ? make_tensor(std::move(outputs[next++]), plan.results[i].dtype,
                                                      plan.results[i].dims, c.device, plan.orders[i])
                                        : at::Tensor());
    for (int input : plan.written) c.cells[input]->buffer = std::move(outputs[next++]);

    c10::SmallVector<c10::IValue, 4> returned;
    if (role_ == Role::out) {
      for (size_t i = 0; i < targets_.size(); ++i) {
        const c10::IValue& target = args[targets_[i]];
        if (specs_[targets_[i]].kind == ArgKind::tensor) {
          check_out(args, target.toTensor(), results[i]);
          store_out(target.toTensor(), results[i], name_);
        } else {
          size_t k = i;
          for (const c10::IValue& e : target.toListRef()) store_out(e.toTensor(), results[k++], name_);
        }
        if (num_returns_ > 0) returned.push_back(target);
      }
    } else if (role_ == Role::inplace) {
      for (int i = 0; i < num_returns_; ++i) returned.push_back(args[targets_[i]]);
    } else if (returns_list_) {
      c10::List<at::Tensor> list;
      list.reserve(results.size());
      for (auto& t : results) list.push_back(std::move(t));
      returned.push_back(std::move(list));
    } else {
      if (static_cast<int>(results.size()) < num_returns_) [[unlikely]]
        fail(Code::internal, name_, ::torchport::str("must give ", num_returns_, " results, got ", results.size()));
      for (int i = 0; i < num_returns_; ++i) {
        if (integer_returns_ >> i & 1)
          returned.emplace_back(int64_t{0});  // a number that only a backward op reads
        else
          returned.push_back(std::move(results[i]));
      }
    }
    torch::jit::drop(stack, count);
    for (auto& v : returned) stack.push_back(std::move(v));
  });
}

void Kernel::check_out(at::ArrayRef<c10::IValue> args, const at::Tensor& out, const at::Tensor& result) const {
  if (op_.traits.out & ops::kOwnDtype)
    check(out.scalar_type() == result.scalar_type(), Code::bad_value, name_,
          ::torchport::str("must have an out tensor of the result's dtype (Expected out tensor to have dtype ",
                           c10::toString(result.scalar_type()), "), got ", c10::toString(out.scalar_type())));
  if (out.sizes() == result.sizes()) [[likely]]
    return;
  for (size_t k = 0; k < specs_.size(); ++k)  // resizing it would change an operand
    if (!specs_[k].written && args[k].isTensor() &&
        args[k].toTensor().unsafeGetTensorImpl() == out.unsafeGetTensorImpl())
      fail(
          Code::shape_mismatch, name_,
          ::torchport::str("must not resize an out= tensor that is an operand too: output with shape ",
                           text(out.sizes().vec()), " doesn't match the broadcast shape ", text(result.sizes().vec())));
}

void Kernel::check_targets(at::ArrayRef<c10::IValue> args, bool shared) const {
  for (int k : targets_) {
    if (specs_[k].kind != ArgKind::tensor) continue;
    const at::Tensor& written = args[k].toTensor();
    if (!is_ours(written)) continue;
    check_no_overlap(written);
    if (!shared && role_ == Role::inplace) continue;
    if (role_ == Role::out && (op_.traits.out & ops::kOwnMemory))
      for (size_t j = 0; j < specs_.size(); ++j) {
        if (specs_[j].written) continue;
        if (args[j].isTensor()) at::assert_no_overlap(written, args[j].toTensor());
        if (args[j].isTensorList())
          for (const c10::IValue& e : args[j].toListRef()) at::assert_no_overlap(written, e.toTensor());
      }
    for (size_t j = 0; j < specs_.size(); ++j)
      if (static_cast<int>(j) != k && specs_[j].kind == ArgKind::tensor && !specs_[j].written && args[j].isTensor() &&
          is_ours(args[j].toTensor()))
        at::assert_no_partial_overlap(written, args[j].toTensor());
  }
}

void Kernel::prepare(torch::jit::Stack& stack) const {
  const size_t count = specs_.size(), first = stack.size() - count;
  for (size_t k = 0; k < count; ++k) {
    if (specs_[k].kind != ArgKind::optional_tensor_list || stack[first + k].isNone()) continue;
    const at::Tensor self = stack[first + (k == 0 ? 1 : 0)].toTensor();
    // One value written through a mask is a fill to the CPU, which casts; other writes want self's dtype.
    if (k + 2 < count && specs_[k + 2].name == "accumulate" && !stack[first + k + 2].toBool()) {
      const at::Tensor values = stack[first + k + 1].toTensor();
      if (values.numel() == 1 && values.scalar_type() != self.scalar_type() &&
          is_one_mask(stack[first + k].toListRef()))
        stack[first + k + 1] = values.to(self.scalar_type());
    }
    stack[first + k] = expand_masks(self, stack[first + k].toListRef());
  }
}

void store_out(const at::Tensor& out, const at::Tensor& result, const std::string& where) {
  check(is_ours(out), Code::device_mismatch, where,
        ::torchport::str("out= must be on ", device_name(), ", got ", out.device().str()));
  check_cast(result.scalar_type(), out.scalar_type());
  // A target that is given its shape is given its memory order, too; a view's strides are no such order.
  if (at::native::resize_output(out, result.sizes()) && !result.is_contiguous() && result.storage_offset() == 0 &&
      result.is_non_overlapping_and_dense() && result.numel() == cell_of(result).numel())
    out.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides());
  check_no_overlap(out);
  Cell& cell = cell_of(out);
  const Cell& from = cell_of(result);
  if (out.scalar_type() == result.scalar_type() && cell.dtype == from.dtype && out.storage_offset() == 0 &&
      out.is_contiguous() && out.numel() == cell.numel() && cell.device == from.device && result.is_contiguous() &&
      result.numel() == from.numel()) {
    cell.buffer = from.buffer;  // the whole storage: take the result's buffer
    cell.dims = from.dims;
    return;
  }
  copy_on_device(out, result);
}

void copy_on_device(const at::Tensor& dst, const at::Tensor& src) {
  static Kernel* kernel =
      new Kernel(*ops::find("copy"), c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", ""), Role::inplace);
  torch::jit::Stack stack{dst, src, false};
  kernel->run(stack);
}

std::vector<pjrt::BufferPtr> run_graph(const std::string& name, const graph::Graph& g,
                                       const std::vector<pjrt::BufferPtr>& inputs, int device) {
  check(g.nodes.empty(), Code::internal, name, "has nodes");
  std::vector<uint64_t> words{std::hash<std::string>{}(name), 0};
  auto dims = [&](const Dims& d) { words.push_back(d.size()), words.insert(words.end(), d.begin(), d.end()); };
  for (size_t i = 0; i < g.inputs.size(); ++i) {
    words.push_back(static_cast<uint64_t>(g.inputs[i].dtype) | static_cast<uint64_t>(!g.read.empty() && !g.read[i])
                                                                   << 8);
    dims(g.inputs[i].dims);
  }
  for (const graph::Value& v : g.values) {
    words.push_back(static_cast<uint64_t>(v.view.dtype) | static_cast<uint64_t>(v.index) << 8 |
                    static_cast<uint64_t>(v.kind) << 40);
    dims(v.view.sizes), dims(v.view.strides);
    words.push_back(static_cast<uint64_t>(v.view.offset));
  }
  auto& runtime = exec::Runtime::get();
  const exec::KeyView key{words, exec::hash_words(words)};
  exec::ProgramPtr program = runtime.cache.lookup(key);
  if (!program) program = runtime.cache.insert(key, runtime.compile(g, runtime.settings(Dtype::f32), name));
  std::vector<pjrt::Buffer*> raw;
  if (inputs.empty()) raw.assign(g.inputs.size(), nullptr);
  for (const auto& b : inputs) raw.push_back(b.get());
  auto donatable = std::make_unique<bool[]>(raw.size());
  std::vector<pjrt::BufferPtr> outputs(program->num_outputs());
  trace::launch({*program, raw, donatable.get(), {}, 0, 0, runtime.device(device)}, outputs.data());
  return outputs;
}

}  // namespace torchport::aten
