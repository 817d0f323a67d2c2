#include "bucket_profile.hpp"

#include <array>
#include <boost/json.hpp>

#include "core/files/json_node.hpp"
#include "weft/core/error.hpp"

namespace weft::plan {
namespace {

using detail::JsonNode;

// So many elements of 8 bytes in as many parameters as a file can name do not overflow.
constexpr std::int64_t most_elements = std::int64_t{1} << 36;

constexpr std::array gradient_types{DataType::f32, DataType::f64, DataType::f16, DataType::bf16};

DataType dtype_from(const JsonNode& node) {
  const std::string word = node.string();
  for (const DataType dtype : gradient_types) {
    if (word == name(dtype)) return dtype;
  }
  node.refuse(text("is \"", word, "\""), "it is one of f32, f64, f16, bf16");
}

BucketProfile profile_from(const JsonNode& buckets) {
  const JsonNode link = buckets.member("link");
  BackwardProfile backward{
      {}, {link.member("latency_seconds").not_negative(), link.member("bytes_per_second").positive()}};
  std::vector<ParamSpec> specs;
  buckets.member("parameters").each([&](const JsonNode& one) {
    specs.push_back({one.member("name").string(), one.member("count").integer(1, most_elements)});
    backward.ready_seconds.push_back(one.member("ready_seconds").not_negative());
  });
  return {ParamLayout(dtype_from(buckets.member("dtype")), std::move(specs)), std::move(backward)};
}

}  // namespace

BucketProfile parse_bucket_profile(std::string_view content, const std::string& file) {
  const std::string called = text("'", file, "'");
  boost::system::error_code error;
  const boost::json::value trace = boost::json::parse({content.data(), content.size()}, error);
  if (error) throw Error(ErrorKind::usage, text(called, " is no JSON: ", error.message()));
  const boost::json::object* other = nullptr;
  if (const auto* object = trace.if_object(); object != nullptr && object->contains("otherData"))
    other = object->at("otherData").if_object();
  if (other == nullptr || !other->contains("buckets")) {
    throw Error(ErrorKind::usage, text(called, " tells nothing of buckets"),
                "they are planned where no size is given and a thread carries communication "
                "(WEFT_PROGRESS=thread), after five steps");
  }
  return profile_from(JsonNode(called, trace).member("otherData").member("buckets"));
}

}  // namespace weft::plan
