#include "common/command_line.hpp"

#include <cerrno>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "weft/core/error.hpp"
#include "weft/core/version.hpp"

namespace weft::tool {

namespace po = boost::program_options;

namespace {

/// Thrown by parse(), which does not know the program's name. Not an Error: nothing is wrong.
struct VersionAsked {};

/// @throws Error (system) if anything that the program has printed did not get out
void flush_output() {
  errno = 0;
  std::cout.flush();
  if (std::cout) return;
  if (errno != 0) throw system_error("cannot write to standard output");
  throw Error(
      ErrorKind::system, "cannot write to standard output: not all of it was taken",
      "see whether it is closed, or its disk full");  // an earlier write failed, and its errno is gone
}

int print_version(const char* name) {
  std::cout << text(name, ' ', library_version(), '\n', built_with(), '\n');
  return 0;
}

int run_or_version(const char* name, const std::vector<std::string>& arguments,
                   const std::function<int(const std::vector<std::string>&)>& body) {
  try {
    if (!arguments.empty() && arguments.front() == "--version") throw VersionAsked();
    return body(arguments);
  } catch (const VersionAsked&) {
    return print_version(name);
  }
}

}  // namespace

int run_program(const char* name, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& body) {
  try {
    const std::vector<std::string> arguments{argv + 1, argv + argc};
    const int status = run_or_version(name, arguments, body);
    flush_output();
    return status;
  } catch (const Error& error) {
    std::string_view line = error.what();
    if (line.starts_with("weft: ")) line.remove_prefix(6);  // one name at the start of the line is enough
    std::cerr << text(name, ": ", line, "\n") << std::flush;
    return exit_code(error.kind());
  } catch (const std::exception& error) {
    std::cerr << text(name, ": ", error.what(), "\n") << std::flush;
    return exit_code(ErrorKind::system);
  }
}

void add_common(po::options_description& description) {
  description.add_options()("help,h", "this text")("version", "the version, and what weft was built with");
}

po::variables_map parse(const std::vector<std::string>& arguments, const po::options_description& description,
                        const std::string& help) {
  try {
    po::variables_map values;
    constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(description).positional({}).style(style).run(),
              values);
    po::notify(values);
    if (values.count("version") != 0) throw VersionAsked();
    return values;
  } catch (const po::error& error) {
    throw Error(ErrorKind::usage, error.what(), text(help, " shows what there is"));
  }
}

void write(const std::string& path, const std::string& content) {
  if (path == "-") {
    std::cout << content;
    return flush_output();
  }
  std::ofstream file(path);
  file << content;
  file.close();
  if (!file) throw system_error(text("cannot write ", path));
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream in(list);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace weft::tool
