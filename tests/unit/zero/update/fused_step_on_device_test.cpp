// The fused step over memory and streams of a device, with a fake CUDA and a fake kernel that runs the host's
// loop: the bits must be the host's.

#include <gtest/gtest.h>

#include "support/expect_error.hpp"
#include "support/fake_update.hpp"
#include "unit/zero/update/some_step.hpp"
#include "weft/core/buffer.hpp"
#include "weft/core/copy.hpp"
#include "zero/update/grouped_step.hpp"

namespace weft::test {
namespace {

class FusedStepOnDevice : public testing::Test {
 protected:
  View copied(View from, Stream stream) {
    if (from.empty()) return {};
    memory_.push_back(Buffer::on(Device::cuda(1), from.dtype(), from.count()));
    copy(memory_.back().view(), from, stream);
    return memory_.back().view();
  }
  detail::StepSlice on_device(const detail::StepSlice& host, Stream stream) {
    detail::StepSlice slice = host;
    const View gradient(const_cast<void*>(host.gradient.data()), host.gradient.count(),
                        host.gradient.dtype());
    slice.gradient = copied(gradient, stream);
    for (View* view : {&slice.parameters, &slice.master, &slice.first, &slice.second})
      *view = copied(*view, stream);
    return slice;
  }
  static void fetch(const detail::StepSlice& host, const detail::StepSlice& device, Stream stream) {
    const auto one = [&](View to, View from) {
      if (!to.empty()) copy(to, from, stream);
    };
    one(host.parameters, device.parameters);
    one(host.master, device.master);
    one(host.first, device.first);
    one(host.second, device.second);
  }

  WithFakeCuda cuda_;
  WithFakeUpdate kernels_;
  std::vector<Buffer> memory_;
};

TEST_F(FusedStepOnDevice, RunsTheKernelInTheOrderOfItsStream) {
  for (const Form form : all_forms) {
    for (const zero::Optimizer& rule : all_rules()) {
      SomeStep here(form, DataType::bf16, 77);
      here.draw(9);
      SomeStep there = here;
      Stream stream(Device::cuda(1));
      const auto first = detail::factors(rule, 1, 1e-2, 0.25);
      const detail::StepSlice slice = on_device(there.slice(first), stream);
      const int before = kernels_->launches;
      for (const std::int64_t step : {1, 2, 3}) {
        const auto constants = detail::factors(rule, step, 1e-2, 0.25);
        detail::on_host::fused_step(here.slice(constants), constants);
        detail::fused_step(slice, constants, stream);
      }
      fetch(there.slice(first), slice, stream);
      stream.synchronize();
      EXPECT_EQ(kernels_->launches - before, 3);
      EXPECT_EQ(here.differs_at(there), -1);
    }
  }
}

// Two groups of three parameters, from within the first one to within the padding.
TEST_F(FusedStepOnDevice, RunsTheKernelOnceForEachRunOfAGroup) {
  const ParamLayout layout(DataType::f32, {{"a", 64}, {"b", 96}, {"c", 32}});
  const detail::GroupRuns runs(layout, {0, 1, 0});
  for (const Form form : all_forms) {
    for (const zero::Optimizer& rule : all_rules()) {
      SomeStep here(form, DataType::bf16, 177);
      here.draw(10);
      SomeStep there = here;
      Stream stream(Device::cuda(1));
      detail::GroupedFactors factors{.runs = &runs};
      for (const double rate : {1e-2, 3e-1}) factors.by_group.push_back(detail::factors(rule, 2, rate, 0.5));
      const detail::StepSlice slice = on_device(there.slice(factors.by_group[0]), stream);
      const int before = kernels_->launches;
      detail::grouped_step(slice, 33, factors, stream);
      const std::int64_t ends[] = {0, 64 - 33, 160 - 33, 177};
      for (std::size_t run = 0; run < 3; ++run)
        detail::plain::update(here.arrays(ends[run], ends[run + 1]), factors.by_group[run % 2]);
      fetch(there.slice(factors.by_group[0]), slice, stream);
      stream.synchronize();
      EXPECT_EQ(kernels_->launches - before, 3);
      EXPECT_EQ(here.differs_at(there), -1);
    }
  }
}

TEST_F(FusedStepOnDevice, RefusesAStreamOfAnotherPlace) {
  SomeStep step(Form::f32, DataType::f32, 4);
  const auto constants = detail::factors(zero::Sgd{}, 1, 1e-2, 1);
  Stream stream(Device::cuda(1));
  const detail::StepSlice slice = on_device(step.slice(constants), stream);
  stream.synchronize();
  expect_error(ErrorKind::usage, {"memory on cuda:1", "stream of host"},
               [&] { detail::fused_step(slice, constants, Stream()); });
  expect_error(ErrorKind::usage, {"memory on cuda:1", "stream of cuda:0"},
               [&] { detail::fused_step(slice, constants, Stream(Device::cuda(0))); });
  expect_error(ErrorKind::usage, {"on the host of memory on cuda:1"},
               [&] { detail::on_host::fused_step(slice, constants); });
}

}  // namespace
}  // namespace weft::test
