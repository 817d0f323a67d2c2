#include "weft/core/trace.hpp"

#include <gtest/gtest.h>

#include "support/expect_error.hpp"

namespace weft {
namespace {

using std::chrono::microseconds;

TEST(Trace, WritesASpanPerTrackWithMicroseconds) {
  Trace trace(3);
  const Trace::Clock::time_point origin{};
  trace.span("wire", "all_reduce \"#1\"", origin + microseconds(10), origin + microseconds(12));
  trace.span("compute", "backward", origin, origin + microseconds(20));
  const std::string json = trace.json();
  EXPECT_NE(json.find(R"("name":"rank 3")"), std::string::npos);
  EXPECT_NE(json.find(R"("tid":0,"name":"all_reduce \"#1\"","ts":10.000,"dur":2.000)"), std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("tid":1,"name":"backward","ts":0.000,"dur":20.000)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("lost_spans":0)"), std::string::npos);
}

TEST(Trace, ANameThatIsNoUtf8IsStillJson) {
  Trace trace;
  trace.span("wire",
             "gr\xc3\xb6\xc3\x9f"
             "e \xf6\xff\xe2\x82",
             {}, {});
  EXPECT_NE(trace.json().find("\"name\":\"gr\xc3\xb6\xc3\x9f"
                              "e \\ufffd\\ufffd\\ufffd\\ufffd\""),
            std::string::npos)
      << trace.json();
}

TEST(Trace, FiguresStandBesideTheirSpan) {
  Trace trace;
  trace.span("wire", "all_reduce", {}, {}, {{"network_bytes", 4096}, {"segments", 2}});
  EXPECT_NE(trace.json().find(R"("dur":0.000,"args":{"network_bytes":4096,"segments":2}})"),
            std::string::npos)
      << trace.json();
}

TEST(Trace, CarriesWhatIsAttached) {
  Trace trace;
  trace.attach("buckets", "[1]");
  trace.attach("buckets", "[2]");
  EXPECT_NE(trace.json().find(R"("otherData":{"lost_spans":0,"buckets":[2]},"traceEvents")"),
            std::string::npos)
      << trace.json();
}

TEST(Trace, OverwritesTheOldestAndSaysHowMany) {
  Trace trace(0, 4);
  for (int i = 0; i < 10; ++i) trace.span("t", text("span", i), {}, {});
  EXPECT_EQ(trace.size(), 4U);
  EXPECT_EQ(trace.lost(), 6U);
  EXPECT_EQ(trace.json().find("span5"), std::string::npos);
  EXPECT_NE(trace.json().find("span9"), std::string::npos);
}

TEST(Trace, AFullDiskOrMissingFolderIsAnError) {
  const Trace trace;
  test::expect_error(ErrorKind::system, {"/no/such/folder/trace.json"},
                     [&] { trace.write("/no/such/folder/trace.json"); });
  test::expect_error(ErrorKind::system, {"/dev/full"}, [&] { trace.write("/dev/full"); });
}

}  // namespace
}  // namespace weft
