#include "child_environment.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "core/base/strings.hpp"
#include "weft/core/env.hpp"
#include "weft/core/error.hpp"

namespace weft::launch {

bool names_a_rank(std::string_view variable) {
  // weft reads only some variables of these families. The rest go as well, because an MPI that a rank initializes
  // itself must not find them. OMPI_MCA_* settings of the user stay.
  static constexpr std::array<std::string_view, 15> families{"PMIX_",
                                                             "PMI_",
                                                             "PRTE_",
                                                             "OMPI_COMM_WORLD_",
                                                             "OMPI_MCA_orte_",
                                                             "OMPI_MCA_ess",
                                                             "OMPI_UNIVERSE",
                                                             "OMPI_APP_",
                                                             "OMPI_FIRST_RANKS",
                                                             "OMPI_NUM_APP_",
                                                             "OMPI_FILE_LOCATION",
                                                             "SLURM_STEP",
                                                             "SLURM_TASK_PID",
                                                             "TORCHELASTIC_",
                                                             "HYDI_"};
  if (std::any_of(families.begin(), families.end(),
                  [&](auto family) { return variable.starts_with(family); })) {
    return true;
  }
  static constexpr std::array<const env::Variable*, 5> ours{&env::rank, &env::size, &env::local_rank,
                                                            &env::local_size, &env::rendezvous};
  const auto all = env::variables();
  return std::any_of(all.begin(), all.end(), [&](const env::Variable* known) {
    if (known->name != variable) return false;
    // Settings, and what tells pods apart, not ranks.
    if (known->origin == "NCCL" || known->origin == "UCX" || known->origin == "Kubernetes") return false;
    return known->origin != "weft" || std::find(ours.begin(), ours.end(), known) != ours.end();
  });
}

std::string new_token() {
  std::array<unsigned char, 32> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0) throw system_error("the kernel gives no random numbers");
  return detail::hex_digits(bytes);
}

std::vector<std::string> child_environment(const std::vector<std::string>& inherited, const Placement& place,
                                           const std::string& rendezvous, const std::string& token) {
  std::vector<std::string> lines;
  for (const std::string& line : inherited) {
    if (!names_a_rank(std::string_view(line).substr(0, line.find('=')))) lines.push_back(line);
  }
  const auto add = [&](const env::Variable& variable, const auto& value) {
    lines.push_back(text(variable.name, "=", value));
  };
  add(env::rank, place.rank);
  add(env::size, place.size);
  add(env::local_rank, place.local_rank);
  add(env::local_size, place.local_size);
  add(env::rendezvous, rendezvous);
  const auto has = [&](const env::Variable& variable) {
    return std::ranges::any_of(
        lines, [&](const std::string& line) { return line.starts_with(text(variable.name, "=")); });
  };
  if (!has(env::token) && !has(env::token_file)) add(env::token, token);
  add(env::torch_rank, place.rank);
  add(env::torch_size, place.size);
  add(env::torch_local_rank, place.local_rank);
  add(env::torch_local_size, place.local_size);
  return lines;
}

}  // namespace weft::launch
