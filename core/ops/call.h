// Ops made of ops: runs another op's block inside the one being lowered, as if PyTorch had called it.
#pragma once
#include <string>
#include <variant>
#include <vector>

#include "ops/op.h"

namespace torchport::ops {

// Every argument that the called block reads must be given: there are no schema defaults here. An Attr carries a
// number, a flag, a list,
// ...; the numbers of the running launch keep their place in it.
struct Given {
  const char* name;
  std::variant<Value, Values, graph::Attr> value;
};
Values call(Builder&, Launch&, std::string_view op, const std::vector<Given>&);
inline Value call1(Builder& b, Args& a, std::string_view op, const std::vector<Given>& given) {
  return call(b, a.launch(), op, given)[0];
}

inline graph::Attr integer(int64_t v) { return graph::Number{graph::Number::Kind::integer, v, 0.0, -1}; }
inline graph::Attr real(double v) { return graph::Number{graph::Number::Kind::real, 0, v, -1}; }

}  // namespace torchport::ops
