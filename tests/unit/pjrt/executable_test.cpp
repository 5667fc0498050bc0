// Compiling, launching, donating, saving and loading.
#include "fixture.h"

namespace torchport::pjrt {

static BufferPtr run(const Executable& program, std::vector<BufferPtr> inputs, Device& device,
                     std::vector<int64_t> keep = {}) {
  std::vector<PJRT_Buffer*> raw;
  for (const BufferPtr& input : inputs) raw.push_back(input->raw());
  PJRT_Buffer* output = nullptr;
  program.execute(raw.data(), raw.size(), &output, device, keep.data(), keep.size());
  return Buffer::adopt(output, &device, Dtype::f32, 16);
}

TEST(Executable, Adds) {
  const auto program = cpu().compile(kAdd);
  EXPECT_EQ(program->num_outputs(), 1u);
  Device& device = cpu().device(0);
  const BufferPtr sum = run(*program, {floats({1, 2, 3, 4}, device), floats({10, 20, 30, 40}, device)}, device);
  EXPECT_EQ(read(sum), (std::vector<float>{11, 22, 33, 44}));
}

TEST(Executable, PortableProgramRunsOnEveryDevice) {
  const auto program = cpu().compile(kAdd);
  ASSERT_GE(cpu().devices().size(), 2u);
  for (const auto& device : cpu().devices()) {
    const auto base = static_cast<float>(device->index());
    const BufferPtr x = floats({base, 1, 2, 3}, *device);
    const BufferPtr sum = run(*program, {x, x}, *device);
    EXPECT_EQ(read(sum), (std::vector<float>{2 * base, 2, 4, 6}));
    const auto where = PJRT(cpu().api(), PJRT_Buffer_Device, {.buffer = sum->raw()});
    EXPECT_EQ(where.device, device->raw());
  }
}

TEST(Executable, DonatesAnInput) {
  const auto program = cpu().compile(kAddInto);
  Device& device = cpu().device(0);
  const int64_t held = device.allocated;
  {
    const BufferPtr a = floats({1, 2, 3, 4}, device), b = floats({1, 1, 1, 1}, device);
    const void* memory = a->host_pointer();
    PJRT_Buffer* inputs[] = {a->raw(), b->raw()};
    PJRT_Buffer* output = nullptr;
    program->execute(inputs, 2, &output, device);
    a->donated();
    a->donated();  // saying it twice changes nothing
    const BufferPtr sum = Buffer::adopt(output, &device, Dtype::f32, 16);
    EXPECT_EQ(device.allocated - held, 32);
    EXPECT_EQ(read(sum), (std::vector<float>{2, 3, 4, 5}));
    EXPECT_EQ(sum->host_pointer(), memory);
    EXPECT_TRUE(PJRT(cpu().api(), PJRT_Buffer_IsDeleted, {.buffer = a->raw()}).is_deleted);
    EXPECT_EQ(error_of([&] { read(a); }).code, Code::internal);
    EXPECT_EQ(read(b), (std::vector<float>{1, 1, 1, 1}));
    // A consumed input is an error of the launch, and the process lives on.
    EXPECT_EQ(error_of([&] { program->execute(inputs, 2, &output, device); }).code, Code::pjrt);
  }
  EXPECT_EQ(device.allocated, held);
}

TEST(Executable, KeepsAnInputThatIsNotDonatable) {
  const auto program = cpu().compile(kAddInto);
  Device& device = cpu().device(1);
  const BufferPtr a = floats({1, 2, 3, 4}, device), b = floats({1, 1, 1, 1}, device);
  const BufferPtr sum = run(*program, {a, b}, device, {0});
  EXPECT_EQ(read(sum), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(read(a), (std::vector<float>{1, 2, 3, 4}));
}

TEST(Executable, SavesAndLoads) {
  const auto program = cpu().compile(kAdd);
  const std::string bytes = program->serialize();
  ASSERT_FALSE(bytes.empty());
  const auto loaded = cpu().load(bytes);
  EXPECT_EQ(loaded->num_outputs(), 1u);
  Device& device = cpu().device(1);
  const BufferPtr x = floats({1, 2, 3, 4}, device);
  EXPECT_EQ(read(run(*loaded, {x, x}, device)), (std::vector<float>{2, 4, 6, 8}));
}

TEST(Executable, TellsWhatItCosts) {
  const auto program = cpu().compile(kAdd);
  EXPECT_FALSE(program->name().empty());
  EXPECT_EQ(program->cost_analysis().at("flops"), 4);
  const MemoryStats stats = program->memory_stats();
  EXPECT_EQ(stats.arguments, 32);
  EXPECT_EQ(stats.outputs, 16);
  const std::string hlo = program->optimized_hlo();
  EXPECT_NE(hlo.find("parameter"), std::string::npos);
}

TEST(Executable, PluginErrorsKeepTheirWords) {
  const Error syntax = error_of([] { cpu().compile("module { nonsense }"); });
  EXPECT_EQ(syntax.code, Code::pjrt);
  EXPECT_EQ(syntax.where, "PJRT_Client_Compile on cpu");
  EXPECT_EQ(error_of([] { cpu().load("not an executable"); }).code, Code::pjrt);
  const auto program = cpu().compile(kAdd);
  const BufferPtr x = floats({1, 2, 3, 4}, cpu().device(0));
  PJRT_Buffer* inputs[] = {x->raw()};
  PJRT_Buffer* output = nullptr;
  EXPECT_EQ(error_of([&] { program->execute(inputs, 1, &output, cpu().device(0)); }).code, Code::pjrt);
}

TEST(Executable, PartitionsRunOnAllDevices) {
  const int count = static_cast<int>(cpu().devices().size());
  ASSERT_EQ(count, 4);
  const auto program = cpu().compile(R"(module @spmd attributes {mhlo.num_partitions = 4 : i32} {
    func.func @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[4]<=[4]}"})
        -> (tensor<f32> {mhlo.sharding = "{replicated}"}) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0]
          : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
  })",
                                     {.num_partitions = count});
  std::vector<BufferPtr> shards;
  std::vector<PJRT_Buffer*> inputs, outputs(4);
  for (int i = 0; i < 4; ++i) shards.push_back(floats({static_cast<float>(i + 1)}, cpu().device(i)));
  for (const BufferPtr& shard : shards) inputs.push_back(shard->raw());
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  for (size_t i = 0; i < 4; ++i) {
    input_lists.push_back(&inputs[i]);
    output_lists.push_back(&outputs[i]);
  }
  program->execute_all(input_lists.data(), 4, 1, output_lists.data());
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(read(Buffer::adopt(outputs[static_cast<size_t>(i)], &cpu().device(i), Dtype::f32, 4)),
              std::vector<float>{10});
}

TEST(CompileOptions, Encoding) {
  EXPECT_EQ(encode({}),
            std::string("\x1a\x0f\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x01\x20\x01", 19));
  EXPECT_EQ(encode({.num_partitions = 4}),
            std::string("\x1a\x11\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x28\x04\x30\x01", 19));
  EXPECT_TRUE(encode({.flags = {{"ab", true}}})
                  .ends_with(std::string("\x3a\x08\x0a\x02"
                                         "ab\x12\x02\x10\x01",
                                         10)));
}

}  // namespace torchport::pjrt
