#include "zero/offload/share_finder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace weft::detail {
namespace {

/// A reference: tile by tile, each path takes one tile at a time, and each tile takes one path at a time.
double simulated(const OffloadRates& rates, double bytes, double hidden, double share) {
  constexpr int tiles = 2000;
  const double each = share * bytes / tiles;
  double down = 0;
  double host = 0;
  double up = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    down += each / rates.down;
    host = std::max(host, down) + each / rates.host;
    up = std::max(up, host) + each / rates.up;
  }
  return (1 - share) * bytes / rates.device + std::max(0.0, up - hidden);
}

TEST(BestShare, IsAsGoodAsTheBestOfAThousandAndOne) {
  std::uint64_t state = 1;
  const auto drawn = [&state](double from, double to) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return from * std::pow(to / from, static_cast<double>(state >> 11U) * 0x1p-53);
  };
  for (int i = 0; i < 40; ++i) {
    const OffloadRates rates{drawn(1e9, 1e12), drawn(1e9, 1e11), drawn(1e9, 1e11), drawn(1e9, 1e11)};
    const double bytes = drawn(1e6, 1e10);
    const double hidden = drawn(1e-4, 10);
    double least = exposed_seconds(rates, bytes, hidden, 0);
    for (int k = 0; k <= 1000; ++k) {
      const double exposed = exposed_seconds(rates, bytes, hidden, k / 1000.0);
      least = std::min(least, exposed);
      if (k % 100 == 0) {
        EXPECT_NEAR(exposed, simulated(rates, bytes, hidden, k / 1000.0), 0.003 * bytes / 1e9);
      }
    }
    const double share = best_share(rates, bytes, hidden);
    ASSERT_GE(share, 0);
    ASSERT_LE(share, 1);
    EXPECT_LE(exposed_seconds(rates, bytes, hidden, share), least * (1 + 1e-12)) << i;
  }
}

TEST(BestShare, OffloadsWhatHides) {
  const OffloadRates rates{.device = 100, .down = 20, .host = 4, .up = 20};
  EXPECT_EQ(best_share(rates, 40, 0), 0);
  EXPECT_EQ(best_share(rates, 40, 5), 0.5);
  EXPECT_EQ(best_share(rates, 40, 50), 1);
  EXPECT_EQ(best_share({.device = 1, .down = 20, .host = 4, .up = 20}, 40, 0), 1)
      << "the host is the faster one";
}

TEST(MeasuredRates, AreThereForEveryWay) {
  for (const Master kept : {Master::f32, Master::split}) {
    const OffloadRates rates =
        measured_rates(Device::host(), {DataType::bf16, kept, 2}, factors(zero::AdamW{}, 1, 1e-3, 1), 4096);
    for (const double rate : {rates.device, rates.down, rates.host, rates.up}) {
      EXPECT_GT(rate, 0);
      EXPECT_TRUE(std::isfinite(rate));
    }
  }
}

}  // namespace
}  // namespace weft::detail
