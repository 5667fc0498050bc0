#include "aten/graph.h"

#include <mutex>
#include <unordered_map>

#include "aten/generator.h"
#include "trace/launch.h"

namespace torchport::aten {

namespace {

std::string plain(const std::string& overload) {
  std::string n = overload.rfind("aten::", 0) == 0 ? overload.substr(6) : overload;
  if (n.size() > 8 && n.compare(n.size() - 8, 8, ".default") == 0) n.resize(n.size() - 8);
  return n;
}
c10::OperatorHandle handle(const std::string& op) {
  const size_t dot = op.find('.');
  const auto found = c10::Dispatcher::singleton().findSchema(
      {"aten::" + op.substr(0, dot), dot == std::string::npos ? "" : op.substr(dot + 1)});
  check(found.has_value(), Code::op_unsupported, op, "must be an op that PyTorch has");
  return *found;
}

}  // namespace

GraphBuilder::GraphBuilder() : settings_(current_settings()) {}
GraphBuilder::GraphBuilder(const std::string& platform) {
  for (const pjrt::Platform& p : pjrt::platforms())
    if (p.name == platform) {
      settings_ = settings_for(p.caps);
      return;
    }
  std::string known;
  for (const pjrt::Platform& p : pjrt::platforms()) known += (known.empty() ? "" : ", ") + p.name;
  fail(Code::bad_value, "graph", ::torchport::str("must be for one of ", known, ", got ", platform));
}

int GraphBuilder::add(graph::Value v, Type t) {
  graph_.values.push_back(std::move(v));
  types_.push_back(std::move(t));
  return static_cast<int>(types_.size()) - 1;
}

int GraphBuilder::input(const Type& t) {
  graph_.inputs.push_back(t);
  graph_.read.push_back(true);
  graph::Value v;
  v.index = static_cast<int>(graph_.inputs.size()) - 1;
  v.view = {t.dtype, t.dims, contiguous_strides(t.dims), 0, -1};
  return add(v, t);
}

int GraphBuilder::view(int value, Dtype dtype, const Dims& sizes, const Dims& strides, int64_t offset) {
  graph::Value v;
  v.kind = graph::Value::Kind::view_of_value;
  v.index = value;
  v.view = {dtype, sizes, strides, offset, -1};
  return add(v, {dtype, sizes});
}

const std::vector<ArgSpec>& GraphBuilder::specs(const std::string& overload) {
  static std::mutex mutex;
  static auto* known = new std::unordered_map<std::string, std::vector<ArgSpec>>;
  const std::string op = plain(overload);
  std::lock_guard lock(mutex);
  auto [it, fresh] = known->try_emplace(op);
  if (fresh) it->second = read_schema(handle(op).schema());
  return it->second;
}

std::vector<int> GraphBuilder::node(const std::string& overload, std::vector<graph::Attr> args) {
  const std::string name = plain(overload);
  check(ops::find(name), Code::op_unsupported, name, "has no lowering");
  const auto& spec = specs(overload);
  check(spec.size() == args.size(), Code::bad_value, name,
        ::torchport::str("must get ", spec.size(), " arguments, got ", args.size()));
  auto schema = std::make_shared<graph::Schema>();
  schema->name = name;
  for (const ArgSpec& s : spec) schema->args.push_back(s.name);

  // The types come from lowering this node alone, over inputs of its arguments' types.
  graph::Graph alone;
  graph::Node probe{schema, args};
  auto renumber = [&](graph::Ref& r) {
    if (r.id < 0) return;
    const Type& t = types_.at(r.id);
    alone.inputs.push_back(t);
    graph::Value v;
    v.index = static_cast<int>(alone.inputs.size()) - 1;
    v.view = {t.dtype, t.dims, contiguous_strides(t.dims), 0, -1};
    alone.values.push_back(v);
    r.id = v.index;
  };
  for (graph::Attr& a : probe.args) {
    if (auto* r = std::get_if<graph::Ref>(&a)) renumber(*r);
    if (auto* list = std::get_if<std::vector<graph::Ref>>(&a))
      for (graph::Ref& r : *list) renumber(r);
  }
  return append({schema, std::move(args)}, exec::infer(alone, probe, settings_));
}

std::vector<int> GraphBuilder::append(graph::Node node, const std::vector<std::optional<Type>>& types) {
  graph_.nodes.push_back(std::move(node));
  std::vector<int> out;
  for (size_t k = 0; k < types.size(); ++k) {
    graph::Value v;
    v.kind = graph::Value::Kind::result;
    v.index = static_cast<int>(graph_.nodes.size()) - 1;
    v.output = static_cast<int>(k);
    out.push_back(types[k] ? add(v, *types[k]) : -1);
  }
  return out;
}

std::vector<int> GraphBuilder::barrier(const std::vector<int>& values) {
  static const auto schema = std::make_shared<graph::Schema>(graph::Schema{std::string(graph::kBarrier), {"values"}});
  std::vector<graph::Ref> refs;
  std::vector<std::optional<Type>> types;
  for (int id : values) refs.push_back({id}), types.emplace_back(types_.at(id));
  return append({schema, {std::move(refs)}}, types);
}

int GraphBuilder::sharding(int value, const std::string& placement) {
  static const auto schema =
      std::make_shared<graph::Schema>(graph::Schema{std::string(graph::kSharding), {"value", "placement"}});
  return append({schema, {graph::Ref{value}, placement}}, {types_.at(value)})[0];
}

void GraphBuilder::write(int input, int value) {
  const graph::Value& target = graph_.values.at(input);
  check(target.kind == graph::Value::Kind::input && types_.at(value) == types_.at(input), Code::bad_value, "graph",
        ::torchport::str("must write a value of the type of an input, got ", text(types_.at(value))));
  graph_.writes.push_back({value, target.index, target.view});
}

std::unique_ptr<Compiled> GraphBuilder::compile(int device, const std::string& name) {
  return std::make_unique<Compiled>(exec::Runtime::get().compile(graph_, settings_, name), graph_.inputs, device);
}

std::vector<at::Tensor> Compiled::call(const std::vector<at::Tensor>& tensors) const {
  check(tensors.size() == inputs_.size(), Code::bad_value, program_->name,
        ::torchport::str("must get ", inputs_.size(), " tensors, got ", tensors.size()));
  std::vector<pjrt::BufferPtr> held;
  std::vector<pjrt::Buffer*> raw;
  for (size_t i = 0; i < tensors.size(); ++i) {
    at::Tensor t = tensors[i];
    check(is_ours(t) && type_of(t) == inputs_[i], Code::shape_mismatch, program_->name,
          ::torchport::str("input ", i, " must be ", text(inputs_[i]), " on ", device_name(), ", got ",
                           text(type_of(t)), " on ", t.device().str()));
    Cell* cell = &cell_of(t);
    if (!(cell->type() == inputs_[i]) || !t.is_contiguous() ||
        t.storage_offset() != 0) {  // a view: the program takes dense values
      at::Tensor dense = make_tensor({}, inputs_[i].dtype, inputs_[i].dims, cell->device);
      copy_on_device(dense, t);
      held.push_back(buffer_of(cell_of(dense)));
    } else {
      held.push_back(buffer_of(*cell));
    }
    raw.push_back(held.back().get());
  }
  uint64_t seed = 0, offset = 0;
  if (program_->plan.rng_blocks > 0) {
    check(draws() == Draws::device, Code::bad_setting, "random_mode",
          "must be 'device' for a graph that was compiled with the device's random numbers, got 'cpu'",
          "set it before torch.compile traces");
    std::tie(seed, offset) = reserve_random(nullptr, device_, program_->plan.rng_blocks);
  }
  auto donatable = std::make_unique<bool[]>(raw.size());
  std::vector<pjrt::BufferPtr> outputs(program_->num_outputs());
  trace::launch({*program_, raw, donatable.get(), {}, seed, offset, exec::Runtime::get().device(device_)},
                outputs.data());
  std::vector<at::Tensor> results;
  size_t next = 0;
  const exec::Lowered& plan = program_->plan;
  for (size_t i = 0; i < plan.results.size(); ++i)
    results.push_back(
        plan.defined[i] ? make_tensor(std::move(outputs[next++]), plan.results[i].dtype, plan.results[i].dims, device_)
                        : at::Tensor());
  return results;
}

std::vector<std::vector<at::Tensor>> run_partitioned(const std::string& text,
                                                     const std::vector<std::vector<at::Tensor>>& inputs,
                                                     const std::vector<Type>& results) {
  exec::Runtime& runtime = exec::Runtime::get();
  const size_t count = inputs.size();
  check(count > 0 && count <= static_cast<size_t>(runtime.device_count()), Code::bad_value, "run_partitioned",
        ::torchport::str("must get a list of tensors for each of 1 to ", runtime.device_count(), " devices, got ",
                         count));
  const auto executable =
      runtime.client().compile(text, {.num_partitions = static_cast<int>(count), .portable = false});
  check(executable->num_outputs() == results.size(), Code::bad_value, "run_partitioned",
        ::torchport::str("must get the type of ", executable->num_outputs(), " results, got ", results.size()));
  std::vector<std::vector<PJRT_Buffer*>> in(count), out(count, std::vector<PJRT_Buffer*>(results.size()));
  std::vector<pjrt::BufferPtr> held;
  std::vector<PJRT_Buffer* const*> ins;
  std::vector<PJRT_Buffer**> outs;
  for (size_t d = 0; d < count; ++d) {
    for (const at::Tensor& t : inputs[d]) {
      check(is_ours(t) && t.is_contiguous() && t.storage_offset() == 0 && t.device().index() == static_cast<int>(d),
            Code::bad_value, "run_partitioned", ::torchport::str("must get dense tensors on device ", d));
      held.push_back(buffer_of(cell_of(t)));
      in[d].push_back(held.back()->raw());
    }
    ins.push_back(in[d].data()), outs.push_back(out[d].data());
  }
  executable->execute_all(ins.data(), count, inputs[0].size(), outs.data());
  std::vector<std::vector<at::Tensor>> tensors(count);
  for (size_t d = 0; d < count; ++d)
    for (size_t k = 0; k < results.size(); ++k) {
      const Type& t = results[k];
      const int64_t bytes = t.numel() * static_cast<int64_t>(size_of(t.dtype));
      pjrt::Device& device = runtime.device(static_cast<int>(d));
      auto buffer = pjrt::Buffer::adopt(out[d][k], &device, t.dtype, bytes);
      buffer->wait();  // the executable dies with this function
      tensors[d].push_back(make_tensor(std::move(buffer), t.dtype, t.dims, static_cast<int>(d)));
    }
  return tensors;
}

}  // namespace torchport::aten
