// What launchers' variables claim. The input is lines "NAME=VALUE", of which those that are no variable of weft's say nothing.

#include "fuzz/expect_refused.hpp"
#include "weft/collectives/world.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  Environment::Values values;
  std::string_view rest = test::as_text(data, size);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && equals > 0)
      values[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  const Environment environment(values);
  for (const bool beneath_mpi : {false, true}) {
    test::taken_or_refused([&] {
      const LaunchClaim claim = decide(launch_claims({}, environment, beneath_mpi));
      test::expect(claim.size == -1 || (claim.rank >= 0 && claim.rank < claim.size),
                   "a rank is below its size");
      (void)describe(claim);
    });
  }
  for (const env::Variable* variable : env::variables()) {
    test::taken_or_refused([&] { (void)environment.integer(*variable, 0, 1 << 20); });
    test::taken_or_refused([&] { (void)environment.seconds(*variable); });
  }
  return 0;
}
