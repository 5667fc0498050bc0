#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace torchport {
namespace {

TEST(Env, UnsetAndEmptyGiveTheFallback) {
  ::unsetenv("TORCHPORT_EAGER");
  EXPECT_EQ(env("TORCHPORT_EAGER"), "strict");
  ::setenv("TORCHPORT_EAGER", "", 1);
  EXPECT_EQ(env("TORCHPORT_EAGER"), "strict");
}

TEST(Env, AValueThatIsNotAllowedIsAnErrorThatNamesBoth) {
  ::setenv("TORCHPORT_EAGER", "debug", 1);
  EXPECT_EQ(env("TORCHPORT_EAGER"), "debug");
  ::setenv("TORCHPORT_EAGER", "strict|debug", 1);  // a piece of the list is not a choice
  EXPECT_THROW(env("TORCHPORT_EAGER"), Error);
  ::setenv("TORCHPORT_EAGER", "fast", 1);
  try {
    env("TORCHPORT_EAGER");
    FAIL() << "must throw";
  } catch (const Error& e) {
    EXPECT_EQ(e.code, Code::bad_setting);
    EXPECT_NE(e.text.find("strict|debug"), std::string::npos) << e.text;
    EXPECT_NE(e.text.find("'fast'"), std::string::npos) << e.text;
  }
  ::unsetenv("TORCHPORT_EAGER");
}

TEST(Env, AVariableOutsideTheTableIsAnInternalError) { EXPECT_THROW(env("TORCHPORT_NO_SUCH"), Error); }

TEST(Env, EveryFallbackIsAllowed) {
  for (const EnvVar& v : all_env()) {
    ::unsetenv(std::string(v.name).c_str());
    EXPECT_EQ(env(v.name), v.fallback);
    EXPECT_FALSE(v.meaning.empty()) << v.name;
  }
}

}  // namespace
}  // namespace torchport
