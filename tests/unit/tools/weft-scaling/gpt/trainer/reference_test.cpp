// bench/reference.json describes the workloads that the programs have built in.

#include "weft-scaling/gpt/trainer/reference.hpp"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

namespace weft::examples {
namespace {

TEST(Reference, TheFileDescribesTheWorkloadsThatAreBuiltIn) {
  std::ifstream file(WEFT_SOURCE_DIR "/bench/reference.json");
  std::stringstream content;
  content << file.rdbuf();
  const boost::json::array models = boost::json::parse(content.str()).at("models").as_array();
  ASSERT_EQ(models.size(), 2U);
  for (const boost::json::value& model : models) {
    const ModelSpec& spec = model_spec(std::string_view(model.at("name").as_string()));
    const auto number = [&](const char* key) { return model.at(key).as_int64(); };
    EXPECT_EQ(spec.kind == ModelKind::gpt ? "gpt" : "mlp", model.at("kind").as_string());
    EXPECT_EQ(spec.layers, number("layers")) << spec.name;
    EXPECT_EQ(spec.width, number("width")) << spec.name;
    EXPECT_EQ(spec.heads, number("heads")) << spec.name;
    EXPECT_EQ(spec.context, number("context")) << spec.name;
    EXPECT_EQ(spec.sequences, number("sequences")) << spec.name;
  }
}

TEST(Reference, TheWorkloadsHaveTheSizesThatFiguresAreQuotedFor) {
  EXPECT_NEAR(static_cast<double>(total_count(make_model<float>("gpt-ref")->parameters())) * 4e-6, 36, 1);
  EXPECT_NEAR(static_cast<double>(total_count(make_model<float>("mlp-8x1024")->parameters())) * 4e-6, 33.6,
              0.1);
}

}  // namespace
}  // namespace weft::examples
