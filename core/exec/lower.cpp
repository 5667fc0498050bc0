#include "exec/lower.h"

#include <algorithm>
#include <map>

#include "exec/view.h"
#include "ops/op.h"

namespace torchport::exec {

using graph::Graph;
using hlo::Builder;
using hlo::Value;
using hlo::Values;

namespace {

class Lowering final : public ops::Launch {
 public:
  Lowering(const Graph& g, const Settings& s, const Placement& p = {}) : graph_(g), settings_(s), placement_(p) {
    b_.precision = s.precision;
    b_.s64_dot = s.s64_dot;
  }

  Lowered run() {
    for (size_t i = 0; i < graph_.inputs.size(); ++i) {
      const bool read = graph_.read.empty() || graph_.read[i];
      if (read) out_.arguments.push_back(static_cast<int>(i));
      bases_.push_back(read ? b_.argument(graph_.inputs[i]) : Value{});  // an unread one becomes zeros below
    }
    open_numbers();
    for (size_t i = 0; i < bases_.size(); ++i)
      if (!bases_[i]) bases_[i] = b_.zeros(graph_.inputs[i]);  // storage that nobody has written yet
    values();
    Values results;
    out_.orders = graph_.orders;
    out_.orders.resize(graph_.results.size());
    for (size_t i = 0; i < graph_.results.size(); ++i) {
      const int id = graph_.results[i];
      const Value v = id < 0 ? Value{} : value(id);
      out_.defined.push_back(static_cast<bool>(v));
      out_.results.push_back(v ? v.type() : Type{});
      if (v) results.push_back(out_.orders[i].empty() ? v : b_.transpose(v, out_.orders[i]));
    }
    for (const graph::Write& w : graph_.writes) {
      const Value v = value(w.value);
      if (v) write(w.input, w.view, b_.broadcast_to(b_.cast(v, w.view.dtype), w.view.sizes));
    }
    for (auto& [input, v] : current_) {
      const auto arg = std::find(out_.arguments.begin(), out_.arguments.end(), input);
      if (arg != out_.arguments.end() && settings_.donation && v.type() == graph_.inputs[input])
        b_.alias(arg - out_.arguments.begin(), results.size());
      out_.written.push_back(input);
      out_.written_types.push_back(v.type());
      results.push_back(v);
    }
    if (failed_) results.push_back(failed_);
    place(results.size());
    out_.text = close(results);
    out_.uses_precision = b_.uses_precision;
    return std::move(out_);
  }

  std::vector<std::optional<Type>> types_of(const graph::Node& node) {
    for (const Type& t : graph_.inputs) bases_.push_back(b_.argument(t));
    open_numbers();
    values();
    std::vector<std::optional<Type>> types;
    for (const Value& v : call(node)) types.push_back(v ? std::optional(v.type()) : std::nullopt);
    return types;
  }

  // ---- ops::Launch

  Value number(Builder& b, int runtime, Dtype d) override {
    auto [it, fresh] = slots_.emplace(std::pair{runtime, d}, 0);
    if (fresh) {
      it->second = out_.words;
      out_.slots.push_back({runtime, d, out_.words});
      out_.words += words_of(d);
    }
    const int at = it->second;
    auto word = [&](int i) { return b.reshape(b.slice_dim(numbers_, 0, at + i, at + i + 1), {}); };
    auto pair = [&](int i, Dtype as) { return b.bitcast(b.slice_dim(numbers_, 0, at + i, at + i + 2), as); };
    switch (d) {
      case Dtype::f64:
      case Dtype::i64:
      case Dtype::u64: return pair(0, d);
      case Dtype::c64: return b.complex(b.bitcast(word(0), Dtype::f32), b.bitcast(word(1), Dtype::f32));
      case Dtype::c128: return b.complex(pair(0, Dtype::f64), pair(2, Dtype::f64));
      default: return is_float(d) ? b.convert(b.bitcast(word(0), Dtype::f32), d) : b.cast(word(0), d);
    }
  }

  Value rng_state(Builder& b, int64_t elements) override {
    if (out_.rng_word < 0) {
      out_.rng_word = out_.words;
      out_.words += 4;
    }
    const Value words = b.slice_dim(numbers_, 0, out_.rng_word, out_.rng_word + 4);
    const Value state = b.bitcast(b.reshape(words, {2, 2}), Dtype::u64);
    const int64_t first = out_.rng_blocks;
    out_.rng_blocks += (elements + 3) / 4;
    return first == 0 ? state : b.add(state, b.constants(std::vector<int64_t>{0, first}, Dtype::u64));
  }

  void assign(graph::Ref target, Value v) override {
    const graph::Value& info = graph_.values[target.id];
    check(info.kind == graph::Value::Kind::input, Code::internal, "lower", "assigns to a value that is no input");
    write(info.index, info.view, b_.broadcast_to(b_.cast(v, info.view.dtype), info.view.sizes));
  }

  void require(Builder& b, Value ok, Code code, std::string message) override {
    out_.checks.push_back({code, b.where, std::move(message)});
    const Value bad = b.logical_not(b.reduce_keep(hlo::Reduce::all, ok, {}, false));
    const Value mine = b.constant_int(static_cast<int64_t>(out_.checks.size()), Dtype::i32);
    const Value none = failed_ ? failed_ : b.constant_int(0, Dtype::i32);
    const Value first = b.select(bad, mine, b.constant_int(0, Dtype::i32));
    failed_ = failed_ ? b.select(b.ne(none, b.constant_int(0, Dtype::i32)), none, first) : first;
  }

  Dtype default_dtype() const override { return settings_.default_dtype; }
  bool f64() const override { return settings_.f64; }

 private:
  static int words_of(Dtype d) { return d == Dtype::c128 ? 4 : size_of(d) == 8 ? 2 : 1; }

  // The numbers' length is known only at the end: the argument is made with a mark for its size, filled in close().
  void open_numbers() { numbers_ = b_.argument({Dtype::i32, {kWordsMark}}); }
  std::string close(const Values& results) {
    std::string text = b_.finish(results, "main", placement_);
    const std::string mark =
        "<" + std::to_string(kWordsMark) + "xi32>";  // as a type: the number itself may be a constant
    if (out_.words == 0) {                           // nothing uses it: drop the argument
      const size_t at = text.find(mark);
      const size_t begin = text.rfind('%', at), end = at + mark.size();
      const size_t from = text.compare(begin - 2, 2, ", ") == 0 ? begin - 2 : begin;
      return text.erase(from, end - from);
    }
    const std::string words = "<" + std::to_string(out_.words) + "xi32>";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + words.size()))
      text.replace(at, mark.size(), words);
    return text;
  }

  // Placements from the graph's inputs and results to the program's: unread inputs and undefined results are not in it,
  // written inputs come after the results.
  void place(size_t num_results) {
    if (placement_.partitions == 1) return;
    auto at = [](const std::vector<std::string>& texts, size_t i) { return i < texts.size() ? texts[i] : ""; };
    Placement p{placement_.partitions, {}, {}};
    for (int i : out_.arguments) p.arguments.push_back(at(placement_.arguments, i));
    for (size_t i = 0; i < out_.defined.size(); ++i)
      if (out_.defined[i]) p.results.push_back(at(placement_.results, i));
    for (int i : out_.written) p.results.push_back(at(placement_.arguments, i));
    p.results.resize(num_results);
    placement_ = std::move(p);
  }

  StartSource starts(const graph::View& v, const Type& base) {
    if (v.runtime >= 0) return [this, first = v.runtime](int i) { return number(b_, first + i, Dtype::i64); };
    graph::ViewPlan p;
    plan(base, v, p);
    std::vector<int64_t> fixed;
    if (p.cls == graph::ViewClass::gather)
      fixed.push_back(p.starts[0]);
    else if (p.cls == graph::ViewClass::box)
      for (int i = 0; i < p.count; ++i)
        if (p.has_start(i)) fixed.push_back(p.starts[i]);
    return [this, fixed](int i) { return b_.constant_int(fixed[i], Dtype::i64); };
  }

  void values() {
    values_.resize(graph_.values.size());
    outputs_.resize(graph_.nodes.size());
    done_.resize(graph_.values.size(), false);
    for (size_t i = 0; i < graph_.values.size(); ++i) {
      const graph::Value& v = graph_.values[i];
      if (v.kind == graph::Value::Kind::result && outputs_[v.index].empty())
        outputs_[v.index] = call(graph_.nodes[v.index]);
      value(static_cast<int>(i));
    }
    // nodes without outputs (they only assign)
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      if (outputs_[n].empty()) outputs_[n] = call(graph_.nodes[n]);
  }

  Value value(int id) {
    if (done_[id]) return values_[id];
    const graph::Value& v = graph_.values[id];
    Value x;
    switch (v.kind) {
      case graph::Value::Kind::input:
        x = read_view(b_, bases_[v.index], v.view, starts(v.view, bases_[v.index].type()));
        if (v.conjugated) x = b_.complex(b_.real(x), b_.neg(b_.imag(x)));
        break;
      case graph::Value::Kind::view_of_value: {
        const Value base = value(v.index);
        x = read_view(b_, base, v.view, starts(v.view, base.type()));
        break;
      }
      case graph::Value::Kind::host_number: break;  // read where it is used, in the dtype it is needed in
      case graph::Value::Kind::result:
        if (v.output < static_cast<int>(outputs_[v.index].size())) x = outputs_[v.index][v.output];
        break;
    }
    done_[id] = true;
    return values_[id] = x;
  }

  Values call(const graph::Node& node) {
    if (node.schema->name == graph::kBarrier) {
      Values in;
      for (graph::Ref r : std::get<std::vector<graph::Ref>>(node.args[0])) in.push_back(values_[r.id]);
      return b_.optimization_barrier(in);
    }
    if (node.schema->name == graph::kSharding)
      return {b_.sharding(values_[std::get<graph::Ref>(node.args[0]).id], std::get<std::string>(node.args[1]))};
    const ops::Op* op = ops::find(node.schema->name);
    check(op, Code::op_unsupported, node.schema->name, "has no lowering");
    b_.where = op->name;
    ops::Args args(b_, *op, node, values_, graph_.values, *this);
    return ops::lower(b_, *op, args);
  }

  void write(int input, const graph::View& view, const Value& v) {
    const auto it = current_.find(input);
    const Value base = it != current_.end() ? it->second : bases_[input];
    current_[input] = write_view(b_, base, view, v, starts(view, base.type()));
  }

  static constexpr int64_t kWordsMark = 987654321987;
  const Graph& graph_;
  const Settings& settings_;
  Placement placement_;
  Builder b_;
  Lowered out_;
  Values bases_, values_;
  std::vector<Values> outputs_;
  std::vector<bool> done_;
  std::map<int, Value> current_;
  std::map<std::pair<int, Dtype>, int> slots_;
  Value numbers_, failed_;
};

}  // namespace

Lowered lower(const Graph& g, const Settings& s, const Placement& p) { return Lowering(g, s, p).run(); }
std::vector<std::optional<Type>> infer(const Graph& g, const graph::Node& n, const Settings& s) {
  return Lowering(g, s).types_of(n);
}

}  // namespace torchport::exec
