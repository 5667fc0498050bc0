#include "ops/op.h"

#include <cmath>

namespace torchport::ops {

namespace {
std::map<std::string, Op, std::less<>>& registry() {
  static std::map<std::string, Op, std::less<>> ops;
  return ops;
}
}  // namespace

const Op* find(std::string_view name) {
  const auto it = registry().find(name);
  return it == registry().end() ? nullptr : &it->second;
}
const std::map<std::string, Op, std::less<>>& all() { return registry(); }

Register::Register(const char* names, const char* file, int line, Lower lower, Traits traits) {
  std::istringstream words(names);
  for (std::string name; words >> name;) {
    const auto [it, fresh] = registry().emplace(name, Op{name, file, line, lower, traits});
    check(fresh, Code::internal, "registry", str(file, ":", line, " names ", name, ", which ", it->second.file, ":", it->second.line, " has already"));
  }
}

bool Op::has_mark(std::string_view arg, char c) const {
  std::string_view marks = traits.marks;
  while (!marks.empty()) {
    const size_t end = std::min(marks.find(' '), marks.size());
    std::string_view word = marks.substr(0, end);
    marks.remove_prefix(std::min(end + 1, marks.size()));
    const size_t sign = word.find_first_of("!?~-+");
    if (word.substr(0, sign) == arg && sign != std::string_view::npos && word.substr(sign).find(c) != std::string_view::npos) return true;
  }
  return false;
}
char Op::mark(std::string_view arg) const {
  for (char c : {'!', '?', '~'})
    if (has_mark(arg, c)) return c;
  return 0;
}

Values lower(Builder& b, const Op& op, Args& a) {
  b.where = a.where();
  Values out = op.lower(b, a).values;
  if (op.traits.opmath && op.traits.promote != Promote::none && is_half(a.dtype()))
    for (Value& v : out)
      if (v && v.dtype() == Dtype::f32) v = b.cast(v, a.dtype());
  return out;
}

}  // namespace torchport::ops
