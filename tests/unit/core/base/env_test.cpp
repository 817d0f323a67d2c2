#include "weft/core/env.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "support/expect_error.hpp"

namespace weft {
namespace {

TEST(Environment, AnEmptyVariableCountsAsUnset) {
  const Environment environment(Environment::Values{{"WEFT_RANK", ""}});
  EXPECT_FALSE(environment.has(env::rank));
  EXPECT_FALSE(environment.integer(env::rank, 0, 10).has_value());
}

TEST(Environment, WithAValueIsAnotherOne) {
  const Environment environment(Environment::Values{{"WEFT_DEVICE", "cuda:1"}});
  EXPECT_EQ(environment.with(env::device, "host").value(env::device), "host");
  EXPECT_EQ(environment.with(env::rank, "3").value(env::device), "cuda:1");
  EXPECT_EQ(environment.value(env::device), "cuda:1");
}

TEST(Environment, DefaultsComeFromTheTable) {
  EXPECT_EQ(Environment().number(env::timeout), 600.0);
  EXPECT_EQ(Environment(Environment::Values{{"WEFT_TIMEOUT", "2.5"}}).seconds(env::timeout),
            std::chrono::milliseconds(2500));
  EXPECT_GT(Environment(Environment::Values{{"WEFT_TIMEOUT", "1e300"}}).seconds(env::timeout),
            std::chrono::hours(24 * 365));
}

TEST(Environment, BadValuesNameVariableValueAndWhatIsAllowed) {
  for (const char* bad : {"two", "3x", "-1", "11", "1.5"}) {
    test::expect_error(ErrorKind::usage, {"WEFT_RANK=", bad, "0 to 10"}, [&] {
      Environment(Environment::Values{{"WEFT_RANK", bad}}).integer(env::rank, 0, 10);
    });
  }
  for (const char* bad : {"soon", "-1", "nan", "inf", "1s"}) {
    test::expect_error(ErrorKind::usage, {"WEFT_TIMEOUT=", bad}, [&] {
      Environment(Environment::Values{{"WEFT_TIMEOUT", bad}}).number(env::timeout);
    });
  }
}

TEST(Environment, TheTableListsEveryVariableOnce) {
  std::set<std::string_view> names;
  for (const env::Variable* variable : env::variables()) {
    EXPECT_TRUE(names.insert(variable->name).second) << variable->name;
    EXPECT_FALSE(variable->meaning.empty()) << variable->name;
  }
}

TEST(Environment, TheDocumentIsPrintedFromTheTable) {
  std::ifstream file(WEFT_SOURCE_DIR "/docs/environment.md");
  std::stringstream written;
  written << file.rdbuf();
  EXPECT_EQ(written.str(), env::document()) << "run: weft-launch env --document > docs/environment.md";
}

}  // namespace
}  // namespace weft
