#include "base/error.h"

#include <gtest/gtest.h>

#include <set>

namespace torchport {
namespace {

TEST(Error, MessageHasWhereWhatCodeAndHint) {
  const Error with(Code::dim_out_of_range, "cumsum", "dim must be in [-2, 1], got 5", "a smaller dim");
  EXPECT_STREQ(with.what(), "[cumsum] dim must be in [-2, 1], got 5 (TP0102). Try: a smaller dim");
  const Error without(Code::bad_value, "add", "alpha must be a number, got a tensor");
  EXPECT_STREQ(without.what(), "[add] alpha must be a number, got a tensor (TP0104)");
}

TEST(Error, EveryCodeOfTheTableIsUniqueAndExplained) {
  std::set<int> numbers;
  std::set<std::string_view> names;
  for (const CodeInfo& i : all_codes()) {
    EXPECT_TRUE(numbers.insert(static_cast<int>(i.code)).second) << i.name;
    EXPECT_TRUE(names.insert(i.name).second) << i.name;
    EXPECT_FALSE(i.cause.empty()) << i.name;
    EXPECT_FALSE(i.cure.empty()) << i.name;
    EXPECT_EQ(info(i.code).name, i.name);
  }
}

TEST(Error, CheckThrowsOnlyWhenFalse) {
  EXPECT_NO_THROW(check(true, Code::bad_value, "here", "must be so"));
  try {
    check(false, Code::bad_value, "here", str("must be ", 1, ", got ", 2.5), "one");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::bad_value);
    EXPECT_EQ(e.where, "here");
    EXPECT_EQ(e.text, "must be 1, got 2.5");
    EXPECT_EQ(e.hint, "one");
  }
}

}  // namespace
}  // namespace torchport
