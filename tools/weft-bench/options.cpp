#include "options.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "common/command_line.hpp"
#include "weft/core/error.hpp"

namespace weft::bench {
namespace {

namespace po = boost::program_options;

po::options_description description() {
  po::options_description result("Options", 110);
  result.add_options()  //
      ("minbytes,b", po::value<std::string>()->value_name("SIZE"),
       "smallest buffer in total (8); K, M, G are powers of 1024")                                   //
      ("maxbytes,e", po::value<std::string>()->value_name("SIZE"), "largest buffer in total (64M)")  //
      ("stepfactor,f", po::value<double>()->value_name("F"),
       "each size is so many times the one before (2)")  //
      ("stepbytes,i", po::value<std::string>()->value_name("SIZE"),
       "instead: each size is so much larger than the one before")  //
      ("iters,n", po::value<int>()->value_name("N"),
       "samples of each row (20), each of as many operations as take 0.1 ms")              //
      ("warmup-iters,w", po::value<int>()->value_name("N"), "operations before that (5)")  //
      ("datatype,d", po::value<std::string>()->value_name("NAME"),
       "element type (float), weft's or nccl-tests' name, or all")  //
      ("op,o", po::value<std::string>()->value_name("NAME"),
       "reduction: sum, prod, max, min, avg (sum), or all of these; of integers also band, bor, bxor")  //
      ("root,r", po::value<int>()->value_name("RANK"), "root of broadcast and reduce (0)")              //
      ("in-place", "measure in place only")                                                             //
      ("private", "private buffers of each process, instead of the arena")                              //
      ("against", po::value<std::string>()->value_name("LIST"),
       "measure these too, taking turns: mpi (Open MPI's own collectives), bound (the same memory traffic "
       "with no protocol)")  //
      ("expect", po::value<double>()->value_name("RATIO"),
       "exit with 1 if the other's time is less than RATIO times weft's")  //
      ("tune", po::value<std::string>()->value_name("FILE"),
       "measure every algorithm between nodes, and write the table for WEFT_ALGORITHMS, which chooses by "
       "size; "
       "under mpirun write --tune=FILE, because --tune alone is an option of mpirun")    //
      ("explain", "print which algorithm each row would use, and why; measure nothing")  //
      ("format", po::value<std::string>()->value_name("NAME"),
       "nccl (as nccl-tests prints), osu (as OSU's benchmarks) or csv")  //
      ("json", po::value<std::string>()->value_name("FILE"),
       "write the figures to FILE, - for standard output")  //
      ("quiet,q", "no progress, and no lines that are not figures");
  tool::add_common(result);
  return result;
}

template <class T>
std::vector<T> every(int count) {
  std::vector<T> result;
  for (int i = 0; i < count; ++i) result.push_back(static_cast<T>(i));
  return result;
}

std::vector<Op> ops_named(const std::string& word) {
  if (word == "all") return every<Op>(static_cast<int>(operations().size()));
  return {op_named(word)};
}

Format format_named(const std::string& word) {
  if (word == "nccl") return Format::nccl;
  if (word == "osu") return Format::osu;
  if (word == "csv") return Format::csv;
  throw Error(ErrorKind::usage, text("--format '", word, "' is unknown"), "allowed are nccl, osu, csv");
}

std::vector<std::string> contestants(const std::string& list) {
  std::vector<std::string> names = tool::split(list);
  for (const std::string& name : names) {
    if (name != "mpi" && name != "bound")
      throw Error(ErrorKind::usage, text("--against '", name, "' is unknown"), "allowed are mpi and bound");
  }
  if (names.empty()) throw Error(ErrorKind::usage, "--against is empty", "allowed are mpi and bound");
  return names;
}

void check(const Options& options) {
  const auto refuse_unless = [](bool right, const std::string& problem) {
    if (!right) throw Error(ErrorKind::usage, problem);
  };
  const Sizes& sizes = options.sizes;
  refuse_unless(sizes.first <= sizes.last,
                text("--minbytes ", sizes.first, " is above --maxbytes ", sizes.last));
  refuse_unless(sizes.first > 0, "--minbytes 0 is not a number of 1 or more");
  refuse_unless(sizes.last <= std::size_t{1} << 40, text("--maxbytes ", sizes.last, " is above 1024 G"));
  refuse_unless(sizes.step > 0 || (sizes.factor > 1 && sizes.factor <= 1e6),
                text("--stepfactor ", sizes.factor, " is not a number above 1"));
  constexpr double most_sizes = 1e6;
  const double span = static_cast<double>(sizes.last) - static_cast<double>(sizes.first);
  const double count =
      1 + (sizes.step > 0 ? span / static_cast<double>(sizes.step)
                          : std::log1p(span / static_cast<double>(sizes.first)) / std::log(sizes.factor));
  refuse_unless(count <= most_sizes,
                sizes.step > 0
                    ? text("--stepbytes ", sizes.step, " makes ", count, " sizes, more than 1000000")
                    : text("--stepfactor ", sizes.factor, " makes ", count, " sizes, more than 1000000"));
  refuse_unless(options.effort.iterations >= 1 && options.effort.iterations <= 1'000'000,
                text("--iters ", options.effort.iterations, " is not a number from 1 to 1000000"));
  refuse_unless(options.effort.warmup >= 0 && options.effort.warmup <= 1'000'000,
                text("--warmup-iters ", options.effort.warmup, " is not a number from 0 to 1000000"));
  refuse_unless(!options.expect || (*options.expect > 0 && std::isfinite(*options.expect)),
                text("--expect ", options.expect.value_or(0), " is not a number above 0"));
  refuse_unless(!options.expect || !options.against.empty(),
                "--expect needs --against, which it is a ratio to");
  refuse_unless(!options.tune || options.against.empty(),
                "--tune measures algorithms against each other, and --against others: use one of them");
  refuse_unless(
      !options.tune || (options.dtypes.size() == 1 && options.redops.size() == 1 &&
                        options.redops.front() != ReduceOp::avg),
      "--tune measures one type and one operation that can be taken in any order, which avg is not");
  refuse_unless(!(options.tune || options.explain) || (!options.json && options.format == Format::nccl),
                "--json and --format are for measured rows, which --tune and --explain do not print");
  refuse_unless(!options.explain || options.against.empty(),
                "--explain measures nothing, and --against others: use one of them");
  refuse_unless(!options.tune || !options.explain, "--tune measures and --explain does not: use one of them");
}

bool has_one_size(const Sizes& sizes) {
  const auto first = static_cast<double>(sizes.first);
  return (sizes.step > 0 ? first + static_cast<double>(sizes.step) : first * sizes.factor) >
         static_cast<double>(sizes.last);
}

/// Options that the others leave nothing to do.
void check_effects(const po::variables_map& values, const Options& options, const std::string& collective) {
  const auto any = [&](auto is_one) { return std::ranges::any_of(options.ops, is_one); };
  if (!any(reduces)) tool::refuse_ignored(values, {"op"}, collective + " reduces nothing");
  if (!any(has_root)) tool::refuse_ignored(values, {"root"}, collective + " has no root");
  if (!any([](Op op) { return exists(op, true) && exists(op, false); }))
    tool::refuse_ignored(
        values, {"in-place"},
        text(collective, " is ", exists(options.ops.front(), true) ? "always" : "never", " in place"));
  if (options.sizes.step > 0) tool::refuse_ignored(values, {"stepfactor"}, "--stepbytes says how sizes grow");
  if (has_one_size(options.sizes))
    tool::refuse_ignored(
        values, {"stepfactor", "stepbytes"},
        text("there is one size from ", options.sizes.first, " to ", options.sizes.last, " bytes"));
  if (options.explain)
    tool::refuse_ignored(values, {"iters", "warmup-iters", "in-place", "private", "root", "quiet"},
                         "--explain measures nothing");
  if (options.tune)
    tool::refuse_ignored(values, {"in-place"}, "--tune measures in place wherever an operation is");
  if (options.format == Format::osu && !options.json && !options.expect)
    tool::refuse_ignored(values, {"against"},
                         "OSU's layout has one time in a row, and neither --json nor --expect is given");
}

}  // namespace

bool Options::compares_with(const std::string& name) const {
  return std::ranges::find(against, name) != against.end();
}

std::vector<Case> Options::tables(int rank, int ranks) const {
  std::vector<Case> result;
  for (const Op op : ops) {
    for (const DataType dtype : dtypes) {
      for (const ReduceOp redop : reduces(op) ? redops : std::vector{ReduceOp::sum}) {
        result.push_back(
            {.op = op, .dtype = dtype, .redop = redop, .root = root, .rank = rank, .ranks = ranks});
      }
    }
  }
  return result;
}

std::size_t Options::largest_bytes(int ranks) const {
  std::size_t largest = sizes.last;
  for (const Case& one : cases(sizes, {.op = Op::all_to_all, .dtype = DataType::f64, .ranks = ranks}))
    largest = std::max(largest, one.bytes());
  return largest;
}

std::size_t bytes_named(const std::string& option, const std::string& word) {
  std::istringstream in(word);
  double number = 0;
  std::string unit;
  in >> number >> unit;
  static const std::string units = "KMG";
  const auto place =
      unit.empty() ? 0 : units.find(unit.size() == 1 ? static_cast<char>(std::toupper(unit[0])) : ' ') + 1;
  const double bytes = number * std::pow(1024.0, static_cast<double>(place));
  if (word.empty() || (!unit.empty() && place == 0) || place > units.size() || !(number >= 0) ||
      !(bytes < 1e18)) {
    throw Error(ErrorKind::usage, text(option, " '", word, "' is not a size"),
                "sizes are such as 8, 64K, 1.5M, 2G");
  }
  return static_cast<std::size_t>(bytes);
}

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> rest = arguments;
  std::optional<std::string> collective;
  if (!rest.empty() && !rest.front().starts_with('-')) {
    collective = rest.front();
    rest.erase(rest.begin());
  }
  const po::variables_map values = tool::parse(rest, description(), "weft-bench --help");
  options.help = values.count("help") != 0;
  if (options.help) return options;
  if (!collective) {
    throw Error(ErrorKind::usage, "no collective is named",
                "the first argument is one, or all: weft-bench all_reduce");
  }
  options.ops = ops_named(*collective);
  const auto word = [&](const char* name) { return values[name].as<std::string>(); };
  const auto given = [&](const char* name) { return values.count(name) != 0; };
  if (given("minbytes")) options.sizes.first = bytes_named("--minbytes", word("minbytes"));
  if (given("maxbytes")) options.sizes.last = bytes_named("--maxbytes", word("maxbytes"));
  if (given("stepbytes")) options.sizes.step = bytes_named("--stepbytes", word("stepbytes"));
  if (given("stepfactor")) options.sizes.factor = values["stepfactor"].as<double>();
  if (given("iters")) options.effort.iterations = values["iters"].as<int>();
  if (given("warmup-iters")) options.effort.warmup = values["warmup-iters"].as<int>();
  if (given("datatype")) {
    options.dtypes = word("datatype") == "all" ? every<DataType>(1 + static_cast<int>(last_data_type))
                                               : std::vector{dtype_named(word("datatype"))};
  }
  if (given("op"))
    options.redops = word("op") == "all" ? every<ReduceOp>(5) : std::vector{redop_named(word("op"))};
  if (given("root")) options.root = values["root"].as<int>();
  options.out_of_place = !given("in-place");
  options.arena = !given("private");
  if (given("against")) options.against = contestants(word("against"));
  if (given("expect")) options.expect = values["expect"].as<double>();
  if (given("format")) options.format = format_named(word("format"));
  if (given("json")) options.json = word("json");
  if (given("tune")) options.tune = word("tune");
  options.explain = given("explain");
  options.quiet = given("quiet");
  check(options);
  check_effects(values, options, *collective);
  return options;
}

std::string help() {
  std::ostringstream out;
  out << "weft-bench COLLECTIVE [options]\n\n"
         "Measures a collective over the ranks that the launcher provides: ";
  for (const Operation& one : operations()) out << one.name << ", ";
  out << "or all.\n"
         "A row's time is the median over samples of the slowest rank; every row's results are checked.\n\n"
      << description()
      << "\nExamples:\n"
         "  mpirun -n 2 weft-bench all_reduce -b 8 -e 64M -f 2 --against mpi,bound\n"
         "  weft-launch -n 4 weft-bench all -d bf16 --format csv\n"
         "  mpirun -n 2 weft-bench all_reduce -b 16K --in-place --against mpi --expect 3\n"
         "  mpirun -n 4 --map-by ppr:1:node weft-bench all -e 16M -f 4 --tune=algorithms.txt\n"
         "  WEFT_ORDER=any mpirun -n 4 --map-by ppr:1:node weft-bench all_reduce --explain\n\n"
         "Exit status: 0 done, 1 wrong results or slower than --expect, 42 wrong usage, 75 a rank was lost "
         "or\n"
         "did not start, 70 a fault of the system, 130 and 143 ended by Ctrl-C and SIGTERM: the rows so far\n"
         "are written.\n";
  return std::move(out).str();
}

}  // namespace weft::bench
