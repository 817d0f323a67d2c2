#include "weft-report/topology/matrix.hpp"

#include <algorithm>
#include <utility>

#include "core/base/number.hpp"
#include "weft-report/topology/words.hpp"

namespace weft::report::topology {
namespace {

constexpr std::string_view digits = "0123456789";
constexpr std::size_t most_devices = 512;

bool is_gpu(std::string_view name) {
  return name.starts_with("GPU") && name.size() > 3 &&
         name.find_first_not_of(digits, 3) == std::string_view::npos;
}
/// The whole word as a number; `otherwise`: it is none.
int number(std::string_view word, int otherwise) {
  return detail::number_of<int>(word).value_or(otherwise);
}

std::optional<MatrixLink> link_of(std::string_view word) {
  using enum Distance;
  // PSB and SOC are the names of old drivers.
  constexpr std::pair<std::string_view, Distance> names[] = {{"X", same},  {"PIX", pix}, {"PSB", pix},
                                                             {"PXB", pxb}, {"PHB", phb}, {"NODE", node},
                                                             {"SYS", sys}, {"SOC", sys}, {"N/A", unknown}};
  for (const auto& [name, distance] : names) {
    if (word == name) return MatrixLink{distance, 0};
  }
  const int links = word.starts_with("NV") ? number(word.substr(2), 0) : 0;
  if (links <= 0 || links > 1024) return std::nullopt;
  return MatrixLink{nvl, links};
}

bool take_row(Matrix& matrix, MatrixDevice& device, std::string_view rest, const Evidence& evidence) {
  std::vector<MatrixLink> links;
  while (links.size() < matrix.devices.size()) {
    const std::optional<MatrixLink> link = link_of(take_word(rest));
    if (!link) return false;
    links.push_back(*link);
  }
  device.links = std::move(links);
  device.evidence = evidence;
  if (!device.gpu) return true;
  const std::string_view cores = take_word(rest);
  if (!cores.empty() && cores.find_first_not_of("0123456789,-") == std::string_view::npos)
    device.cores = cores;
  device.numa = number(take_word(rest), -1);
  return true;
}

}  // namespace

std::optional<Matrix> matrix_of_heading(std::string_view line) {
  const auto begin = line.find("GPU0");
  const auto end = line.find("CPU Affinity");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return std::nullopt;
  std::string_view names = line.substr(begin, end - begin);
  Matrix matrix;
  for (std::string_view name = take_word(names); !name.empty(); name = take_word(names)) {
    const auto known = std::ranges::find(matrix.devices, name, &MatrixDevice::name);
    if (known != matrix.devices.end() || matrix.devices.size() == most_devices) return std::nullopt;
    matrix.devices.push_back({.name = std::string(name), .device = std::string(name), .gpu = is_gpu(name)});
  }
  return matrix;
}

bool take_matrix_line(Matrix& matrix, std::string_view line, const Evidence& evidence) {
  std::string_view first = take_word(line);
  const bool legend = first.ends_with(':');
  if (legend) first.remove_suffix(1);
  const auto device = std::ranges::find(matrix.devices, first, &MatrixDevice::name);
  if (device == matrix.devices.end()) return false;
  if (!legend) return take_row(matrix, *device, line, evidence);
  const std::string_view name = take_word(line);
  if (name.empty() || device->gpu || !trimmed(line).empty()) return false;
  device->device = name;
  return true;
}

}  // namespace weft::report::topology
