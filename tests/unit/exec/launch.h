// Builds a graph, compiles it through the runtime and launches it.
#pragma once
#include <map>
#include <memory>
#include <utility>

#include "array.h"
#include "exec/view.h"
#include "strided.h"

namespace torchport::exec {

using graph::Attr;
using graph::Ref;
using test::Array;
using test::array;
using test::counting;
using test::error_of;
using test::fetch;
using test::runtime;
using test::send;
using test::Strided;
using test::values;

struct Ran {
  std::vector<Array> results;         // the defined ones
  std::map<int, Array> written;       // by graph input
  int check = 0;                      // 1 + the check that failed
  std::vector<pjrt::BufferPtr> held;  // the buffers given as inputs
};

class Launch {
 public:
  graph::Graph g;
  std::vector<RuntimeNumber> numbers;
  Settings settings = runtime().settings(Dtype::f32);

  int input(Array a, bool read = true) {
    g.inputs.push_back(a.type);
    g.read.push_back(read);
    inputs_.push_back(std::move(a));
    return static_cast<int>(inputs_.size()) - 1;
  }
  // A view's geometry; with `runtime` its starts become numbers of the launch, as eager does.
  graph::View view(const Type& base, const Strided& s, Dtype d, bool runtime = false) {
    graph::View v{d, s.sizes, s.strides, s.offset, -1};
    if (!runtime) return v;
    graph::ViewPlan p;
    plan(base, v, p);
    v.runtime = static_cast<int>(numbers.size());
    if (p.cls == graph::ViewClass::gather) numbers.push_back({.i = p.starts[0]});
    if (p.cls == graph::ViewClass::box)
      for (int i = 0; i < p.count; ++i)
        if (p.has_start(i)) numbers.push_back({.i = p.starts[i]});
    EXPECT_EQ(static_cast<int>(numbers.size()), v.runtime + count_starts(p));
    return v;
  }
  graph::View whole(int i) { return view(g.inputs[i], test::Draw::whole(g.inputs[i].dims), g.inputs[i].dtype); }

  Ref value(int input) { return value(input, whole(input)); }
  Ref value(int input, graph::View v) {
    return add({.kind = graph::Value::Kind::input, .index = input, .view = std::move(v)});
  }
  Ref view_of(Ref base, graph::View v) {
    return add({.kind = graph::Value::Kind::view_of_value, .index = base.id, .view = std::move(v)});
  }
  Ref number(RuntimeNumber n, Dtype d, bool wrapped = false) {
    numbers.push_back(n);
    graph::View v;
    v.dtype = d;
    return add({.kind = graph::Value::Kind::host_number,
                .index = static_cast<int>(numbers.size()) - 1,
                .wrapped = wrapped,
                .view = v});
  }
  int node(const std::string& name, const std::vector<std::pair<std::string, Attr>>& args) {
    graph::Schema schema{name, {}};
    graph::Node n;
    for (const auto& [arg, attr] : args) schema.args.push_back(arg), n.args.push_back(attr);
    n.schema = std::make_shared<const graph::Schema>(std::move(schema));
    g.nodes.push_back(std::move(n));
    return static_cast<int>(g.nodes.size()) - 1;
  }
  Ref output(int node, int which = 0) {
    return add({.kind = graph::Value::Kind::result, .index = node, .output = which});
  }
  Ref call(const std::string& name, const std::vector<std::pair<std::string, Attr>>& args) {
    return output(node(name, args));
  }
  void result(Ref r) { g.results.push_back(r.id); }
  void write(Ref v, int input, graph::View view) { g.writes.push_back({v.id, input, std::move(view)}); }
  void write(Ref v, int input) { write(v, input, whole(input)); }

  std::vector<std::optional<Type>> infer(int node) const { return exec::infer(g, g.nodes[node], settings); }
  std::shared_ptr<const Program> compile(const std::string& name = "test") {
    return runtime().compile(g, settings, name);
  }
  Ran run(bool donate = false, int device = 0, uint64_t offset = 0) { return run(*compile(), donate, device, offset); }
  Ran run(const Program& program, bool donate = false, int device = 0, uint64_t offset = 0, uint64_t seed = 1) {
    Ran ran;
    std::vector<pjrt::Buffer*> raw;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      ran.held.push_back(g.read[i] ? send(inputs_[i], device) : pjrt::BufferPtr());
      raw.push_back(ran.held.back().get());
    }
    const auto donatable = std::make_unique<bool[]>(raw.size() + 1);
    for (size_t i = 0; i < raw.size(); ++i) donatable[i] = donate;
    std::vector<pjrt::BufferPtr> out(program.num_outputs());
    program.run(raw, donatable.get(), numbers, seed, offset, runtime().device(device), out.data());
    size_t at = 0;
    for (size_t i = 0; i < program.plan.results.size(); ++i)
      if (program.plan.defined[i]) ran.results.push_back(fetch(out[at++], program.plan.results[i]));
    for (size_t i = 0; i < program.plan.written.size(); ++i)
      ran.written.emplace(program.plan.written[i], fetch(out[at++], program.plan.written_types[i]));
    if (!program.plan.checks.empty()) ran.check = test::words<int32_t>(fetch(out[at++], {Dtype::i32, {}}))[0];
    EXPECT_EQ(at, out.size());
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i]->bytes(), program.output_bytes()[i]);
    return ran;
  }
  const Array& given(int input) const { return inputs_[input]; }

 private:
  Ref add(graph::Value v) {
    g.values.push_back(std::move(v));
    return {static_cast<int>(g.values.size()) - 1};
  }
  std::vector<Array> inputs_;
};

}  // namespace torchport::exec
