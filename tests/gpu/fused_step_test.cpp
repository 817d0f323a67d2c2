// On a card: the kernel of an optimizer's step beside its host twin, bit by bit.

#include <gtest/gtest.h>

#include "unit/zero/update/some_step.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "weft/interop/cuda.hpp"
#include "zero/update/grouped_step.hpp"
#include "zero/update/update_cuda.hpp"

namespace weft::test {
namespace {

/// Bytes of host memory, and as many on the card.
class Mirrored {
 public:
  Mirrored(void* host, std::size_t bytes, Stream stream)
      : host_(host, static_cast<std::int64_t>(bytes), DataType::u8),
        device_(Buffer::on(Device::cuda(0), DataType::u8, static_cast<std::int64_t>(bytes))) {
    copy(device_.view(), host_, stream);
  }
  std::byte* at(std::size_t byte) { return device_.view().bytes() + byte; }
  void fetch(Stream stream) { copy(host_, device_.view(), stream); }

 private:
  View host_;
  Buffer device_;
};

template <class T>
Mirrored mirror(std::vector<T>& values, Stream stream) {
  return {values.data(), values.size() * sizeof(T), stream};
}

void expect_twins(Form form, DataType type, const zero::Optimizer& rule, std::int64_t count,
                  std::int64_t skipped, detail::cuda::Arithmetic arithmetic) {
  SomeStep here(form, type, count, skipped);
  here.draw(static_cast<unsigned>(count));
  SomeStep there = here;
  Stream stream(Device::cuda(0));
  Mirrored gradient = mirror(there.gradient, stream), parameters = mirror(there.parameters, stream),
           master = mirror(there.master, stream), first = mirror(there.first, stream),
           second = mirror(there.second, stream);
  const auto constants = detail::factors(rule, 2, 1e-2, 1.0 / 3);
  detail::plain::update(here.arrays(), constants);
  detail::StepArrays arrays = there.arrays();
  const auto moved = [](Mirrored& to, const void* from, const void* base) {
    return to.at(
        static_cast<std::size_t>(static_cast<const std::byte*>(from) - static_cast<const std::byte*>(base)));
  };
  arrays.gradient = moved(gradient, arrays.gradient, there.gradient.data());
  arrays.parameters = moved(parameters, arrays.parameters, there.parameters.data());
  if (arrays.master != nullptr) arrays.master = moved(master, arrays.master, there.master.data());
  arrays.first = reinterpret_cast<float*>(moved(first, arrays.first, there.first.data()));
  arrays.second = reinterpret_cast<float*>(moved(second, arrays.second, there.second.data()));
  stream.run([=] {
    detail::cuda::update_kernels()->update(arrays, constants, detail::cuda::place_of(stream), arithmetic);
  });
  for (Mirrored* one : {&parameters, &master, &first, &second}) one->fetch(stream);
  stream.synchronize();
  ASSERT_EQ(here.differs_at(there), -1) << "of " << count << " from " << skipped << ", rule " << rule.index()
                                        << ", arithmetic " << static_cast<int>(arithmetic);
}

TEST(FusedStepOnDevice, EveryStepIsItsTwin) {
  for (const Form form : all_forms) {
    for (const DataType type : gradient_types) {
      for (const zero::Optimizer& rule : all_rules()) {
        for (const std::int64_t count : {1, 3, 4, 255, 1027, 300000}) {
          for (const std::int64_t skipped : {0, 1, 4}) {
            if (WEFT_EMULATED && count > 10'000 && skipped != 0) continue;  // takes long there
            for (const auto arithmetic : {detail::cuda::Arithmetic::f64, detail::cuda::Arithmetic::pairs}) {
              if (WEFT_EMULATED && count > 10'000 &&
                  (arithmetic == detail::cuda::Arithmetic::f64) == (form == Form::f32))
                continue;  // takes long there
              expect_twins(form, type, rule, count, skipped, arithmetic);
            }
          }
        }
      }
    }
  }
}

// Biases among matrices: runs of a few lines, that follow each other in one memory.
TEST(FusedStepOnDevice, GroupsAreRunsOfTheKernel) {
  const ParamLayout layout(DataType::f32, {{"weight", 4096}, {"bias", 33}, {"head", 1024}, {"gain", 1}});
  const detail::GroupRuns runs(layout, {0, 1, 0, 1});
  SomeStep here(Form::f32, DataType::f32, layout.size());
  here.draw(3);
  SomeStep there = here;
  detail::GroupedFactors factors{.runs = &runs};
  for (const double decay : {0.1, 0.0})
    factors.by_group.push_back(detail::factors(zero::AdamW{.weight_decay = decay}, 2, 1e-2, 1));
  Stream stream(Device::cuda(0));
  Mirrored gradient = mirror(there.gradient, stream), parameters = mirror(there.parameters, stream),
           first = mirror(there.first, stream), second = mirror(there.second, stream);
  const auto on_device = [&](Mirrored& memory) {
    return View(memory.at(0), layout.size(), DataType::f32, Device::cuda(0));
  };
  detail::grouped_step({.gradient = on_device(gradient),
                        .parameters = on_device(parameters),
                        .first = on_device(first),
                        .second = on_device(second)},
                       0, factors, stream);
  runs.visit(0, layout.size(), [&](std::int64_t from, std::int64_t to, std::size_t group) {
    detail::plain::update(here.arrays(from, to), factors.by_group[group]);
  });
  for (Mirrored* one : {&parameters, &first, &second}) one->fetch(stream);
  stream.synchronize();
  EXPECT_EQ(here.differs_at(there), -1);
}

}  // namespace
}  // namespace weft::test
