// Options of weft-plan scale.

#include "scale_options.hpp"

#include <boost/json.hpp>
#include <sstream>

#include "common/command_line.hpp"
#include "input.hpp"
#include "weft-plan/scale/json_values.hpp"
#include "weft/core/error.hpp"
#include "weft/pipeline/schedules.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t largest_count = std::int64_t{1} << 40;

std::string listed(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  return all;
}

po::options_description scale_description() {
  std::vector<std::string> models, schedules, software;
  for (const scale::Model& one : scale::known_models()) models.push_back(one.name);
  for (const auto& one : pipeline::named_schedules()) schedules.emplace_back(one.name);
  for (const scale::Software& one : scale::all_software()) software.push_back(one.name);
  po::options_description result("Options", 110);
  const auto word = [](const char* name) { return po::value<std::string>()->value_name(name); };
  result.add_options()                                                                                   //
      ("model", word("NAME"), ("a model by name, or a file (.json) of one: " + listed(models)).c_str())  //
      ("layers", word("L"), "instead: a model of so many layers")                                        //
      ("hidden", word("H"), "its hidden size")                                                           //
      ("heads", word("A"), "its attention heads")                                                        //
      ("kv-heads", word("K"), "its heads of keys and values (as many as heads)")                         //
      ("ffn", word("F"), "width of its feed-forward layer (4 x hidden)")                                 //
      ("gated", "its feed-forward layer has three matrices, as SwiGLU has, and no biases")               //
      ("untied", "its logits have a matrix of their own, beside the embedding's")                        //
      ("vocabulary", word("V"), "its vocabulary")                                                        //
      ("sequence", word("S"), "tokens of a sequence (a named model's own)")                              //
      ("hardware", word("NAME"),
       ("the machines, by name, or a file (.json): " + listed(scale::known_hardware()) + " (a100-80g)")
           .c_str())                                                                               //
      ("gpus", word("N"), "GPUs of the job; data parallel are N / (tensor x pipeline x context)")  //
      ("tensor", word("T"), "ranks of tensor parallelism (1)")                                     //
      ("sequence-parallel", "tensor parallelism cuts norms and dropouts along the sequence, too")  //
      ("pipeline", word("P"), "devices of the pipeline (1)")                                       //
      ("virtual-stages", word("V"),
       "stages on each device (1; megatron-core: as many as divide, up to 12)")  //
      ("schedule", word("NAME"),
       ("1f1b, or interleaved with virtual stages, unless one is named: " + listed(schedules)).c_str())  //
      ("context", word("C"), "ranks of context parallelism (1)")                                         //
      ("micro-batch", word("B"), "sequences of a micro-batch (1)")                                       //
      ("global-batch", word("B"), "sequences of a step")                                                 //
      ("zero", word("STAGE"), "stage of ZeRO; 1 is also Megatron-LM's distributed optimizer (0)")        //
      ("recompute", word("KIND"),
       "activations computed again: none, selective (attention) or full (none)")  //
      ("dtype", word("TYPE"),
       "of the products of layers: bf16, which has the speed of fp16, or fp8 (bf16)")  //
      ("software", word("NAME"),
       ("what is fused and overlapped (the hardware's usual): " + listed(software)).c_str())               //
      ("search", "instead: the fastest plans that fit; what is given of them stays as it is")              //
      ("best", word("N"), "plans that --search shows (10)")                                                //
      ("explain", "also the memory part by part, and the numbers that the prediction rests on")            //
      ("runs", "instead: the published runs that the hardware is calibrated with, and the error on each")  //
      ("json", word("FILE"), "write the figures to FILE, - for standard output");
  tool::add_common(result);
  return result;
}

bool is_file(const std::string& word) {
  return word.ends_with(".json") || word.find('/') != std::string::npos;
}

std::int64_t count_of(const Given& given, const char* option, std::int64_t otherwise,
                      std::int64_t least = 1) {
  const auto word = given.word(option);
  return word ? number(option, *word, least, largest_count) : otherwise;
}

scale::Model read_model(const std::string& path) {
  const boost::json::value value = read_json(path);
  if (!value.is_object()) throw Error(ErrorKind::usage, text("'", path, "' is no JSON object"));
  const scale::JsonValues values(value.get_object(), text("'", path, "'"));
  values.expect_only(scale::model_keys());
  return model_from(values, path);
}

scale::Model model_of(const Given& given) {
  if (const auto word = given.word("model")) {
    for (const char* option :
         {"layers", "hidden", "heads", "kv-heads", "ffn", "gated", "untied", "vocabulary"}) {
      if (given(option))
        throw Error(ErrorKind::usage, text("--", option, " beside --model"), "give one of them");
    }
    scale::Model model = is_file(*word) ? read_model(*word) : scale::model_named(*word);
    model.sequence = count_of(given, "sequence", model.sequence);
    return model;
  }
  for (const char* option : {"layers", "hidden", "heads", "vocabulary", "sequence"}) {
    if (!given(option))
      throw Error(ErrorKind::usage, text("--", option, " is missing"),
                  "give --model, or --layers, --hidden, --heads, --vocabulary and --sequence");
  }
  scale::Model model;
  model.name = "a model";
  model.layers = count_of(given, "layers", 0);
  model.hidden = count_of(given, "hidden", 0);
  model.heads = count_of(given, "heads", 0);
  model.kv_heads = count_of(given, "kv-heads", model.heads);
  model.ffn = count_of(given, "ffn", 4 * model.hidden);
  model.vocabulary = count_of(given, "vocabulary", 0);
  model.sequence = count_of(given, "sequence", 0);
  model.gated = given("gated");
  model.tied = !given("untied");
  return model;
}

scale::Plan plan_of(const Given& given) {
  for (const char* option : {"gpus", "global-batch"}) {
    if (!given(option))
      throw Error(ErrorKind::usage, text("--", option, " is missing"),
                  "a plan has both --gpus and --global-batch");
  }
  scale::Plan plan;
  plan.gpus = count_of(given, "gpus", 1);
  plan.tensor = count_of(given, "tensor", 1);
  plan.pipeline = count_of(given, "pipeline", 1);
  plan.context = count_of(given, "context", 1);
  plan.virtual_stages = count_of(given, "virtual-stages", 0);
  plan.micro_batch = count_of(given, "micro-batch", 1);
  plan.global_batch = count_of(given, "global-batch", 1);
  plan.zero = static_cast<int>(given("zero") ? number("zero", *given.word("zero"), 0, 3) : 0);
  plan.sequence_parallel = given("sequence-parallel");
  given("recompute", [&](const std::string& word) { plan.recompute = scale::recompute_named(word); });
  given("dtype", [&](const std::string& word) { plan.precision = scale::precision_named(word); });
  given("software", [&](const std::string& word) { plan.software = scale::software_named(word).name; });
  given("schedule", [&](const std::string& word) { plan.schedule = word; });
  return plan;
}

}  // namespace

ScaleCommand parse_scale(const std::vector<std::string>& arguments) {
  ScaleCommand command;
  const po::variables_map values = tool::parse(arguments, scale_description(), "weft-plan scale --help");
  const Given given(values);
  command.help = given("help");
  if (command.help) return command;
  const std::string hardware = given.word("hardware").value_or("a100-80g");
  command.hardware = is_file(hardware) ? scale::read_hardware(read_text(hardware), hardware)
                                       : scale::hardware_named(hardware);
  command.json = given.word("json");
  command.runs = given("runs");
  if (command.runs) {
    for (const auto& [option, value] : values) {
      if (option != "runs" && option != "hardware" && option != "json")
        throw Error(ErrorKind::usage, text("--", option, " beside --runs"),
                    "the runs have models and plans of their own");
    }
    return command;
  }
  command.explains = given("explain");
  command.model = model_of(given);
  expect_whole(command.model);
  const scale::Plan plan = plan_of(given);
  command.best = static_cast<std::size_t>(count_of(given, "best", 10));
  if (given("search")) {
    (void)completed(command.model, command.hardware.hardware, plan);
    if (given("schedule"))
      throw Error(ErrorKind::usage, "--schedule beside --search", "a search takes 1f1b, or interleaved");
    command.search = space_of(command.model, command.hardware.hardware, plan,
                              {.tensor = given("tensor"),
                               .pipeline = given("pipeline"),
                               .virtual_stages = given("virtual-stages"),
                               .micro_batch = given("micro-batch"),
                               .zero = given("zero"),
                               .recompute = given("recompute"),
                               .sequence_parallel = given("sequence-parallel")});
    return command;
  }
  tool::refuse_ignored(values, {"best"}, "it counts the plans of --search");
  command.plan = completed(command.model, command.hardware.hardware, plan);
  expect_divides(command.model, command.hardware.hardware, command.plan);
  return command;
}

std::string scale_help() {
  std::ostringstream out;
  out << "weft-plan scale [options]\n\n"
         "What a training step of a transformer takes on many GPUs, part by part, and what of each GPU's "
         "memory:\n"
         "predicted from published constants and at most four numbers that are fitted to published runs\n"
         "(docs/scale.md).\n\n"
      << scale_description()
      << "\nExamples:\n"
         "  weft-plan scale --model gpt3-175b --gpus 1024 --tensor 8 --pipeline 8 --global-batch 1536 \\\n"
         "    --micro-batch 1 --recompute selective --sequence-parallel\n"
         "  weft-plan scale --model llama3.1-405b --hardware h100-sxm --gpus 16384 --tensor 8 --pipeline 16 "
         "--context 2 "
         "\\\n"
         "    --global-batch 2048 --zero 1 --sequence-parallel\n"
         "  weft-plan scale --model llama3.1-70b --hardware h100-sxm --gpus 512 --global-batch 512 "
         "--search\n\n"
         "Exit status: 0 done, 1 the plan does not fit the memory, or none does, 42 wrong usage or input, 70 "
         "a fault of the system.\n";
  return std::move(out).str();
}

}  // namespace weft::plan
