#include "common/command_line.hpp"

#include <fstream>
#include <iostream>
#include <sstream>
#include <string_view>

#include "weft/core/error.hpp"

namespace weft::tool {

namespace po = boost::program_options;

int run_program(const char* name, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& body) {
  try {
    return body({argv + 1, argv + argc});
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

po::variables_map parse(const std::vector<std::string>& arguments, const po::options_description& description,
                        const std::string& help) {
  try {
    po::variables_map values;
    constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::store(po::command_line_parser(arguments).options(description).positional({}).style(style).run(),
              values);
    po::notify(values);
    return values;
  } catch (const po::error& error) {
    throw Error(ErrorKind::usage, error.what(), text(help, " shows what there is"));
  }
}

void write(const std::string& path, const std::string& content) {
  if (path == "-") {
    std::cout << content << std::flush;
    if (!std::cout) throw system_error("cannot write to standard output");
    return;
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
