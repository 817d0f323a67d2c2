#include "weft-report/documents/documents.hpp"

#include <algorithm>
#include <iterator>

#include "weft-report/bandwidth/results_json.hpp"
#include "weft-report/documents/start.hpp"
#include "weft-report/torch_records/dump.hpp"
#include "weft/core/error.hpp"

namespace weft::report::documents {
namespace {

/// A tree of XML takes some 20 times the memory of its text. NCCL's largest ones, of a rack of 72 GPUs, have 1 MB.
constexpr std::size_t most_xml = std::size_t{16} << 20;

/// With the time of each iteration nccl-tests writes some kilobytes a row.
constexpr std::size_t most_results = std::size_t{16} << 20;
/// A dump of 20,000 entries has some 10 MB. The values of a file that is made to be costly take 70 times its bytes.
constexpr std::size_t most_torch_record = std::size_t{32} << 20;

constexpr Kind kind_table[] = {
    {"a topology of NCCL", most_xml, [](std::string_view start) { return xml_root(start) == "system"; },
     [](std::string_view content, const std::string& file, Facts& into) {
       std::ranges::move(topology::read_system(content, file), std::back_inserter(into.hosts));
     }},
    {"a graph of NCCL", most_xml, [](std::string_view start) { return xml_root(start) == "graphs"; },
     [](std::string_view content, const std::string& file, Facts& into) {
       std::ranges::move(topology::read_graphs(content, file), std::back_inserter(into.graphs));
     }},
    {"a result of a benchmark", most_results,
     [](std::string_view start) { return opens_json(start) && bandwidth::opens_results(start); },
     [](std::string_view content, const std::string& file, Facts& into) {
       std::ranges::move(bandwidth::read_results(content, file), std::back_inserter(into.tables));
     }},
    {"a flight record of PyTorch", most_torch_record, torch_records::is_dump,
     [](std::string_view content, const std::string& file, Facts& into) {
       torch_records::add_record(into.torch_records,
                                 torch_records::flight_of(torch_records::parse_dump(content, file)));
     }},
};

}  // namespace

const Kind* kind_of(std::string_view start) {
  const auto found = std::ranges::find_if(kind_table, [&](const Kind& kind) { return kind.is(start); });
  return found == std::end(kind_table) ? nullptr : &*found;
}

std::string read(const Kind& kind, std::string_view content, const std::string& file, Facts& into) {
  if (content.size() > kind.most)
    return text("is ", kind.name, " of more than ", kind.most >> 20, " MiB, and was not read");
  try {
    kind.read(content, file, into);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::usage) throw;
    return text("is ", kind.name, " that cannot be read: ", error.problem());
  }
  ++into.taken;
  return {};
}

}  // namespace weft::report::documents
