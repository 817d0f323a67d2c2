#include "weft/pipeline/drawing.hpp"

#include <gtest/gtest.h>

#include "weft/core/error.hpp"
#include "weft/pipeline/passes.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::pipeline {
namespace {

std::size_t count(const std::string& in, const std::string& what) {
  std::size_t result = 0;
  for (std::size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++result;
  return result;
}

/// The attribute's number in the element whose tooltip begins with `action`.
double number_of(const std::string& drawing, const std::string& action, const std::string& attribute) {
  const std::size_t tip = drawing.find("<title>" + action + ": ");
  EXPECT_NE(tip, std::string::npos) << action;
  const std::size_t at = drawing.find(" " + attribute + "=\"", drawing.rfind('<', tip - 1));
  return std::stod(drawing.substr(at + attribute.size() + 3));
}

Problem units(int devices, int chunks, int microbatches) {
  return {.devices = devices,
          .microbatches = microbatches,
          .costs = uniform_costs(devices, chunks, {chunks, chunks, chunks, chunks, chunks})};
}

std::string drawn(const Schedule& schedule, const Problem& problem, const DrawingOptions& options = {}) {
  return svg(schedule, simulate(schedule, problem, Keep::times), options);
}

TEST(Drawing, HasABoxForEachComputation) {
  const Problem problem = units(3, 1, 5);
  const std::string drawing = drawn(zb_h1(problem), problem);
  for (const char* kind : {"f", "b", "w"})
    EXPECT_EQ(count(drawing, std::string("<rect class=\"") + kind + "\" x"), 3 * 5 + 1) << kind;  // and a key
  EXPECT_EQ(count(drawing, "class=\"in\""), 3 * 3 * 5);
  EXPECT_NE(drawing.find("<title>2F0: 2 ns to 3 ns</title>"), std::string::npos);
  EXPECT_EQ(drawing.find("<rect class=\"r\""), std::string::npos);
}

TEST(Drawing, KeepsTimesInProportion) {
  const Problem problem = units(2, 1, 2);  // 1F1B: 2 and 1 forwards, backwards of 2, makespan 9
  const std::string drawing = drawn(one_f_one_b(problem), problem);
  const double origin = number_of(drawing, "0F0", "x"), unit = number_of(drawing, "0F1", "x") - origin;
  EXPECT_NEAR(number_of(drawing, "1B0", "x"), origin + 2 * unit, 0.02);
  EXPECT_NEAR(number_of(drawing, "0B1", "x"), origin + 7 * unit, 0.05);
  EXPECT_NEAR(number_of(drawing, "0B1", "x") + number_of(drawing, "0B1", "width"), 1200 - 16, 1);
  EXPECT_EQ(number_of(drawing, "0F0", "y"), number_of(drawing, "0B1", "y"));
  EXPECT_LT(number_of(drawing, "0F0", "y") + number_of(drawing, "0F0", "height"),
            number_of(drawing, "1F0", "y"));
}

TEST(Drawing, EndsItsAxisWhereAnotherDoes) {
  const Problem problem = units(2, 1, 2);
  const std::string drawing = drawn(one_f_one_b(problem), problem, {.until = 18});
  const double origin = number_of(drawing, "0F0", "x");
  EXPECT_NEAR(number_of(drawing, "0B1", "x") + number_of(drawing, "0B1", "width"), (origin + 1200 - 16) / 2,
              1);
}

TEST(Drawing, MarksTheBound) {
  const Problem problem = units(2, 1, 2);
  EXPECT_EQ(drawn(one_f_one_b(problem), problem).find("class=\"bound\""), std::string::npos);
  const std::string drawing =
      drawn(one_f_one_b(problem), problem, {.unit = 2, .unit_name = " & more", .bound = 7});
  EXPECT_EQ(count(drawing, "class=\"bound\""), 1);
  EXPECT_NE(drawing.find("no makespan is shorter than 3.5 &amp; more"), std::string::npos);
}

TEST(Drawing, EscapesNames) {
  const Problem problem = units(1, 1, 1);
  Schedule schedule = one_f_one_b(problem);
  schedule.name = "<a> & \"b\"\n";
  const std::string drawing = drawn(schedule, problem);
  EXPECT_EQ(drawing.find("<a>"), std::string::npos);
  EXPECT_NE(drawing.find("<title>&lt;a&gt; &amp; \"b\"\\n: makespan 3 ns"), std::string::npos);
  const std::string in_units = drawn(schedule, problem, {.unit_name = "<s>"});
  EXPECT_EQ(in_units.find("<s>"), std::string::npos);
}

TEST(Drawing, PalesLaterChunks) {
  const Problem problem = units(2, 2, 4);
  const std::string drawing = drawn(interleaved_one_f_one_b(problem), problem);
  EXPECT_EQ(count(drawing, "<rect class=\"f c1\" x"), 2 * 4);
  EXPECT_EQ(count(drawing, ".schedule.v2 .c1{fill-opacity:"), 1);
}

TEST(Drawing, ShowsWaitsForGathers) {
  Problem problem = units(2, 1, 2);
  for (StageCosts& stage : problem.costs.stages) stage.unshard = 5;
  const std::string drawing = drawn(with_unshards(one_f_one_b(problem)), problem);
  EXPECT_NE(drawing.find("<title>0WAIT_UNSHARD: 0 ns to 5 ns</title>"), std::string::npos);
  EXPECT_NE(drawing.find("waits for a gather"), std::string::npos);
}

TEST(Drawing, HasRoomForWaitsAfterTheLastComputation) {
  Problem problem = units(1, 1, 1);
  problem.costs.stages[0].reduce = 3;
  const std::string drawing = drawn(with_reductions(one_f_one_b(problem)), problem);
  EXPECT_NE(drawing.find("<title>0WAIT_REDUCE_GRAD: 3 ns to 6 ns</title>"), std::string::npos);
  EXPECT_NE(drawing.find("H1184\"><title>0WAIT_REDUCE"), std::string::npos);
}

TEST(Drawing, JoinsBoxesThatAreTooManyToSee) {
  const Problem problem = units(2, 1, 40'000);
  const std::string drawing = drawn(one_f_one_b(problem), problem);
  EXPECT_LT(drawing.size(), 1'500'000U);
  EXPECT_LT(count(drawing, "<rect"), 6'000U);
  EXPECT_NE(drawing.find(" actions: "), std::string::npos);
}

TEST(Drawing, RefusesWhatItCannotDraw) {
  const Problem problem = units(2, 1, 2);
  const Schedule schedule = one_f_one_b(problem);
  EXPECT_THROW(svg(schedule, simulate(schedule, problem)), Error);
  EXPECT_THROW(drawn(schedule, problem, {.width = 299}), Error);
  EXPECT_THROW(drawn(schedule, problem, {.unit = 0}), Error);
}

}  // namespace
}  // namespace weft::pipeline
