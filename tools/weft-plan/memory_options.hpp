#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/zero/memory_plan.hpp"

namespace weft::plan {

struct MemoryCommand {
  std::string model = "gpt-ref";
  std::optional<std::int64_t> parameters;  ///< the closed form alone, of so many
  int layers = 0;                          ///< of a GPT, with `width`; or of `parameters`
  std::int64_t width = 0;
  std::int64_t vocabulary = 50257;
  std::int64_t context = 1024;
  DataType dtype = DataType::f32;
  std::vector<int> stages{0, 1, 2, 3};
  bool names_stages = false;  ///< else an option that a stage has no use for is left out there
  std::vector<int> ranks{8};
  zero::MemoryOptions options;  ///< of every stage
  std::int64_t device_bytes = std::int64_t{80} << 30;
  std::optional<std::string> json;
  bool help = false;
};

/// @param arguments after the word "memory". @throws Error (usage) naming the argument, its value and what is
/// allowed
MemoryCommand parse_memory(const std::vector<std::string>& arguments);
std::string memory_help();

/// "80G" in steps of `step` (1000 or 1024) a letter of K, M, G, T; "B" is "G". @throws Error (usage) naming
/// the option
std::int64_t amount(const char* option, const std::string& word, std::int64_t step);

}  // namespace weft::plan
