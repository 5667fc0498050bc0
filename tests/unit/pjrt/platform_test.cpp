// Choosing a platform, and plugins that are not there or are none.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "fixture.h"
#include "pjrt/plugin.h"
#include "pjrt/topology.h"

namespace torchport::pjrt {

namespace {

// Sets a variable for one test.
class Env {
 public:
  Env(const char* name, const char* value)
      : name_(name), old_(std::getenv(name) ? std::getenv(name) : ""), had_(std::getenv(name)) {
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Env() { had_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::string old_;
  bool had_;
};

// A platform whose plugin nobody has, so that these tests hold whichever files core/devices has.
DEVICE("absent"){
    .plugin = {"env:ABSENT_LIBRARY_PATH", "python:libabsent/libabsent.so"},
    .present = [] { return false; },
    .priority = 1000,
    .install = "pip install libabsent",
};

}  // namespace

TEST(Platform, RegisteredOnesComeByPriority) {
  ASSERT_GE(platforms().size(), 2u);
  EXPECT_EQ(platforms().front().name, "absent");
  for (size_t i = 1; i < platforms().size(); ++i) EXPECT_GE(platforms()[i - 1].priority, platforms()[i].priority);
}

TEST(Platform, CpuOpens) {
  EXPECT_EQ(cpu().platform_name(), "cpu");
  EXPECT_FALSE(cpu().platform_version().empty());
  EXPECT_FALSE(cpu().device(0).kind().empty());
  EXPECT_TRUE(cpu().caps().host_memory);
  EXPECT_EQ(cpu().devices().size(), 4u);
  EXPECT_EQ(cpu().device(3).index(), 3);
  EXPECT_EQ(&cpu().device(3).client(), &cpu());
  EXPECT_TRUE(api_version(cpu().api()).starts_with("0."));
  for (int index : {-1, 4}) EXPECT_EQ(error_of([&] { cpu().device(index); }).code, Code::bad_device_index);
}

TEST(Platform, AutoTakesWhatIsPresentAndSaysWhatItPassedOver) {
  cpu();
  std::string why;
  const Platform chosen = choose("auto", &why);
  EXPECT_TRUE(chosen.present());
  EXPECT_TRUE(std::filesystem::exists(chosen.path));
  EXPECT_TRUE(why.starts_with("using " + chosen.name + " (absent: no device")) << why;
}

TEST(Platform, DeviceCountComesFromTheEnvironment) {
  cpu();
  {
    const Env two("TORCHPORT_DEVICES", "2");
    EXPECT_EQ(Client::open(choose("cpu"))->devices().size(), 2u);
  }
  for (const char* bad : {"0", "65", "-1", "two", "2x", "1.5"}) {
    const Env env("TORCHPORT_DEVICES", bad);
    EXPECT_EQ(error_of([] { Client::open(choose("cpu")); }).code, Code::bad_setting) << bad;
  }
}

TEST(Platform, OneDeviceClientRunsPortableAndBoundPrograms) {
  cpu();
  const Env one("TORCHPORT_DEVICES", "1");
  const auto client = Client::open(choose("cpu"));
  ASSERT_EQ(client->devices().size(), 1u);
  for (const bool portable : {true, false}) {
    const auto program = client->compile(kAdd, {.portable = portable});
    EXPECT_EQ(program->is_portable(), portable);
    const float values[] = {1, 2, 3, 4};
    const int64_t dims[] = {4};
    const BufferPtr x = client->to_device(values, Dtype::f32, dims, 1, client->device(0));
    PJRT_Buffer* inputs[] = {x->raw(), x->raw()};
    PJRT_Buffer* output = nullptr;
    program->execute(inputs, 2, &output, client->device(0));
    const BufferPtr sum = Buffer::adopt(output, &client->device(0), Dtype::f32, 16);
    EXPECT_EQ(read(sum), (std::vector<float>{2, 4, 6, 8}));
  }
}

TEST(Platform, MemoryLimitComesFromTheEnvironment) {
  cpu();
  {
    const Env limit("TORCHPORT_MEMORY_LIMIT", "4096");
    const auto client = Client::open(choose("cpu"));
    EXPECT_EQ(client->device(0).memory_limit(), 4096);
    EXPECT_EQ(error_of([&] { client->device(0).reserve(4097, "test"); }).code, Code::out_of_memory);
  }
  for (const char* bad : {"0", "-5", "4G", "lots"}) {
    const Env limit("TORCHPORT_MEMORY_LIMIT", bad);
    EXPECT_EQ(error_of([] { Client::open(choose("cpu")); }).code, Code::bad_setting) << bad;
  }
}

TEST(Platform, MissingPluginSaysWhereItLooked) {
  set_search_path({"/nonexistent"});
  {
    const Env unset("ABSENT_LIBRARY_PATH", nullptr);
    const Error error = error_of([] { choose("absent"); });
    EXPECT_EQ(error.code, Code::plugin_missing);
    EXPECT_EQ(error.where, "platform absent");
    EXPECT_EQ(error.text,
              "no plugin found; looked at $ABSENT_LIBRARY_PATH (unset), python package libabsent (not installed)");
    EXPECT_EQ(error.hint, "pip install libabsent");
  }
  {
    const Env wrong("ABSENT_LIBRARY_PATH", "/nonexistent/libabsent.so");
    const Error error = error_of([] { choose("absent"); });
    EXPECT_NE(error.text.find("$ABSENT_LIBRARY_PATH (no such file: /nonexistent/libabsent.so)"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(error_of([] { choose("cpu"); }).code, Code::plugin_missing);
  {
    const std::string package = testing::TempDir() + "torchport_search";
    std::filesystem::create_directories(package + "/libabsent");
    set_search_path({package});
    EXPECT_NE(error_of([] { find("absent"); }).text.find("python package libabsent (without libabsent.so)"),
              std::string::npos);
    std::ofstream(package + "/libabsent/libabsent.so") << "text\n";
    EXPECT_EQ(find("absent").path, package + "/libabsent/libabsent.so");  // compile-only work needs no device
    const Error no_device = error_of([] { choose("absent"); });
    EXPECT_EQ(no_device.code, Code::plugin_missing);
    EXPECT_NE(no_device.text.find("must have a device"), std::string::npos) << no_device.what();
    std::filesystem::remove_all(package);
  }
  set_search_path(test_search_path());
}

TEST(Platform, UnknownNameIsABadSetting) {
  const Error error = error_of([] { choose("abacus"); });
  EXPECT_EQ(error.code, Code::bad_setting);
  EXPECT_NE(error.text.find("or the path of a plugin, got 'abacus'"), std::string::npos) << error.what();
}

TEST(Platform, PathOfThePluginGetsTheCapsOfWhatItSaysItIs) {
  cpu();
  const auto client = Client::open(choose(choose("cpu").path));
  EXPECT_EQ(client->platform_name(), "cpu");
  EXPECT_TRUE(client->caps().host_memory);
  EXPECT_EQ(client->devices().size(), 4u);
}

TEST(Platform, FilesThatAreNoPluginAreRefused) {
  EXPECT_EQ(error_of([] { choose("/nonexistent/plugin.so"); }).code, Code::plugin_missing);
  EXPECT_EQ(error_of([] { choose("/tmp"); }).code, Code::plugin_missing);

  const std::string text = testing::TempDir() + "torchport_text_plugin.so";
  std::ofstream(text) << "this is no shared library\n";
  const Error not_a_library = error_of([&] { Client::open(choose(text)); });
  EXPECT_EQ(not_a_library.code, Code::plugin_bad) << not_a_library.what();
  std::remove(text.c_str());

  std::string libm;
  for (const char* folder : {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/usr/lib"})
    if (libm.empty() && std::filesystem::exists(std::string(folder) + "/libm.so.6"))
      libm = std::string(folder) + "/libm.so.6";
  ASSERT_FALSE(libm.empty());
  const Error no_entry = error_of([&] { Client::open(choose(libm)); });
  EXPECT_EQ(no_entry.code, Code::plugin_bad);
  EXPECT_NE(no_entry.text.find("without GetPjrtApi"), std::string::npos) << no_entry.what();

  EXPECT_EQ(read(floats({7}, cpu().device(0))), std::vector<float>{7});  // the process lives on
}

TEST(Platform, PluginsFoundByPythonJoin) {
  cpu();
  const size_t before = platforms().size();
  const std::string path = choose("cpu").path;
  add_plugin("cpu", path);
  EXPECT_EQ(platforms().size(), before);
  add_plugin("vendor", path);
  ASSERT_EQ(platforms().size(), before + 1);
  EXPECT_EQ(find("vendor").path, path);
  EXPECT_EQ(choose("vendor").name, "vendor");
  EXPECT_NE(choose("auto").name, "vendor");
}

TEST(Topology, PluginWithoutOneSaysSo) {
  const Error error = error_of([] { Topology::create(cpu().platform(), "2x2"); });
  EXPECT_EQ(error.code, Code::pjrt);
  EXPECT_EQ(error.where, "PJRT_TopologyDescription_Create on cpu");
  EXPECT_TRUE(error.text.starts_with("UNIMPLEMENTED")) << error.what();
}

TEST(Platform, EmulationKeepsTheLimitsOfThose) {
  const Caps all{.f64 = true, .c128 = true, .f8 = true, .s64_dot = true, .donation = true};
  EXPECT_TRUE(restricted(all, "").s64_dot);
  EXPECT_FALSE(restricted(all, "tpu").s64_dot);
  EXPECT_FALSE(restricted(all, "cpu,tpu").s64_dot);
  EXPECT_TRUE(restricted(all, "cpu").f64);
  EXPECT_EQ(error_of([&] { restricted(all, "nothing"); }).code, Code::bad_setting);
}

TEST(Api, OldPluginIsRefused) {
  PJRT_Api table = *cpu().api().c;
  table.struct_size = offsetof(PJRT_Api, PJRT_Client_TopologyDescription);
  const Api old{&table, "old"};
  EXPECT_FALSE(PJRT_HAS(old, PJRT_Client_TopologyDescription));
  EXPECT_TRUE(PJRT_HAS(old, PJRT_Client_PlatformName));
  const Error error = error_of([&] { PJRT(old, PJRT_Client_TopologyDescription, {.client = cpu().raw()}); });
  EXPECT_EQ(error.code, Code::plugin_too_old);
  table.struct_size = PJRT_Api_STRUCT_SIZE;
  table.PJRT_Client_PlatformName = nullptr;
  EXPECT_EQ(error_of([&] { PJRT(old, PJRT_Client_PlatformName, {.client = cpu().raw()}); }).code, Code::plugin_too_old);
}

}  // namespace torchport::pjrt
