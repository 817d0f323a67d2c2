// What is predicted for published runs, and what their fit rests on.

#include "weft-plan/scale/calibration.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <string>

#include "weft-plan/scale/hardware.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

/// All runs of one kind of hardware, and the figures of their errors.
struct Calibrated {
  explicit Calibrated(const char* name)
      : file(hardware_named(name)),
        rows(rows_of(file)),
        errors(errors_of(file.hardware, rows)),
        left_out(left_out_errors(file, rows)),
        set_aside(set_aside_errors(file, rows)) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::printf("%-28s %8.3f s, error %+6.2f %%, left out %+6.2f %%\n", rows[i].name.c_str(),
                  rows[i].seconds, 100 * errors[i], 100 * left_out[i]);
    print("fitted to all", errors);
    print("each left out", left_out);
    print("every third set aside", set_aside);
  }
  static void print(const char* what, const std::vector<double>& some) {
    std::printf("%s: mean %.2f %%, worst %.2f %%\n", what, 100 * mean_size(some), 100 * largest_size(some));
  }
  HardwareFile file;
  std::vector<Row> rows;
  std::vector<double> errors, left_out, set_aside;
};

/// Computed once.
const Calibrated& calibrated(const std::string& name) {
  static std::map<std::string, Calibrated> all;
  return all.try_emplace(name, name.c_str()).first->second;
}

TEST(ScaleCalibration, PredictsThePublishedRunsOnA100) {
  const Calibrated& a100 = calibrated("a100-80g");
  EXPECT_EQ(a100.rows.size(), 21u);
  EXPECT_LE(a100.file.fitted.size(), 4u);
  EXPECT_LE(mean_size(a100.errors), 0.03);
  EXPECT_LE(largest_size(a100.errors), 0.08);
  EXPECT_LE(mean_size(a100.left_out), 0.04);
  EXPECT_LE(mean_size(a100.set_aside), 0.04);
}

TEST(ScaleCalibration, PredictsThePublishedRunsOnH100) {
  const Calibrated& h100 = calibrated("h100-sxm");
  EXPECT_EQ(h100.rows.size(), 5u);
  EXPECT_LE(h100.file.fitted.size(), 4u);
  EXPECT_LE(mean_size(h100.errors), 0.03);
  EXPECT_LE(largest_size(h100.errors), 0.08);
}

/// The numbers of a file are the fit of its runs, and its interval covers the errors.
TEST(ScaleCalibration, AFilesNumbersAreTheFitToItsRuns) {
  for (const std::string& name : known_hardware()) {
    HardwareFile file = hardware_named(name);
    Hardware fitted = fitted_to(file, calibrated(name).rows);
    for (const std::string& number : file.fitted) {
      std::printf("%s %s %.4f\n", name.c_str(), number.c_str(), number_of(fitted, number));
      EXPECT_NEAR(number_of(fitted, number), number_of(file.hardware, number),
                  2e-3 * number_of(fitted, number))
          << name << ' ' << number;
    }
    const double spread = 2 * root_mean_square(calibrated(name).left_out);
    std::printf("%s uncertainty %.4f\n", name.c_str(), spread);
    EXPECT_NEAR(file.hardware.uncertainty, spread, 5e-3) << name;
  }
}

/// One step of Newton does what the whole fit to all other rows does.
TEST(ScaleCalibration, LeavingARunOutIsTheFitToTheOthers) {
  const HardwareFile file = hardware_named("a100-80g");
  std::vector<Row> few;
  for (const Row& row : rows_of(file)) {
    if (row.plan.stages() * row.plan.microbatches() < 3000) few.push_back(row);
  }
  ASSERT_GE(few.size(), 8u);
  HardwareFile three = file;
  three.fitted = {"gemm", "memory", "send"};
  const std::vector<double> quick = left_out_errors(three, few);
  for (std::size_t out = 0; out < few.size(); ++out) {
    std::vector<Row> others = few;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(out));
    const double slow = predicted_seconds(fitted_to(three, others), few[out]) / few[out].seconds - 1;
    EXPECT_NEAR(quick[out], slow, 3e-3) << few[out].name;
  }
}

/// Seconds that were predicted with other numbers lead back to these.
TEST(ScaleCalibration, FindsTheNumbersThatRowsWereMadeWith) {
  HardwareFile file = hardware_named("a100-80g");
  file.fitted = {"gemm", "memory"};
  auto rows = rows_of(file);
  std::erase_if(rows, [](const Row& row) { return row.plan.pipeline > 2; });
  Hardware truth = file.hardware;
  truth.gemm = 0.6;
  truth.memory = 0.9;
  for (Row& row : rows) row.seconds = predicted_seconds(truth, row);
  const Hardware found = fitted_to(file, rows);
  EXPECT_NEAR(found.gemm, 0.6, 1e-4);
  EXPECT_NEAR(found.memory, 0.9, 1e-4);
}

TEST(ScaleCalibration, RefusesWhatIsNoHardware) {
  const auto refusal = [](const std::string& text) {
    try {
      (void)read_hardware(text, "x.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal("[]").find("'x.json' is no JSON object"), std::string::npos);
  std::string five = hardware_named("a100-80g").text;
  const auto at = five.find("\"gemm\":");
  ASSERT_NE(at, std::string::npos);
  five.insert(at, "\"gemm_fp8\": 1, ");
  EXPECT_NE(refusal(five).find("5 numbers are fitted; 4 are allowed"), std::string::npos) << refusal(five);
  std::string bare = hardware_named("a100-80g").text;
  const auto origin = bare.find("\"origin\"");
  bare.replace(origin, 8, "\"because\"");
  EXPECT_NE(refusal(bare).find("has no origin"), std::string::npos) << refusal(bare);
}

}  // namespace
}  // namespace weft::scale
