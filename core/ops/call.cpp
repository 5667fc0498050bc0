#include "ops/call.h"

namespace torchport::ops {

Values call(Builder& b, Launch& launch, std::string_view name, const std::vector<Given>& given) {
  const Op* op = find(name);
  check(op, Code::internal, b.where, str("calls ", name, ", which has no block"));
  graph::Schema schema{op->name, {}};
  graph::Node node;
  Values values;
  std::vector<graph::Value> infos;
  auto ref = [&](const Value& v) {
    if (!v) return graph::Ref{};
    graph::Value info;
    info.kind = graph::Value::Kind::result;
    info.view.dtype = v.dtype();
    info.view.sizes = v.dims();
    values.push_back(v);
    infos.push_back(info);
    return graph::Ref{static_cast<int>(values.size()) - 1};
  };
  for (const Given& g : given) {
    schema.args.push_back(g.name);
    if (const Value* v = std::get_if<Value>(&g.value)) {
      node.args.push_back(ref(*v));
    } else if (const Values* list = std::get_if<Values>(&g.value)) {
      std::vector<graph::Ref> refs;
      for (const Value& v : *list) refs.push_back(ref(v));
      node.args.push_back(refs);
    } else {
      node.args.push_back(std::get<graph::Attr>(g.value));
    }
  }
  node.schema = std::make_shared<const graph::Schema>(std::move(schema));
  Args args(b, *op, node, values, infos, launch);
  return lower(b, *op, args);
}

}  // namespace torchport::ops
