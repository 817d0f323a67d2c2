#include "memory_options.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <variant>

#include "common/command_line.hpp"
#include "input.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;

po::options_description memory_description() {
  po::options_description result("Options", 110);
  const auto word = [](const char* name) { return po::value<std::string>()->value_name(name); };
  result.add_options()                                                        //
      ("model", word("NAME"), "a reference model of weft-scaling (gpt-ref)")  //
      ("layers", word("N"),
       "instead: a GPT of so many layers, with --width; or layers of equal size of --parameters (32)")  //
      ("width", word("N"), "width of that GPT")                                                         //
      ("vocabulary", word("N"), "vocabulary of that GPT (50257)")                                       //
      ("context", word("N"), "context of that GPT (1024)")                                              //
      ("parameters", word("P"), "instead: the closed form of so many parameters; 1.5G are 1500000000")  //
      ("stage", word("N[,N...]"), "stages of ZeRO (0,1,2,3)")                                           //
      ("ranks", word("N[,N...]"), "numbers of ranks (8)")                                               //
      ("dtype", word("TYPE"), "type of parameters and gradients: f32, bf16 or f16 (f32)")               //
      ("master", word("KIND"), "master copy of 16-bit parameters: f32, or with bf16 split (f32)")       //
      ("optimizer", word("NAME"), "adamw, adam, muon, lamb, lars, sgd or sgd-momentum (adamw)")         //
      ("bucket-bytes", word("BYTES"), "size of a gradient bucket (1M); 64K is 65536")                   //
      ("bucket-ring-bytes", word("BYTES"),
       "stages 2 and 3: memory for gradients that are being reduced (an eighth of all)")  //
      ("prefetch-bytes", word("BYTES"),
       "stage 3: memory for units that are gathered ahead (the largest unit)")              //
      ("offload", word("SHARE"), "share of the optimizer's state on the host, 0 to 1 (0)")  //
      ("offload-file", word("SHARE"),
       "share of that, 0 to 1, whose masters and moments are in a file (0)")               //
      ("offload-parameters", "stage 3: a rank's shard of parameters is on the host")       //
      ("offload-gradients", "stages 2 and 3: a rank's shard of gradients is on the host")  //
      ("device-bytes", word("BYTES"), "memory of the device of each rank (80G)")           //
      ("json", word("FILE"), "write the figures to FILE, - for standard output");
  tool::add_common(result);
  return result;
}

std::vector<int> numbers(const char* option, const std::string& list, int least, int most) {
  std::vector<int> all;
  for (const std::string& word : tool::split(list))
    all.push_back(static_cast<int>(number(option, word, least, most)));
  if (all.empty()) refuse(option, "''", "a list of numbers");
  return all;
}

DataType dtype_named(const std::string& word) {
  for (const DataType dtype : {DataType::f32, DataType::bf16, DataType::f16}) {
    if (word == name(dtype)) return dtype;
  }
  refuse("dtype", word, "f32, bf16 or f16");
}

zero::Master master_named(const std::string& word) {
  if (word == "f32") return zero::Master::f32;
  if (word == "split") return zero::Master::split;
  refuse("master", word, "f32 or split");
}

zero::Optimizer optimizer_named(const std::string& word) {
  if (word == "adamw") return zero::AdamW{};
  if (word == "adam") return zero::Adam{};
  if (word == "muon") return zero::Muon{};
  if (word == "lamb") return zero::Lamb{};
  if (word == "lars") return zero::Lars{};
  if (word == "sgd") return zero::Sgd{};
  if (word == "sgd-momentum") return zero::Sgd{.momentum = 0.9};
  refuse("optimizer", word, "adamw, adam, muon, lamb, lars, sgd or sgd-momentum");
}

void expect_one_model(const Given& given) {
  if (given("model") && (given("parameters") || given("layers") || given("width")))
    throw Error(ErrorKind::usage, "two models are named",
                "give --model, or --layers and --width, or --parameters");
  if (given("parameters") && (given("width") || given("bucket-bytes")))
    throw Error(ErrorKind::usage,
                text("--", given("width") ? "width" : "bucket-bytes", " beside --parameters"),
                "the closed form knows the number of parameters and --layers alone");
  if (!given("parameters") && given("layers") != given("width"))
    throw Error(ErrorKind::usage, given("width") ? "--width without --layers" : "--layers without --width",
                "a GPT has both");
  for (const char* option : {"vocabulary", "context"}) {
    if (given(option) && !given("width"))
      throw Error(ErrorKind::usage, text("--", option, " without --layers and --width"),
                  "it is of a GPT of these");
  }
}

void take_model(const Given& given, MemoryCommand& command) {
  expect_one_model(given);
  const auto count = [&](const char* option, std::int64_t& to, std::int64_t most) {
    given(option, [&](const std::string& word) { to = number(option, word, 1, most); });
  };
  given("model", [&](const std::string& word) { command.model = word; });
  given("parameters",
        [&](const std::string& word) { command.parameters = amount("parameters", word, 1000); });
  given("layers", [&](const std::string& word) {
    command.layers = static_cast<int>(number("layers", word, 1, 10000));
  });
  count("width", command.width, 1 << 20);
  count("vocabulary", command.vocabulary, 1 << 24);
  count("context", command.context, 1 << 24);
  if (command.parameters && command.layers == 0) command.layers = 32;
}

/// Options that the others leave nothing to do.
void check_effects(const po::variables_map& values, const MemoryCommand& command) {
  const auto any = [&](int least) {
    return std::ranges::any_of(command.stages, [=](int stage) { return stage >= least; });
  };
  if (command.dtype == DataType::f32)
    tool::refuse_ignored(values, {"master"}, "parameters of f32 are their own masters");
  if (!any(2)) tool::refuse_ignored(values, {"bucket-ring-bytes"}, "stages 0 and 1 keep all gradients");
  if (!any(3)) tool::refuse_ignored(values, {"prefetch-bytes"}, "parameters are gathered in stage 3 alone");
  const auto* const sgd = std::get_if<zero::Sgd>(&command.options.optimizer);
  if (command.dtype == DataType::f32 && sgd != nullptr && sgd->momentum == 0)
    tool::refuse_ignored(values, {"offload", "offload-file"}, "sgd on parameters of f32 has no state");
  if (command.options.offload.share == 0)
    tool::refuse_ignored(values, {"offload-file"}, "--offload puts nothing on the host");
}

}  // namespace

std::int64_t amount(const char* option, const std::string& word, std::int64_t step) {
  const char* allowed = "a number of 1 or more, with K, M, G or T behind it or without";
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  std::string_view unit(end, word.data() + word.size());
  if (step == 1000 && unit == "B") unit = "G";
  const std::string_view units = "KMGT";
  const std::size_t power = unit.empty() ? 0 : units.find(unit) + 1;
  if (error != std::errc() || unit.size() > 1 || (!unit.empty() && power == 0)) refuse(option, word, allowed);
  value *= std::pow(static_cast<double>(step), static_cast<double>(power));
  if (!(value >= 1 && value <= 0x1p47)) refuse(option, word, allowed);
  return std::llround(value);
}

MemoryCommand parse_memory(const std::vector<std::string>& arguments) {
  MemoryCommand command;
  const po::variables_map values = tool::parse(arguments, memory_description(), "weft-plan memory --help");
  const Given given(values);
  command.help = given("help");
  if (command.help) return command;
  take_model(given, command);
  command.names_stages = given("stage");
  given("stage", [&](const std::string& list) { command.stages = numbers("stage", list, 0, 3); });
  given("ranks", [&](const std::string& list) { command.ranks = numbers("ranks", list, 1, 65536); });
  given("dtype", [&](const std::string& word) { command.dtype = dtype_named(word); });
  zero::MemoryOptions& options = command.options;
  given("master", [&](const std::string& word) { options.master = master_named(word); });
  given("optimizer", [&](const std::string& word) { options.optimizer = optimizer_named(word); });
  const auto bytes = [&](const char* option, auto& to) {
    given(option,
          [&](const std::string& word) { to = static_cast<std::size_t>(amount(option, word, 1024)); });
  };
  bytes("bucket-bytes", options.bucket_bytes);
  bytes("bucket-ring-bytes", options.bucket_ring_bytes);
  given("prefetch-bytes", [&](const std::string& word) {
    options.prefetch_bytes = word == "0" ? 0 : static_cast<std::size_t>(amount("prefetch-bytes", word, 1024));
  });
  given("offload", [&](const std::string& word) { options.offload.share = share("offload", word); });
  given("offload-file",
        [&](const std::string& word) { options.offload.file_share = share("offload-file", word); });
  options.offload.parameters = given("offload-parameters");
  options.offload.gradients = given("offload-gradients");
  given("device-bytes",
        [&](const std::string& word) { command.device_bytes = amount("device-bytes", word, 1024); });
  given("json", [&](const std::string& word) { command.json = word; });
  check_effects(values, command);
  return command;
}

std::string memory_help() {
  std::ostringstream out;
  out << "weft-plan memory [options]\n\n"
         "The memory of parameters, gradients and optimizer state on each rank under each stage of ZeRO, on\n"
         "device, host and in files, and what fits on a device. Exact to the byte, and by a closed form\n"
         "(docs/memory.md). Activations are not counted.\n\n"
      << memory_description()
      << "\nExamples:\n"
         "  weft-plan memory --layers 32 --width 4096 --dtype bf16 --ranks 8,64 --device-bytes 80G\n"
         "  weft-plan memory --parameters 70G --dtype bf16 --master split --stage 3 --ranks 64 --offload "
         "0.5\n\n"
         "Exit status: 0 done, 42 wrong usage or input, 70 a fault of the system.\n";
  return std::move(out).str();
}

}  // namespace weft::plan
