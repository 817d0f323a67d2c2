// weft's text form of a schedule: what is taken is printed as text that is taken again, as the same schedule; the verifier
// and the simulator refuse it or take it.

#include "fuzz/expect_refused.hpp"
#include "weft/pipeline/simulate.hpp"
#include "weft/pipeline/verify.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  test::taken_or_refused([&] {
    const pipeline::Schedule schedule = pipeline::parse_schedule(test::as_text(data, size));
    test::expect(pipeline::parse_schedule(text(schedule)) == schedule, "a schedule's text says the same");
    if (schedule.stages() > 64 || schedule.devices() > 64) return;  // costs of each would be most of the time
    pipeline::Problem problem{
        .devices = schedule.devices(), .microbatches = schedule.microbatches, .costs = {}};
    problem.costs.stages.assign(static_cast<std::size_t>(schedule.stages()),
                                {.forward = 1, .backward_input = 1, .backward_weight = 1});
    if (schedule.stages() > 0) problem.costs.hops.resize(static_cast<std::size_t>(schedule.stages()) - 1);
    pipeline::verify(schedule, problem);
    (void)pipeline::simulate(schedule, problem);
  });
  return 0;
}
