#include "weft-report/bandwidth/cost_constants.hpp"

#include <algorithm>
#include <bit>

namespace weft::report::bandwidth {
namespace {

constexpr auto at_tree = static_cast<std::size_t>(Algorithm::tree);
constexpr auto at_ring = static_cast<std::size_t>(Algorithm::ring);
constexpr auto at_collnet_direct = static_cast<std::size_t>(Algorithm::collnet_direct);
constexpr auto at_collnet_chain = static_cast<std::size_t>(Algorithm::collnet_chain);
constexpr auto at_nvls = static_cast<std::size_t>(Algorithm::nvls);
constexpr auto at_nvls_tree = static_cast<std::size_t>(Algorithm::nvls_tree);
constexpr auto at_pat = static_cast<std::size_t>(Algorithm::pat);
constexpr auto at_simple = static_cast<std::size_t>(Protocol::simple);
constexpr std::size_t at_hopper = 2;
constexpr std::size_t at_blackwell = 3;

NcclVersion second(int minor, int patch = 0) {
  return {{2, minor, patch}};
}

/// 2.18.1.
CostConstants oldest() {
  CostConstants c;
  c.base[at_tree] = {6.8, 14, 0};
  c.base[at_ring] = {6.6, 14, 8.4};
  c.base[at_collnet_direct] = c.base[at_collnet_chain] = {6.8, 14, 0};
  c.base[at_nvls] = c.base[at_nvls_tree] = {0, 0, 23};
  c.nvlink[at_tree] = {0.6, 1.25, 28};
  c.nvlink[at_ring] = {0.6, 1.9, 3.4};
  c.nvlink[at_collnet_direct] = {0, 0, 8};
  c.nvlink[at_collnet_chain] = {0, 0, 4.75};
  c.pci[at_tree] = {1, 1.9, 28};
  c.pci[at_ring] = {1, 2.5, 5.7};
  c.pci[at_collnet_direct] = c.pci[at_collnet_chain] = {0, 0, 8};
  c.net[at_tree] = {5, 8.5, 28};
  c.net[at_ring] = {2.7, 4, 14};
  c.net[at_collnet_direct] = {0, 0, 10.7};
  c.net[at_collnet_chain] = {0, 0, 14};
  c.net[at_nvls] = {0, 0, 18};
  c.net[at_nvls_tree] = {0, 0, 19};
  c.ll_most = {{{39, 39, 20.4}, {87.7, 22.5, 19}, {87.7, 22.5, 19}, {}}};
  c.ring_ll128_of_channel = {{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {}}};
  c.tree_ll128_of_channel = c.ring_ll128_of_channel;
  c.tree_of_channel = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 33}, {}}};
  c.nvls_tree_of_channel = {{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {0, 57.7, 45.5}, {0, 96, 43.1}}};
  c.nvls_efficiency = {0, 0, 0.85, 0.74};
  return c;
}

void set_tree_simple(CostConstants& c, double nvlink, double pci, double net) {
  c.nvlink[at_tree][at_simple] = nvlink;
  c.pci[at_tree][at_simple] = pci;
  c.net[at_tree][at_simple] = net;
}

void change_to_2_18_3(CostConstants& c) {
  set_tree_simple(c, 4, 6, 14);
  c.tree_ll128_of_channel[at_hopper] = {36.7, 36.7, 29};
  c.tree_of_channel[at_hopper][2] = 36;
}
void change_to_2_19(CostConstants& c) {
  set_tree_simple(c, 28, 28, 28);
  for (const std::size_t one : {at_collnet_direct, at_collnet_chain, at_nvls, at_nvls_tree}) c.base[one] = {};
  c.nvlink[at_collnet_direct] = c.pci[at_collnet_direct] = {0, 0, 3.7};
  c.nvlink[at_collnet_chain] = c.pci[at_collnet_chain] = {0, 0, 2.8};
  c.nvlink[at_nvls] = c.nvlink[at_nvls_tree] = {0, 0, 23};
  c.net[at_collnet_direct] = {0, 0, 31};
  c.net[at_collnet_chain] = {0, 0, 30};
  c.net[at_nvls_tree] = {0, 0, 14};
}
void change_to_2_21(CostConstants& c) {
  c.nvlink[at_nvls] = c.nvlink[at_nvls_tree] = {0, 0, 25};
  c.ll_most[at_hopper] = {141, 45, 35};
}
void change_to_2_23(CostConstants& c) {
  c.base[at_tree][at_simple] = 8.4;
  c.base[at_pat] = {8, 8, 8};
  set_tree_simple(c, 4, 4, 14);
}
/// Since 2.25 a Blackwell GPU is told from a Hopper GPU, and has twice its bandwidth.
void set_blackwell(CostConstants& c, double times) {
  for (ByGpu* const of :
       {&c.ll_most, &c.ring_ll128_of_channel, &c.tree_ll128_of_channel, &c.tree_of_channel}) {
    for (std::size_t nodes = 0; nodes < 3; ++nodes)
      (*of)[at_blackwell][nodes] = times * (*of)[at_hopper][nodes];
  }
}
void change_to_2_28(CostConstants& c) {
  c.nvlink[at_pat] = c.pci[at_pat] = {0, 0, 4};
  c.net[at_pat] = {0, 0, 14};
  c.tree_ll128_of_channel[at_blackwell] = {55.6, 31.67, 20};
  c.tree_of_channel[at_blackwell] = {70, 42.8, 24};
}

constexpr std::array<std::array<double, 24>, protocols> tree_losses{
    {{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
     {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9}}};

}  // namespace

CostConstants cost_constants(const NcclVersion& of) {
  CostConstants c = oldest();
  if (of >= second(18, 3)) change_to_2_18_3(c);
  if (of >= second(19)) change_to_2_19(c);
  if (of >= second(21)) change_to_2_21(c);
  if (of >= second(23)) change_to_2_23(c);
  set_blackwell(c, of >= second(25) ? 2 : 1);
  if (of >= second(28)) change_to_2_28(c);
  if (of >= second(28, 7)) c.ring_ll128_of_channel[at_blackwell][1] = 34.6;
  if (of >= second(28, 9)) {
    c.net[at_nvls_tree] = {0, 0, 20.9};
    c.nvls_tree_of_channel[at_blackwell][2] = 43.8;
  }
  if (of >= second(29)) c.ring_ll128_of_channel[at_blackwell] = {34.5, 34.6, 34.5};
  if (of >= second(29, 7)) c.ring_ll128_of_channel[at_blackwell] = {40, 40, 40};
  if (of >= second(30)) c.nvls_tree_of_channel[at_blackwell][2] = 80;
  return c;
}

double tree_correction(Protocol protocol, std::int64_t bytes, std::size_t sizes) {
  const auto units = static_cast<std::uint64_t>(bytes) >> 6U;
  if (bytes < 64) return 1;
  const auto log = static_cast<std::size_t>(std::bit_width(units) - 1);
  const auto& losses = tree_losses[static_cast<std::size_t>(protocol)];
  return log < std::min(sizes, losses.size()) ? losses[log] : 1;
}

}  // namespace weft::report::bandwidth
