// Builds a function, runs it on the CPU plugin, gives the results as arrays.
#pragma once
#include "array.h"
#include "hlo/builder.h"

namespace torchport::hlo {

using test::Array;
using test::array;
using test::counting;
using test::error_of;
using test::values;

class Program {
 public:
  Builder b;
  Value in(Array a) {
    inputs_.push_back(std::move(a));
    return b.argument(inputs_.back().type);
  }
  // The plugin verifies the text, so a type that the builder inferred wrongly does not compile.
  std::vector<Array> run(const Values& results) {
    const std::string text = b.finish(results);
    std::vector<Array> out;
    try {
      const auto program = test::runtime().client().compile(text);
      std::vector<pjrt::BufferPtr> held;
      std::vector<PJRT_Buffer*> raw, outputs(results.size());
      for (const Array& a : inputs_) held.push_back(test::send(a)), raw.push_back(held.back()->raw());
      pjrt::Device& device = test::runtime().device(0);
      EXPECT_EQ(program->num_outputs(), results.size());
      program->execute(raw.data(), raw.size(), outputs.data(), device);
      for (size_t i = 0; i < results.size(); ++i) {
        const Type& t = results[i].type();
        const int64_t bytes = t.numel() * static_cast<int64_t>(size_of(t.dtype));
        out.push_back(test::fetch(pjrt::Buffer::adopt(outputs[i], &device, t.dtype, bytes), t));
      }
    } catch (const Error& e) {
      ADD_FAILURE() << e.what() << "\n" << text;
      for (const Value& v : results) out.push_back({v.type(), std::vector<uint8_t>(v.numel() * size_of(v.dtype()))});
    }
    return out;
  }
  Array run(const Value& result) { return run(Values{result})[0]; }

 private:
  std::vector<Array> inputs_;
};

#define EXPECT_VALUES(array, ...) EXPECT_EQ(::torchport::test::values(array), (std::vector<double> __VA_ARGS__))
inline void expect_near(const Array& a, const std::vector<double>& want, double tolerance = 1e-5) {
  const std::vector<double> got = values(a);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "at " << i;
}

}  // namespace torchport::hlo
