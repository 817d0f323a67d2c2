#include "output_files.hpp"

#include <algorithm>
#include <array>

#include "common/findings/markdown.hpp"
#include "common/findings/report_page.hpp"
#include "common/findings/sarif.hpp"
#include "weft/core/version.hpp"

namespace weft::report {
namespace {

namespace po = boost::program_options;

constexpr std::array names{"json", "sarif", "markdown", "html"};

}  // namespace

void add_output_options(po::options_description& description, const std::string& json) {
  const auto file = [] { return po::value<std::string>()->value_name("FILE"); };
  description.add_options()                                                                              //
      ("json", file(), ("write " + json + " to FILE, - for standard output").c_str())                    //
      ("sarif", file(), "write the findings to FILE as SARIF 2.1.0, which code hosts and editors show")  //
      ("markdown", file(), "write a page for an issue or a pull request to FILE")                        //
      ("html", file(), "write one page without scripts and other files to FILE");
}

OutputFiles output_files(const po::variables_map& values) {
  OutputFiles files;
  for (const std::string name : names) {
    if (values.count(name) != 0) files["--" + name] = values[name].as<std::string>();
  }
  return files;
}

bool is_output_option(const std::string& word) {
  return std::ranges::any_of(names, [&](const std::string name) { return word == "--" + name; });
}

void open(const OutputFiles& files, tool::Outputs& outputs) {
  for (const auto& [option, path] : files) outputs.open(option, path);
}

void write(tool::Outputs& outputs, Report report, const std::function<std::string()>& json,
           const std::function<void(Report&)>& as_page) {
  tool::Contents contents;
  if (outputs.has("--json")) contents["--json"] = json();
  if (outputs.has("--sarif")) contents["--sarif"] = to_sarif(report.findings, library_version());
  if (outputs.has("--markdown")) contents["--markdown"] = to_markdown(report);
  if (outputs.has("--html")) {
    if (as_page) as_page(report);
    contents["--html"] = to_html(report);
  }
  outputs.write(contents);
}

}  // namespace weft::report
