#include "ops/op.h"

#include <mutex>
#include <utility>

namespace torchport::ops {

namespace {
std::map<std::string, Op, std::less<>>& registry() {
  static std::map<std::string, Op, std::less<>> ops;
  return ops;
}
}  // namespace

void derive_foreach(std::map<std::string, Op, std::less<>>&);  // ops/foreach.cpp

// The list ops follow from the element ops, so they join at the first look, when every block has registered itself.
const std::map<std::string, Op, std::less<>>& all() {
  static std::once_flag once;
  std::call_once(once, [] { derive_foreach(registry()); });
  return registry();
}
const Op* find(std::string_view name) {
  const auto it = all().find(name);
  return it == all().end() ? nullptr : &it->second;
}

Register::Register(const char* names, const char* file, int line, Lower lower, Traits traits) {
  std::istringstream words(names);
  for (std::string name; words >> name;) {
    const auto [it, fresh] = registry().emplace(name, Op{name, file, line, lower, traits, {}});
    check(fresh, Code::internal, "registry",
          str(file, ":", line, " names ", name, ", which ", it->second.file, ":", it->second.line, " has already"));
  }
}

bool Op::has_mark(std::string_view arg, char c) const {
  std::string_view marks = traits.marks;
  while (!marks.empty()) {
    const size_t end = std::min(marks.find(' '), marks.size());
    std::string_view word = marks.substr(0, end);
    marks.remove_prefix(std::min(end + 1, marks.size()));
    const size_t sign = word.find_first_of("!?~-+");
    if (word.substr(0, sign) == arg && sign != std::string_view::npos &&
        word.substr(sign).find(c) != std::string_view::npos)
      return true;
  }
  return false;
}
char Op::mark(std::string_view arg) const {
  for (char c : {'!', '?', '~'})
    if (has_mark(arg, c)) return c;
  return 0;
}

Values lower(Builder& b, const Op& op, Args& a) {
  const std::string outer = std::exchange(b.where, a.where());
  Values out = op.lower(b, a).values;
  if (op.traits.opmath && op.traits.promote != Promote::none && is_half(a.dtype()))
    for (Value& v : out)
      if (v && v.dtype() == Dtype::f32) v = b.cast(v, a.dtype());
  b.where = outer;
  return out;
}

}  // namespace torchport::ops
