// Lists, verifies, compares and exports checkpoints.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sstream>

#include "commands.hpp"
#include "common/command_line.hpp"
#include "common/outputs.hpp"
#include "core/base/strings.hpp"
#include "input.hpp"
#include "weft/checkpoint/checkpoint.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

namespace po = boost::program_options;
namespace json = boost::json;
using checkpoint::Checkpoint;
using detail::printable;

struct CheckpointCommand {
  std::string path;
  std::optional<std::string> other{};   // --diff
  std::optional<std::string> target{};  // --export
  std::optional<std::string> json{};
  bool verify = false;
  bool help = false;
};

/// A checkpoint as it is printed.
struct Row {
  Checkpoint checkpoint;
  std::vector<std::string> damaged;
};

po::options_description checkpoint_description() {
  po::options_description result("Options", 110);
  const auto word = [](const char* name) { return po::value<std::string>()->value_name(name); };
  result.add_options()                                                                               //
      ("verify", "compare every byte with its checksum")                                             //
      ("diff", word("OTHER"), "compare the values of all tensors with those of another checkpoint")  //
      ("export", word("FILE"),
       "write all tensors whole into one file in safetensors format, for other tools")  //
      ("json", word("FILE"), "write what is printed to FILE, - for standard output");
  tool::add_common(result);
  return result;
}

std::string checkpoint_help() {
  std::ostringstream out;
  out << "weft-plan checkpoint PATH [options]\n\n"
         "What is in a checkpoint, or in each one of a folder, however many ranks saved it. --diff and "
         "--export take the\n"
         "newest one of a folder.\n\n"
      << checkpoint_description()
      << "\nExamples:\n"
         "  weft-plan checkpoint checkpoints --verify\n"
         "  weft-plan checkpoint checkpoints/step-00000040 --diff checkpoints/step-00000048\n"
         "  weft-plan checkpoint checkpoints --export model.safetensors\n\n"
         "Exit status: 0 done and whole, 1 damaged or different, 42 wrong usage or input, 70 a fault of the "
         "system.\n";
  return std::move(out).str();
}

CheckpointCommand parse_checkpoint(const std::vector<std::string>& arguments) {
  CheckpointCommand command;
  std::vector<std::string> rest = arguments;
  if (!rest.empty() && !rest.front().starts_with('-')) {
    command.path = rest.front();
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, checkpoint_description(), "weft-plan checkpoint --help");
  const Given given(values);
  command.help = given("help");
  command.verify = given("verify");
  command.other = given.word("diff");
  command.target = given.word("export");
  command.json = given.word("json");
  if (!command.help && command.path.empty())
    throw Error(ErrorKind::usage, "no checkpoint is named",
                "weft-plan checkpoint FOLDER, or one checkpoint in it");
  return command;
}

bool is_one(const std::string& path) {
  return std::filesystem::exists(path + "/index.json");
}

/// The one that a path names: itself, or the newest in a folder.
Checkpoint one_at(const std::string& path) {
  if (is_one(path)) return Checkpoint(path);
  if (auto newest = Checkpoint::newest(path)) return *std::move(newest);
  throw Error(ErrorKind::usage, text(path, " is no checkpoint and has none in it"),
              "a Saver makes them: docs/checkpoints.md");
}

std::string shape_of(const checkpoint::TensorInfo& tensor) {
  std::string words;
  for (const std::int64_t size : tensor.shape) words += text(words.empty() ? "" : " x ", size);
  return words.empty() ? "1" : words;
}

std::string mebibytes(std::uint64_t bytes) {
  std::array<char, 64> words{};
  std::snprintf(words.data(), words.size(), "%.2f MiB", static_cast<double>(bytes) * 0x1p-20);
  return words.data();
}

void print_damaged(const Row& row, std::ostream& out) {
  for (const std::string& line : row.damaged) out << "DAMAGED " << printable(line) << '\n';
}

void print_folder(const std::vector<Row>& rows, std::ostream& out) {
  for (const Row& row : rows) {
    out << printable(row.checkpoint.path()) << "  " << row.checkpoint.tensors().size() << " tensors, "
        << mebibytes(row.checkpoint.bytes()) << '\n';
    print_damaged(row, out);
  }
}

void print_one(const Row& row, std::ostream& out) {
  const Checkpoint& one = row.checkpoint;
  out << printable(one.path()) << ": step " << one.step() << ", " << mebibytes(one.bytes()) << '\n';
  for (const auto& [name, value] : one.values())
    out << "  " << printable(name) << " = "
        << printable(std::visit([](const auto& held) { return text(held); }, value)) << '\n';
  for (const auto& [name, tensor] : one.tensors())
    out << "  " << printable(name) << "  " << tensor.dtype << "  " << shape_of(tensor) << "  in "
        << tensor.pieces << (tensor.pieces == 1 ? " piece\n" : " pieces\n");
  print_damaged(row, out);
}

/// Paths need not be UTF-8, and JSON is.
json::value json_text(const std::string& raw) {
  return json::parse(detail::json_string(raw));
}

json::object json_of(const Row& row, bool verified) {
  const Checkpoint& one = row.checkpoint;
  json::object values;
  for (const auto& [name, value] : one.values())
    values[name] = std::visit([](const auto& held) { return json::value(held); }, value);
  json::array tensors;
  for (const auto& [name, tensor] : one.tensors())
    tensors.push_back(json::object{{"name", name},
                                   {"dtype", weft::name(tensor.dtype)},
                                   {"shape", json::value_from(tensor.shape)},
                                   {"pieces", tensor.pieces}});
  json::object all{{"path", json_text(one.path())},
                   {"step", one.step()},
                   {"bytes", one.bytes()},
                   {"values", std::move(values)},
                   {"tensors", std::move(tensors)}};
  if (verified) {
    json::array& damaged = all["damaged"].emplace_array();
    for (const std::string& line : row.damaged) damaged.push_back(json_text(line));
  }
  return all;
}

std::vector<Row> rows_of(const CheckpointCommand& command) {
  std::vector<Row> rows;
  if (is_one(command.path)) {
    rows.push_back({Checkpoint(command.path), {}});
  } else {
    (void)one_at(command.path);  // there must be one
    for (const std::string& path : Checkpoint::all(command.path)) rows.push_back({Checkpoint(path), {}});
  }
  for (Row& row : rows) {
    if (command.verify) row.damaged = row.checkpoint.verify();
  }
  return rows;
}

}  // namespace

int run_checkpoint(const std::vector<std::string>& arguments) {
  const CheckpointCommand command = parse_checkpoint(arguments);
  if (command.help) {
    std::cout << checkpoint_help();
    return 0;
  }
  tool::Outputs outputs("weft-plan");
  outputs.open("--json", command.json);
  const std::vector<Row> rows = rows_of(command);
  std::ostream& out = outputs.people();
  is_one(command.path) ? print_one(rows.front(), out) : print_folder(rows, out);
  bool good = std::ranges::all_of(rows, [](const Row& row) { return row.damaged.empty(); });
  if (command.verify && good) out << "every byte has its checksum\n";

  json::object all;
  json::array& list = all.emplace("checkpoints", json::array()).first->value().as_array();
  for (const Row& row : rows) list.push_back(json_of(row, command.verify));
  if (command.other) {
    const Checkpoint first = one_at(command.path);
    const Checkpoint second = one_at(*command.other);
    const auto differences = first.differences(second);
    out << printable(first.path()) << " and " << printable(second.path())
        << (differences.empty() ? " are alike\n" : " differ:\n");
    json::array apart;
    for (const checkpoint::Difference& one : differences) {
      out << "  " << printable(one.name) << "  " << printable(one.what) << '\n';
      apart.push_back(json::object{{"name", one.name}, {"what", one.what}, {"elements", one.elements}});
    }
    all["differences"] = std::move(apart);
    good = good && differences.empty();
  }
  if (command.target) {
    one_at(command.path).export_whole(*command.target);
    out << printable(*command.target) << " has all tensors of " << printable(one_at(command.path).path())
        << '\n';
  }
  outputs.write({{"--json", json::serialize(all) + "\n"}});
  return good ? 0 : 1;
}

}  // namespace weft::plan
