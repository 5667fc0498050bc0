// The op table: what OP registers, marks, and errors.
#include <filesystem>
#include <fstream>
#include <set>

#include "exec/launch.h"
#include "ops/op.h"

namespace torchport::ops {
namespace {

Result lower_nothing(Builder&, Args&) { return Values{}; }

// Names of one block, and marks.
const Register kPair("unit_pair.a unit_pair.b", "here.cpp", 7, &lower_nothing, {Promote::none, "x! y? z~- w+", false});

TEST(Registry, OneBlockMayHaveSeveralNames) {
  for (const char* name : {"unit_pair.a", "unit_pair.b"}) {
    const Op* op = find(name);
    ASSERT_TRUE(op) << name;
    EXPECT_EQ(op->name, name);
    EXPECT_EQ(op->line, 7);
    EXPECT_STREQ(op->file, "here.cpp");
  }
  EXPECT_EQ(find("unit_pair"), nullptr);
  EXPECT_EQ(find(""), nullptr);
}

TEST(Registry, ANameTwiceIsAnErrorThatNamesBothPlaces) {
  const Error e = test::error_of([] { Register("unit_pair.c unit_pair.b", "there.cpp", 9, &lower_nothing, {}); });
  EXPECT_EQ(e.code, Code::internal);
  EXPECT_NE(e.text.find("here.cpp:7"), std::string::npos) << e.text;
  EXPECT_NE(e.text.find("there.cpp:9"), std::string::npos) << e.text;
}

TEST(Registry, Marks) {
  const Op& op = *find("unit_pair.a");
  EXPECT_EQ(op.mark("x"), '!');
  EXPECT_EQ(op.mark("y"), '?');
  EXPECT_EQ(op.mark("z"), '~');
  EXPECT_EQ(op.mark("w"), 0);
  EXPECT_EQ(op.mark("v"), 0);
  EXPECT_TRUE(op.has_mark("z", '-'));
  EXPECT_TRUE(op.has_mark("w", '+'));
  EXPECT_FALSE(op.has_mark("x", '-'));
  EXPECT_FALSE(op.has_mark("", '!'));
}

// What every block must keep to, so that the derived parts (schemas, docs, keys) find it.
TEST(Registry, EveryOpIsWellFormed) {
  EXPECT_GT(all().size(), 300u);
  for (const auto& [name, op] : all()) {
    EXPECT_EQ(name, op.name);
    EXPECT_TRUE(op.lower || !op.element.empty()) << name;
    EXPECT_GT(op.line, 0) << name;
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_."),
              std::string::npos)
        << name;
    EXPECT_LE(std::count(name.begin(), name.end(), '.'), 1) << name;
    std::istringstream marks(op.traits.marks);
    std::set<std::string> seen;
    for (std::string word; marks >> word;) {
      const size_t sign = word.find_first_of("!?~-+");
      ASSERT_NE(sign, std::string::npos) << name << ": " << word;
      EXPECT_GT(sign, 0u) << name << ": " << word;
      EXPECT_TRUE(seen.insert(word.substr(0, sign)).second) << name << ": " << word;
      EXPECT_EQ(word.find_first_not_of("!?~-+", sign), std::string::npos) << name << ": " << word;
    }
  }
}

TEST(Registry, ListOpsAreDerived) {
  const Op* op = find("_foreach_add.List");
  ASSERT_TRUE(op);
  EXPECT_FALSE(op->element.empty());
  EXPECT_EQ(op->mark("alpha"), find("add.Tensor")->mark("alpha"));
}

}  // namespace
}  // namespace torchport::ops
