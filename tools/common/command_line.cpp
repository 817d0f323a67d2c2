#include "common/command_line.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>
#include <string_view>

#include "common/late_warnings.hpp"
#include "core/base/strings.hpp"
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

/// The status, after one line for people where there was an error.
int status_of(const char* name, const std::vector<std::string>& arguments,
              const std::function<int(const std::vector<std::string>&)>& body) {
  try {
    const int status = run_or_version(name, arguments, body);
    flush_output();
    return status;
  } catch (const Error& error) {
    std::string_view line = error.what();
    if (line.starts_with("weft: ")) line.remove_prefix(6);  // one name at the start of the line is enough
    std::cerr << text(name, ": ", line, "\n") << std::flush;
    return exit_code(error.kind());
  } catch (const std::bad_alloc&) {
    std::cerr << text(name,
                      ": there is no memory for what is asked for; see `ulimit -v`, the limit of the "
                      "container, and how large its input is\n")
              << std::flush;
    return exit_code(ErrorKind::system);
  } catch (const std::exception& error) {
    std::cerr << text(name, ": ", message_of(error), "\n") << std::flush;
    return exit_code(error);
  }
}

/// An option that there is not, and the one that was meant where one is near.
Error unknown_option(const po::unknown_option& error, const po::options_description& description,
                     const std::string& help) {
  const std::string given = error.get_option_name();
  std::vector<std::string> names;
  for (const auto& option : description.options()) {
    if (!option->long_name().empty()) names.push_back("--" + option->long_name());
  }
  const auto near = detail::nearest_name(names, given);
  return {ErrorKind::usage, message_of(error),
          near ? text("did you mean ", *near, "? ", help, " shows what there is")
               : text(help, " shows what there is")};
}

/// A file that grows beyond `ulimit -f` is an error (EFBIG) of who writes it, which names it. A handler, and not SIG_IGN: programs that this one
/// starts have what they would have without it.
void take_file_limit_as_error() {
  struct sigaction action {};
  if (sigaction(SIGXFSZ, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  (void)sigaction(SIGXFSZ, &action, nullptr);
}

/// A name of a file that is empty is no file: what made it, such as a variable that is not set, has gone wrong.
void refuse_empty_names(const po::parsed_options& parsed, const po::options_description& description) {
  constexpr std::array<std::string_view, 5> files{"FILE", "PATH", "FOLDER", "DIR", "OTHER"};
  for (const auto& given : parsed.options) {
    if (given.string_key.empty() || given.unregistered) continue;
    const auto* const option = description.find_nothrow(given.string_key, false);
    if (option == nullptr || std::ranges::find(files, option->format_parameter()) == files.end()) continue;
    if (std::ranges::any_of(given.value, &std::string::empty))
      throw Error(ErrorKind::usage, text("--", option->long_name(), " names no file: its value is empty"),
                  "see whether a variable in the command is not set");
  }
}

}  // namespace

int run_program(const char* name, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& body) {
  delay_warnings();
  take_file_limit_as_error();
  const int status = status_of(name, {argv + 1, argv + argc}, body);
  print_warnings();
  return status;
}

void add_common(po::options_description& description) {
  description.add_options()("help,h", "this text")("version", "the version, and what weft was built with");
}

po::variables_map parse(const std::vector<std::string>& arguments, const po::options_description& description,
                        const std::string& help) {
  try {
    po::variables_map values;
    constexpr int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed =
        po::command_line_parser(arguments).options(description).positional({}).style(style).run();
    refuse_empty_names(parsed, description);
    po::store(parsed, values);
    po::notify(values);
    if (values.count("version") != 0) throw VersionAsked();
    return values;
  } catch (const po::unknown_option& error) {
    throw unknown_option(error, description, help);
  } catch (const po::error& error) {
    throw Error(ErrorKind::usage, message_of(error), text(help, " shows what there is"));
  }
}

std::vector<std::string> take_files(std::vector<std::string>& arguments,
                                    const std::function<bool(const std::string& option)>& takes_value) {
  std::vector<std::string> files;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool is_option = word.starts_with('-') && word != "-";
    if (word.empty())
      throw Error(ErrorKind::usage, "a file's name is empty", "see whether a variable is not set");
    (is_option ? rest : files).push_back(word);
    if (is_option && takes_value(word) && i + 1 < arguments.size()) rest.push_back(arguments[++i]);
  }
  arguments = std::move(rest);
  return files;
}

void refuse_ignored(const po::variables_map& values, std::initializer_list<const char*> options,
                    const std::string& why) {
  for (const char* option : options) {
    if (values.count(option) != 0)
      throw Error(ErrorKind::usage, text("--", option, " has no effect: ", why), "leave it out");
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
