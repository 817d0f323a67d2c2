#include "weft-plan/scale/calibration.hpp"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <utility>

#include "weft-plan/scale/json_values.hpp"
#include "weft-plan/scale/step.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

namespace json = boost::json;
using Matrix = std::vector<std::vector<double>>;

Row row_of(const HardwareFile& file, const json::object& all) {
  const auto* called = all.if_contains("name");
  const std::string run = called != nullptr && called->is_string() ? std::string(called->get_string()) : "?";
  const JsonValues values(all, text("run '", run, "' of ", file.hardware.name));
  std::vector<std::string> keys = model_keys();
  for (const char* key :
       {"name", "source", "gpus", "tensor", "pipeline", "context", "virtual-stages", "micro-batch",
        "global-batch", "zero", "recompute", "sequence-parallel", "dtype", "software", "seconds"})
    keys.emplace_back(key);
  values.expect_only(keys);
  Row row{.name = values.word("name"),
          .source = values.word("source"),
          .model = model_from(values, run),
          .plan = {}};
  row.plan = {.gpus = values.count("gpus", 1),
              .tensor = values.count("tensor", 1),
              .pipeline = values.count("pipeline", 1),
              .context = values.count("context", 1),
              .virtual_stages = values.count("virtual-stages", 0),
              .micro_batch = values.count("micro-batch", 1),
              .global_batch = values.count("global-batch", 1),
              .zero = static_cast<int>(values.count("zero", 0)),
              .recompute = recompute_named(values.word("recompute", "none")),
              .sequence_parallel = values.is("sequence-parallel"),
              .precision = precision_named(values.word("dtype", "bf16")),
              .software = values.word("software", "")};
  row.seconds = values.number("seconds");
  if (!(row.seconds > 0))
    throw Error(ErrorKind::usage,
                text("run '", run, "' of ", file.hardware.name, ": 'seconds' is not above 0"));
  row.plan = completed(row.model, file.hardware, row.plan);
  expect_divides(row.model, file.hardware, row.plan);
  return row;
}

std::vector<double> log_errors(const Hardware& hardware, const std::vector<Row>& rows) {
  std::vector<double> result;
  for (const Row& row : rows) result.push_back(std::log(predicted_seconds(hardware, row) / row.seconds));
  return result;
}

/// Solves a x = b by elimination with pivots. @returns empty where a is singular
std::vector<double> solved(Matrix a, std::vector<double> b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i + 1; r < n; ++r) {
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    }
    if (std::abs(a[pivot][i]) < 1e-12) return {};
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = 0; i < n; ++i) b[i] /= a[i][i];
  return b;
}

/// How the logarithm of each row's prediction changes with that of each fitted number.
Matrix slopes(const HardwareFile& file, const Hardware& at, const std::vector<Row>& rows,
              const std::vector<double>& errors) {
  constexpr double step = 1e-3;
  Matrix by_number;
  for (const std::string& number : file.fitted) {
    Hardware moved = at;
    number_of(moved, number) *= std::exp(step);
    std::vector<double> column = log_errors(moved, rows);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] = (column[i] - errors[i]) / step;
    by_number.push_back(std::move(column));
  }
  return by_number;
}

/// The step of Gauss and Newton by the rows of `wanted`; numbers that none of these depends on stay.
std::vector<double> newton(const Matrix& slope, const std::vector<double>& errors,
                           const std::vector<bool>& wanted) {
  std::vector<std::size_t> numbers;
  for (std::size_t n = 0; n < slope.size(); ++n) {
    double size = 0;
    for (std::size_t i = 0; i < errors.size(); ++i) size += wanted[i] ? std::abs(slope[n][i]) : 0;
    if (size > 1e-6) numbers.push_back(n);
  }
  Matrix a(numbers.size(), std::vector<double>(numbers.size()));
  std::vector<double> b(numbers.size());
  for (std::size_t r = 0; r < numbers.size(); ++r) {
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (!wanted[i]) continue;
      for (std::size_t c = 0; c < numbers.size(); ++c) a[r][c] += slope[numbers[r]][i] * slope[numbers[c]][i];
      b[r] -= slope[numbers[r]][i] * errors[i];
    }
  }
  const std::vector<double> move = solved(std::move(a), std::move(b));
  if (move.empty() && !numbers.empty())
    throw Error(ErrorKind::usage, "the runs do not determine the numbers that are fitted to them",
                "give more runs, of different models and plans");
  std::vector<double> all(slope.size());
  for (std::size_t r = 0; r < numbers.size(); ++r) all[numbers[r]] = std::clamp(move[r], -0.5, 0.5);
  return all;
}

Hardware moved(const HardwareFile& file, Hardware hardware, const std::vector<double>& by) {
  for (std::size_t n = 0; n < by.size(); ++n) number_of(hardware, file.fitted[n]) *= std::exp(by[n]);
  return hardware;
}

}  // namespace

std::vector<Row> rows_of(const HardwareFile& file) {
  const json::value all = json::parse(file.text);
  const auto* runs = all.get_object().if_contains("runs");
  std::vector<Row> rows;
  if (runs == nullptr) return rows;
  if (!runs->is_array())
    throw Error(ErrorKind::usage, text("'runs' of ", file.hardware.name, " is no list"),
                "docs/scale.md has the format");
  for (const json::value& run : runs->get_array()) {
    if (!run.is_object())
      throw Error(ErrorKind::usage, text("a run of ", file.hardware.name, " is no object"),
                  "docs/scale.md has the format");
    rows.push_back(row_of(file, run.get_object()));
  }
  return rows;
}

double predicted_seconds(const Hardware& hardware, const Row& row) {
  return predict(row.model, hardware, row.plan).seconds;
}

std::vector<double> errors_of(const Hardware& hardware, const std::vector<Row>& rows) {
  std::vector<double> result;
  for (const Row& row : rows) result.push_back(predicted_seconds(hardware, row) / row.seconds - 1);
  return result;
}

Hardware fitted_to(const HardwareFile& file, const std::vector<Row>& rows) {
  constexpr int most_rounds = 12;
  Hardware hardware = file.hardware;
  const std::vector<bool> all(rows.size(), true);
  for (int round = 0; round < most_rounds; ++round) {
    const std::vector<double> errors = log_errors(hardware, rows);
    const std::vector<double> by = newton(slopes(file, hardware, rows, errors), errors, all);
    hardware = moved(file, hardware, by);
    if (largest_size(by) < 1e-4) break;
  }
  return hardware;
}

/// One step of Newton from the fit to all rows: what one row changes is so little that a second step would not
/// show.
std::vector<double> left_out_errors(const HardwareFile& file, const std::vector<Row>& rows) {
  const Hardware all = fitted_to(file, rows);
  const std::vector<double> errors = log_errors(all, rows);
  const Matrix slope = slopes(file, all, rows, errors);
  std::vector<double> result;
  for (std::size_t out = 0; out < rows.size(); ++out) {
    std::vector<bool> wanted(rows.size(), true);
    wanted[out] = false;
    const Hardware others = moved(file, all, newton(slope, errors, wanted));
    result.push_back(predicted_seconds(others, rows[out]) / rows[out].seconds - 1);
  }
  return result;
}

std::vector<double> set_aside_errors(const HardwareFile& file, const std::vector<Row>& rows) {
  std::vector<Row> kept, aside;
  for (std::size_t i = 0; i < rows.size(); ++i) (i % 3 == 2 ? aside : kept).push_back(rows[i]);
  return errors_of(fitted_to(file, kept), aside);
}

double mean_size(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return errors.empty() ? 0 : sum / static_cast<double>(errors.size());
}

double largest_size(const std::vector<double>& errors) {
  double most = 0;
  for (const double error : errors) most = std::max(most, std::abs(error));
  return most;
}

double root_mean_square(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += error * error;
  return errors.empty() ? 0 : std::sqrt(sum / static_cast<double>(errors.size()));
}

}  // namespace weft::scale
