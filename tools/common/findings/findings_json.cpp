#include "common/findings/findings_json.hpp"

#include "core/base/strings.hpp"

namespace weft::report {

namespace json = boost::json;

json::value as_json_text(const std::string& raw) {
  return json::parse(detail::json_string(raw));
}

json::array as_json(const std::vector<Finding>& findings) {
  json::array all;
  for (const Finding& finding : findings) {
    json::array evidence;
    for (const Evidence& one : finding.evidence)
      evidence.push_back(
          {{"file", as_json_text(one.file)}, {"line", one.line}, {"text", as_json_text(one.text)}});
    json::object one{{"cause", finding.cause},
                     {"severity", std::string(name(finding.severity))},
                     {"confidence", finding.confidence},
                     {"evidence", std::move(evidence)},
                     {"fix", as_json_text(finding.fix)}};
    one["verdict"] = as_json_text(finding.verdict);
    if (!finding.effect.empty()) one["expected_effect"] = finding.effect;
    if (!finding.not_when.empty()) one["not_when"] = finding.not_when;
    if (!finding.versions.empty()) one["versions"] = finding.versions;
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace weft::report
