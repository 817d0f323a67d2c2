// Tables of nvidia-smi topo -m: printed at random, mixed between hosts, cut, and read back.

#include "weft-report/topology/matrix.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "unit/tools/weft-report/topology/tool_lines.hpp"
#include "weft-report/topology/words.hpp"
#include "weft/core/text.hpp"

namespace weft::report::topology {
namespace {

using test::facts_of;
using test::Lines;
using test::mixed;
using test::tagged;
using weft::test::Draw;

struct MatrixForm {
  bool tabs;      ///< else spaces, as people paste it
  bool legend;    ///< drivers from 520 on
  bool numa;      ///< drivers from 450 on
  bool gpu_numa;  ///< drivers from 525 on
};

Matrix random_matrix(Draw& draw, const MatrixForm& form) {
  Matrix matrix;
  const int gpus = 1 + draw.below(8);
  const int nics = draw.below(5);
  for (int i = 0; i < gpus + nics; ++i) {
    MatrixDevice device{.gpu = i < gpus};
    device.device = device.gpu ? text("GPU", i) : text("mlx5_", i - gpus + draw.below(2));
    if (!device.gpu && i > gpus && matrix.devices.back().device == device.device)
      device.device = text("bnxt_re", i);
    device.name = device.gpu ? device.device : form.legend ? text("NIC", i - gpus) : device.device;
    if (device.gpu) device.cores = draw.one_of<const char*>({"0-31,64-95", "32", "0-255"});
    if (device.gpu && form.numa) device.numa = draw.below(3) - 1;
    matrix.devices.push_back(device);
  }
  using enum Distance;
  for (std::size_t i = 0; i < matrix.devices.size(); ++i) {
    for (std::size_t j = 0; j < matrix.devices.size(); ++j) {
      const Distance kind = i == j ? same : draw.one_of<Distance>({nvl, pix, pxb, phb, node, sys});
      matrix.devices[i].links.push_back({kind, kind == nvl ? 1 + draw.below(18) : 0});
    }
  }
  return matrix;
}

Lines print(const Matrix& matrix, const MatrixForm& form) {
  const auto cell = [&](const std::string& words) {
    return form.tabs ? "\t" + words : std::string(words.size() < 7 ? 8 - words.size() : 1, ' ') + words;
  };
  std::string heading;
  for (const MatrixDevice& one : matrix.devices) heading += cell(one.name);
  heading += cell("CPU Affinity");
  if (form.numa) heading += cell("NUMA Affinity");
  if (form.gpu_numa) heading += cell("GPU NUMA ID");
  if (form.tabs) heading = "\t\x1b[4m" + heading.substr(1) + "\x1b[0m";
  Lines lines{heading};
  for (const MatrixDevice& one : matrix.devices) {
    std::string row = one.name;
    for (const MatrixLink& link : one.links) {
      row += cell(link.nvlinks > 0                  ? text("NV", link.nvlinks)
                  : link.distance == Distance::same ? " X "
                                                    : std::string(name(link.distance)));
    }
    if (one.gpu) row += cell(one.cores);
    if (one.gpu && form.numa) row += cell(one.numa < 0 ? "N/A" : std::to_string(one.numa));
    if (one.gpu && form.gpu_numa) row += (form.tabs ? "\t" : "") + cell("N/A");
    lines.push_back(row);
  }
  lines.insert(lines.end(), {"", "Legend:", "", "  X    = Self",
                             "  NV#  = Connection traversing a bonded set of # NVLinks", ""});
  if (!form.legend) return lines;
  lines.insert(lines.end(), {"NIC Legend:", ""});
  for (const MatrixDevice& one : matrix.devices) {
    if (!one.gpu) lines.push_back("  " + one.name + ": " + one.device);
  }
  return lines;
}

void expect_same(const Matrix& read, const Matrix& meant) {
  ASSERT_EQ(read.devices.size(), meant.devices.size());
  for (std::size_t i = 0; i < read.devices.size(); ++i) {
    const MatrixDevice& a = read.devices[i];
    const MatrixDevice& b = meant.devices[i];
    EXPECT_EQ(std::tuple(a.name, a.device, a.gpu, a.cores, a.numa),
              std::tuple(b.name, b.device, b.gpu, b.cores, b.numa));
    ASSERT_EQ(a.links.size(), b.links.size()) << a.name;
    for (std::size_t j = 0; j < a.links.size(); ++j) {
      EXPECT_EQ(a.links[j].distance, b.links[j].distance);
      EXPECT_EQ(a.links[j].nvlinks, b.links[j].nvlinks);
    }
  }
}

constexpr MatrixForm matrix_forms[] = {{true, true, true, true},    {true, true, true, false},
                                       {true, false, true, false},  {true, false, false, false},
                                       {false, true, true, true},   {false, false, true, false},
                                       {false, false, false, false}};

TEST(TopologyTable, PrintedAtRandomIsReadBack) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const MatrixForm form = matrix_forms[draw.below(static_cast<int>(std::size(matrix_forms)))];
    const Matrix meant = random_matrix(draw, form);
    const Lines lines = print(meant, form);
    const ToolFacts facts = facts_of(lines);
    ASSERT_EQ(facts.matrices.size(), 1U) << lines[0];
    expect_same(facts.matrices[0], meant);
    EXPECT_EQ(facts.matrices[0].devices[0].evidence.line, 2);
    if (HasFailure()) FAIL() << lines[0] << "\n" << lines[1];
  }
}

TEST(TopologyTable, OfSeveralHostsMayBeMixed) {
  const std::pair<std::string, std::string> tags[] = {
      {"node1: ", "node2: "},
      {"[1,0]<stdout>:", "[1,8]<stdout>:"},
      {"2026-01-01T10:00:00.1Z stdout F a ", "2026-01-01T10:00:01.2Z stdout F b "}};
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    Draw draw(seed);
    const auto& [first, second] = tags[draw.below(3)];
    const Matrix a = random_matrix(draw, matrix_forms[0]);
    const Matrix b = random_matrix(draw, matrix_forms[0]);
    const ToolFacts facts = facts_of(
        mixed(tagged(print(a, matrix_forms[0]), first), tagged(print(b, matrix_forms[0]), second), draw));
    ASSERT_EQ(facts.matrices.size(), 2U);
    const bool swapped = facts.matrices[0].evidence.text.starts_with(trimmed(second));
    expect_same(facts.matrices[swapped ? 1 : 0], a);
    expect_same(facts.matrices[swapped ? 0 : 1], b);
    if (first == "node1: ") {
      EXPECT_EQ(facts.matrices[swapped ? 1 : 0].host, "node1");
    }
  }
}

TEST(TopologyTable, ThatOnlyLooksLikeATableIsNone) {
  for (const char* content :
       {"GPU0 failed\n", "\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "Using GPU0 with CPU Affinity GPU0\n",
        "\tGPU0\tGPU0\tCPU Affinity\n", "CPU Affinity GPU0\n"})
    EXPECT_TRUE(facts_of(content).matrices.empty() || facts_of(content).matrices[0].devices[0].links.empty())
        << content;
  const ToolFacts facts = facts_of("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV\t0\nGPU1\tPIX\t X \t0\n");
  ASSERT_EQ(facts.matrices.size(), 1U);
  EXPECT_TRUE(facts.matrices[0].devices[0].links.empty());  // the row is not whole
  EXPECT_EQ(facts.matrices[0].devices[1].links.size(), 2U);
}

TEST(TopologyTable, HasAHeadingOfAnyLength) {
  std::string names;
  for (int i = 0; i < 150'000; ++i) names += text("GPU", i, ' ');
  EXPECT_TRUE(facts_of(names + "CPU Affinity\n").matrices.empty());
  const std::string one =
      "GPU0 CPU Affinity " + std::string(1 << 20, 'x') + "\nGPU0 X " + std::string(1 << 20, '1') + "\n";
  const ToolFacts facts = facts_of(one);
  ASSERT_EQ(facts.matrices.size(), 1U);
  EXPECT_LE(facts.matrices[0].evidence.text.size(), 304U);
  EXPECT_EQ(facts.matrices[0].devices[0].links.size(), 1U);
}

TEST(TopologyTable, CutAnywhereNeverBreaksTheReader) {
  Draw draw(7);
  std::string whole;
  for (const std::string& line : print(random_matrix(draw, matrix_forms[0]), matrix_forms[0]))
    whole += line + "\n";
  for (std::size_t length = 0; length <= whole.size(); ++length)
    EXPECT_LE(facts_of(whole.substr(0, length)).matrices.size(), 1U);
}

}  // namespace
}  // namespace weft::report::topology
