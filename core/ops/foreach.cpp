// _foreach_*: the element op's block on each element, all in one program. No list op is written by hand; a row says
// which element op belongs to an overload and how its arguments are made of the list op's.
#include "ops/call.h"

namespace torchport::ops {

namespace {

// names: foreach=element where the two differ. args: "element_argument=list_argument", "element_argument=1" (a number),
// "element_argument=False", "element_argument=None"; lists give one entry to each element, the rest go to all.
struct Row {
  const char* names;
  const char* overload;  // of the list op
  const char* suffix;    // of the element op
  const char* args;
};
constexpr const char* kUnary =
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt "
    "tan tanh trunc max";

const Row kRows[] = {
    {kUnary, "", "", "self=self"},
    {"add sub", "List", "Tensor", "self=self other=other alpha=alpha"},
    {"add sub", "Scalar", "Scalar", "self=self other=scalar alpha=1"},
    {"add sub", "ScalarList", "Scalar", "self=self other=scalars alpha=1"},
    {"add", "Tensor", "Tensor", "self=self other=other alpha=alpha"},
    {"mul div", "List", "Tensor", "self=self other=other"},
    {"mul div", "Scalar", "Scalar", "self=self other=scalar"},
    {"mul div", "ScalarList", "Scalar", "self=self other=scalars"},
    {"mul div", "Tensor", "Tensor", "self=self other=other"},
    {"clamp_min maximum=clamp_min", "List", "Tensor", "self=self min=other"},
    {"clamp_min maximum=clamp_min", "Scalar", "", "self=self min=scalar"},
    {"clamp_min maximum=clamp_min", "ScalarList", "", "self=self min=scalars"},
    {"clamp_max minimum=clamp_max", "List", "Tensor", "self=self max=other"},
    {"clamp_max minimum=clamp_max", "Scalar", "", "self=self max=scalar"},
    {"clamp_max minimum=clamp_max", "ScalarList", "", "self=self max=scalars"},
    {"pow", "List", "Tensor_Tensor", "self=self exponent=exponent"},
    {"pow", "Scalar", "Tensor_Scalar", "self=self exponent=exponent"},
    {"pow", "ScalarList", "Tensor_Scalar", "self=self exponent=exponent"},
    {"pow", "ScalarAndTensor", "Scalar", "self=self exponent=exponent"},
    {"lerp", "List", "Tensor", "self=self end=tensors1 weight=weights"},
    {"lerp", "Scalar", "Scalar", "self=self end=tensors1 weight=weight"},
    {"lerp", "ScalarList", "Scalar", "self=self end=tensors1 weight=weight"},
    {"addcmul addcdiv", "Scalar", "", "self=self tensor1=tensor1 tensor2=tensor2 value=value"},
    {"addcmul addcdiv", "ScalarList", "", "self=self tensor1=tensor1 tensor2=tensor2 value=scalars"},
    {"addcmul addcdiv", "Tensor", "", "self=self tensor1=tensor1 tensor2=tensor2 value=scalars"},
    {"norm=linalg_vector_norm", "Scalar", "", "self=self ord=ord dim=None keepdim=False dtype=dtype"},
    {"powsum=linalg__powsum", "Scalar", "", "self=self ord=ord dim=None keepdim=False dtype=dtype"},
    {"mm", "", "", "self=self mat2=mat2"},
};

// Marks of the list op's arguments: those of the element op's, under the list op's names.
std::string marks_of(const Op& element, const std::string& args) {
  std::string marks;
  std::istringstream words(args);
  for (std::string word; words >> word;) {
    const size_t cut = word.find('=');
    if (const char m = element.mark(word.substr(0, cut))) marks += word.substr(cut + 1) + m + " ";
  }
  return marks;
}

size_t length(Args& a) {
  size_t count = 0;
  const std::string* first = nullptr;
  for (const std::string& name : a.arg_names()) {
    const auto* list = std::get_if<std::vector<graph::Ref>>(a.find_attr(name));
    if (!list) continue;
    const size_t n = list->size();
    if (!first) {
      a.check(n > 0, Code::bad_value, str(name, " must have at least one tensor, got an empty list"));
      first = &name, count = n;
    }
    a.check(n == count, Code::bad_value,
            str(name, " must have as many entries as ", *first, ", got ", n, " and ", count));
  }
  return count;
}

Result lower_list(Builder& b, Args& a) {
  std::istringstream words(a.op().element);
  std::string element;
  words >> element;
  std::vector<std::pair<std::string, std::string>> args;
  for (std::string word; words >> word;)
    args.emplace_back(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));

  Values out;
  std::map<std::string, Values> lists;
  std::map<std::string, std::vector<graph::Number>> numbers;
  for (const auto& [to, from] : args) {
    if (!a.find_attr(from) || !std::holds_alternative<std::vector<graph::Ref>>(*a.find_attr(from))) continue;
    if (const auto n = a.numbers(from); n && !n->empty())
      numbers[from] = *n;
    else
      lists[from] = a.tensors(from);
  }
  for (size_t k = 0, count = length(a); k < count; ++k) {
    std::vector<Given> given;
    for (const auto& [to, from] : args) {
      const graph::Attr* attr = a.find_attr(from);
      const char* name = to.c_str();
      if (!attr) {
        given.push_back({name, from == "None"    ? graph::Attr{}
                               : from == "False" ? graph::Attr{false}
                                                 : integer(std::stoll(from))});
      } else if (lists.count(from)) {
        given.push_back({name, lists[from][k]});
      } else if (numbers.count(from)) {
        given.push_back({name, graph::Attr{numbers[from][k]}});
      } else if (!std::holds_alternative<graph::Ref>(*attr)) {
        given.push_back({name, *attr});
      } else {  // one tensor for all elements; of `scalars` each takes one number
        Value v = a.tensor(from);
        if (from == "scalars") {
          a.check(v.rank() == 1 && v.dim(0) == static_cast<int64_t>(count), Code::bad_value,
                  str("scalars must be of shape [", count, "], got ", text(v.dims())));
          v = b.reshape(b.slice_dim(v, 0, static_cast<int64_t>(k), static_cast<int64_t>(k) + 1), {});
        }
        given.push_back({name, v});
      }
    }
    out.push_back(call(b, a.launch(), element, given)[0]);
  }
  return out;
}

}  // namespace

void derive_foreach(std::map<std::string, Op, std::less<>>& ops) {
  static std::vector<std::unique_ptr<std::string>> marks;  // Traits holds a plain pointer
  for (const Row& row : kRows) {
    std::istringstream names(row.names);
    for (std::string name; names >> name;) {
      const size_t cut = name.find('=');
      std::string base = cut == std::string::npos ? name : name.substr(cut + 1),
                  list = "_foreach_" + name.substr(0, cut);
      if (*row.suffix) base += std::string(".") + row.suffix;
      if (*row.overload) list += std::string(".") + row.overload;
      const auto element = ops.find(base);
      if (element == ops.end()) continue;  // no block for one element: none for a list of them
      marks.push_back(std::make_unique<std::string>(marks_of(element->second, row.args)));
      Traits traits;
      traits.marks = marks.back()->c_str();
      ops.emplace(list,
                  Op{list, element->second.file, element->second.line, &lower_list, traits, base + " " + row.args});
    }
  }
}

OP("_foreach_zero") {
  Values out;
  for (const Value& x : a.tensors("self")) out.push_back(b.like(x, 0));
  return out;
}
OP("_foreach_copy") {
  const Values self = a.tensors("self"), src = a.tensors("src");
  a.check(self.size() == src.size(), Code::bad_value,
          str("must get two lists of one length, got ", self.size(), " and ", src.size()));
  Values out;
  for (size_t k = 0; k < self.size(); ++k)
    out.push_back(b.broadcast_to(b.cast(src[k], self[k].dtype()), self[k].dims()));
  return out;
}
OP("_foreach_clone") { return a.tensors("self"); }

}  // namespace torchport::ops
