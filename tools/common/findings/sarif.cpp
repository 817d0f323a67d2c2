#include "common/findings/sarif.hpp"

#include <algorithm>
#include <boost/json.hpp>

#include "common/findings/markdown.hpp"
#include "common/findings/report.hpp"
#include "weft/core/text.hpp"

namespace weft::report {
namespace {

namespace json = boost::json;

constexpr const char* schema = "https://json.schemastore.org/sarif-2.1.0.json";

const char* sarif_level(Severity severity) {
  return severity == Severity::critical ? "error" : severity == Severity::warning ? "warning" : "note";
}

/// A path as a reference of RFC 3986: what is not unreserved, and no slash, is in hexadecimal.
std::string uri_of(std::string_view path) {
  constexpr std::string_view safe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (safe.find(c) != std::string_view::npos) {
      uri += c;
    } else {
      uri += {'%', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return uri;
}

json::object message(std::string_view words) {
  return {{"text", clean(words)}};
}

json::object location_of(const Evidence& one) {
  json::object physical{{"artifactLocation", {{"uri", uri_of(one.file)}}}};
  if (one.line > 0) physical["region"] = {{"startLine", one.line}, {"snippet", message(one.text)}};
  return {{"physicalLocation", std::move(physical)}, {"message", message(one.text)}};
}

/// "gdr-disabled" as "GdrDisabled", the form that the standard asks of names.
std::string pascal(std::string_view cause) {
  std::string name;
  bool upper = true;
  for (const char c : cause) {
    if (c == '-') {
      upper = true;
    } else {
      name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
      upper = false;
    }
  }
  return name;
}

json::object rule_of(const Finding& one) {
  std::string plain = text("To do: ", clean(one.fix), ".");
  std::string marked = text("**To do:** ", markdown_text(one.fix), ".");
  const auto add = [&](std::string_view label, const std::string& words) {
    if (words.empty()) return;
    plain += text(' ', label, ' ', clean(words), '.');
    marked += text("\n\n**", label, "** ", markdown_text(words), '.');
  };
  add("Expected effect:", one.effect);
  add("Does not apply when", one.not_when);
  add("Applies to NCCL", one.versions);
  return {{"id", one.cause},
          {"name", pascal(one.cause)},
          {"shortDescription", message(one.cause)},
          {"fullDescription", message(one.verdict)},
          {"help", {{"text", plain}, {"markdown", marked}}},
          {"defaultConfiguration", {{"level", sarif_level(one.severity)}}}};
}

json::object result_of(const Finding& one, std::size_t rule) {
  json::object result{{"ruleId", one.cause},
                      {"ruleIndex", rule},
                      {"level", sarif_level(one.severity)},
                      {"rank", one.confidence * 100},
                      {"message", message(text(one.verdict, ". To do: ", one.fix, "."))}};
  json::array first;
  json::array others;
  for (const Evidence& evidence : one.evidence) {
    if (first.empty()) {
      first.push_back(location_of(evidence));
      continue;
    }
    json::object location = location_of(evidence);
    location["id"] = others.size() + 1;
    others.push_back(std::move(location));
  }
  result["locations"] = std::move(first);
  if (!others.empty()) result["relatedLocations"] = std::move(others);
  return result;
}

}  // namespace

std::string to_sarif(const std::vector<Finding>& findings, const std::string& version) {
  json::array rules;
  json::array results;
  std::vector<std::string> causes;  // a cause may have several findings, and has one rule
  for (const Finding& one : findings) {
    const auto known = std::ranges::find(causes, one.cause);
    const auto index = static_cast<std::size_t>(known - causes.begin());
    if (known == causes.end()) {
      causes.push_back(one.cause);
      rules.push_back(rule_of(one));
    }
    results.push_back(result_of(one, index));
  }
  json::object driver{{"name", "weft-report"}, {"version", version}, {"rules", std::move(rules)}};
  json::object run{{"tool", {{"driver", std::move(driver)}}},
                   {"columnKind", "utf16CodeUnits"},
                   {"results", std::move(results)}};
  return json::serialize(
             json::object{{"$schema", schema}, {"version", "2.1.0"}, {"runs", json::array{std::move(run)}}}) +
         "\n";
}

}  // namespace weft::report
