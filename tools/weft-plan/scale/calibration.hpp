#pragma once
// The published runs of a hardware file, what is predicted for them, and the fit of the file's numbers to them.
//
//   const HardwareFile file = hardware_named("a100-80g");
//   for (const Row& row : rows_of(file)) ... predicted_seconds(file.hardware, row) / row.seconds - 1
//   const std::vector<double> errors = left_out_errors(file, rows_of(file));
//
// Plain values, any thread.

#include <string>
#include <vector>

#include "weft-plan/scale/hardware.hpp"
#include "weft-plan/scale/plan.hpp"

namespace weft::scale {

struct Row {
  std::string name;
  std::string source;
  Model model;
  Plan plan;
  double seconds = 0;  ///< of a step, as published or as derived from what was
};

/// @throws Error (usage), which names the row and the key
std::vector<Row> rows_of(const HardwareFile& file);

double predicted_seconds(const Hardware& hardware, const Row& row);
/// predicted / published - 1, by row
std::vector<double> errors_of(const Hardware& hardware, const std::vector<Row>& rows);

/// The fitted numbers for which the sum of squared logarithms of predicted / published is least: Gauss and
/// Newton, from the file's own numbers. A number that no row depends on stays as it is.
/// @throws Error (usage) for fewer rows than numbers that they depend on
Hardware fitted_to(const HardwareFile& file, const std::vector<Row>& rows);

/// The error on each row of the fit to all others.
std::vector<double> left_out_errors(const HardwareFile& file, const std::vector<Row>& rows);
/// The error on every third row of the fit to the other rows, in order.
std::vector<double> set_aside_errors(const HardwareFile& file, const std::vector<Row>& rows);

double mean_size(const std::vector<double>& errors);
double largest_size(const std::vector<double>& errors);
double root_mean_square(const std::vector<double>& errors);

}  // namespace weft::scale
