#pragma once
// Common to all programs of weft: parse options, print one line on an error, and return the documented exit
// status.

#include <boost/program_options.hpp>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace weft::tool {

/// Runs `body` with the arguments after the program's name. An Error becomes one line on standard error,
/// "NAME: problem; advice", and the exit status of its kind; anything else status 70, and so is what did not get out
/// to standard output. --version as the first argument, or where parse() meets it, prints version and what weft was built with.
/// Warnings come after the error.
int run_program(const char* name, int argc, char** argv,
                const std::function<int(const std::vector<std::string>&)>& body);

/// Adds --help and --version, which every program and every command of one has.
void add_common(boost::program_options::options_description& description);

/// Abbreviated options are not accepted, and words that are not options are refused. --version ends the program here: run_program() prints it.
/// @throws Error (usage) naming the option, its value and `help`, the command that lists what there is
boost::program_options::variables_map parse(const std::vector<std::string>& arguments,
                                            const boost::program_options::options_description& description,
                                            const std::string& help);

/// Takes the words that are no options, - among them, out of the arguments.
/// @param takes_value whether the word after this option is its value
std::vector<std::string> take_files(std::vector<std::string>& arguments,
                                    const std::function<bool(const std::string& option)>& takes_value);

/// Refuses those of the options that were given, where the caller knows that they would change nothing.
/// @param why completes "--op has no effect: ". @throws Error (usage)
void refuse_ignored(const boost::program_options::variables_map& values,
                    std::initializer_list<const char*> options, const std::string& why);

/// @param path a file, or - for standard output. @throws Error (system) when it cannot be written
void write(const std::string& path, const std::string& content);

/// Splits "a,b" into its parts.
std::vector<std::string> split(const std::string& list);

}  // namespace weft::tool
