#include "weft-plan/scale/hardware.hpp"

#include <boost/json.hpp>
#include <cmath>

#include "weft-plan/scale/hardware_files.hpp"
#include "weft-plan/scale/software.hpp"
#include "weft-plan/scale/unknown_name.hpp"
#include "weft/core/error.hpp"

namespace weft::scale {
namespace {

namespace json = boost::json;

constexpr std::size_t most_fitted = 4;

/// Reads the numbers of one file; an error names the file and the key.
class Reader {
 public:
  Reader(const json::object& all, std::string source) : all_(all), source_(std::move(source)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::usage, text("'", source_, "': ", what), "docs/scale.md has the format");
  }
  const json::object& part(const char* name) const {
    const auto* value = all_.if_contains(name);
    if (value == nullptr || !value->is_object()) refuse(text("'", name, "' is missing or no object"));
    return value->get_object();
  }
  /// "constants": {"bf16": {"value": 312e12, "origin": "..."}}
  double constant(const char* name, double least) const {
    const auto* entry = part("constants").if_contains(name);
    if (entry == nullptr) refuse(text("the constant '", name, "' is missing"));
    const auto* object = entry->if_object();
    if (object == nullptr || !object->contains("origin"))
      refuse(text("the constant '", name, "' has no origin"));
    const auto* value = object->if_contains("value");
    return number(name, value, least);
  }
  double number(const std::string& name, const json::value* value, double least) const {
    if (value == nullptr || !value->is_number()) refuse(text("'", name, "' is no number"));
    const double result = value->to_number<double>();
    if (!(result >= least) || !std::isfinite(result))
      refuse(text("'", name, "' is ", result, ", not ", least, " or more"));
    return result;
  }
  std::string word(const char* name) const {
    const auto* value = all_.if_contains(name);
    if (value == nullptr || !value->is_string()) refuse(text("'", name, "' is missing or no string"));
    return std::string(value->get_string());
  }
  const json::value* find(const char* name) const { return all_.if_contains(name); }

 private:
  const json::object& all_;
  std::string source_;
};

Hardware constants(const Reader& reader) {
  constexpr double above_zero = 1e-12;
  Hardware h;
  h.name = reader.word("name");
  h.bf16 = reader.constant("bf16", 1);
  h.fp8 = reader.constant("fp8", 0);
  h.multiprocessors = static_cast<int>(reader.constant("multiprocessors", 1));
  h.memory_bytes = reader.constant("memory_bytes", 1);
  h.memory_rate = reader.constant("memory_rate", 1);
  h.attention = reader.constant("attention", 1);
  h.gpus_per_node = static_cast<int>(reader.constant("gpus_per_node", 1));
  h.node = {reader.constant("node_rate", 1), reader.constant("node_latency", 0),
            reader.constant("node_share", above_zero)};
  h.network = {reader.constant("network_rate", 1), reader.constant("network_latency", 0),
               reader.constant("network_share", above_zero)};
  h.collective_latency = reader.constant("collective_latency", 0);
  h.communication_blocks = reader.constant("communication_blocks", 0);
  h.send = reader.constant("send_share", above_zero);
  h.default_software = reader.word("default_software");
  (void)software_named(h.default_software);
  return h;
}

}  // namespace

double& number_of(Hardware& hardware, const std::string& name) {
  if (name == "gemm") return hardware.gemm;
  if (name == "gemm_fp8") return hardware.gemm_fp8;
  if (name == "memory") return hardware.memory;
  if (name == "send") return hardware.send;
  return hardware.software.try_emplace(software_named(name).name, 1.0).first->second;
}

HardwareFile read_hardware(const std::string& text_of_file, const std::string& source) {
  boost::system::error_code error;
  const json::value value = json::parse(text_of_file, error);
  if (error || !value.is_object())
    throw Error(ErrorKind::usage,
                text("'", source, "' is no JSON object", error ? ": " + error.message() : std::string()));
  const Reader reader(value.get_object(), source);
  HardwareFile file{.hardware = constants(reader), .fitted = {}, .text = text_of_file};
  for (const auto& [name, fitted] : reader.part("fitted")) {
    file.fitted.emplace_back(name);
    number_of(file.hardware, file.fitted.back()) = reader.number(file.fitted.back(), &fitted, 1e-6);
  }
  if (file.fitted.size() > most_fitted)
    reader.refuse(text(file.fitted.size(), " numbers are fitted; ", most_fitted, " are allowed"));
  if (const auto* spread = reader.find("uncertainty"))
    file.hardware.uncertainty = reader.number("uncertainty", spread, 0);
  return file;
}

std::vector<std::string> known_hardware() {
  std::vector<std::string> names;
  for (const BuiltInFile& file : hardware_files()) names.emplace_back(file.name);
  return names;
}

HardwareFile hardware_named(std::string_view name) {
  for (const BuiltInFile& file : hardware_files()) {
    if (file.name == name) return read_hardware(std::string(file.text), std::string(name));
  }
  refuse_name("hardware", name, known_hardware(), "docs/scale.md has the format of a file of your own");
}

}  // namespace weft::scale
