// What the page says, and that it says nothing of what was not measured.

#include "weft-scaling/pages/scaling_page.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "common/page/curves.hpp"
#include "common/page/markup.hpp"
#include "weft-scaling/pages/scaling_charts.hpp"
#include "weft/core/error.hpp"

namespace weft::report {
namespace {

ScalingPage measured() {
  ScalingPage page{.title = "gpt-ref, 4 ranks, host (shared memory)",
                   .facts = {{"command", "weft-scaling --text 'a<b'"}},
                   .strategies = {},
                   .timeline = {},
                   .scaling = {},
                   .comparison = std::nullopt};
  page.strategies.push_back({.name = "nocomm",
                             .step_seconds = 0.2588,
                             .p99_seconds = 0.27,
                             .tokens_per_second = 7913,
                             .efficiency_vs_nocomm = 1,
                             .efficiency_vs_single = 0.87,
                             .compute_seconds = 0.2588,
                             .slowest_rank = std::nullopt,
                             .samples = std::vector<double>(20, 0.2588)});
  page.strategies.push_back({.name = "ddp",
                             .step_seconds = 0.263,
                             .p99_seconds = 0.281,
                             .tokens_per_second = 7785,
                             .efficiency_vs_nocomm = 0.984,
                             .efficiency_vs_single = 0.857,
                             .compute_seconds = 0.2618,
                             .exposed_seconds = 0.0012,
                             .slowest_rank = std::nullopt,
                             .wire_bytes = 54e6,
                             .peak_bytes = 183e6,
                             .first_loss = 5.611,
                             .last_loss = 3.104,
                             .samples = std::vector<double>(20, 0.263),
                             .curve = {{0, 5.611}, {20, 3.62}, {40, 3.104}}});
  return page;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Spaces that do not break are spaces to who reads.
std::string plain(std::string text) {
  for (auto at = text.find("\u00a0"); at != std::string::npos; at = text.find("\u00a0"))
    text.replace(at, 2, " ");
  return text;
}

TEST(ScalingPage, TheVerdictIsOneSentence) {
  ScalingPage page = measured();
  EXPECT_EQ(plain(verdict(page)),
            "ddp reaches 98.4 % of the speed without communication (nocomm); 1.20 ms of a 263 ms step are "
            "exposed.");
  page.strategies[1].slowest_seconds = 0.0008;
  page.strategies[1].slowest_rank = 1;
  EXPECT_EQ(plain(verdict(page)),
            "ddp reaches 98.4 % of the speed without communication (nocomm); 1.20 ms of a 263 ms step are "
            "exposed; most of the waiting is for "
            "rank 1.");
  page.strategies[1].slowest_seconds = 0.0003;
  EXPECT_TRUE(has(plain(verdict(page)), "; 300 µs of the waiting is for rank 1."));
  page.strategies.pop_back();
  EXPECT_EQ(plain(verdict(page)), "nocomm takes 259 ms a step.");
}

TEST(ScalingPage, TheVerdictIsOfTheFastestThatCommunicates) {
  ScalingPage page = measured();
  page.strategies.push_back(page.strategies[1]);
  page.strategies[2].name = "zero1";
  page.strategies[2].tokens_per_second = 7800;
  EXPECT_TRUE(verdict(page).starts_with("zero1 reaches"));
}

TEST(ScalingPage, TheVerdictSaysWhatChanged) {
  ScalingPage page = measured();
  const auto against = [&](double before) {
    page.comparison = compare("monday.json", {{"ddp", std::vector<double>(20, before)}},
                              {{"ddp", page.strategies[1].samples}});
    return plain(verdict(page));
  };
  EXPECT_TRUE(has(against(0.2733), "; a step is 3.8 % shorter than in the earlier run.")) << verdict(page);
  EXPECT_TRUE(has(against(0.2505), "; a step is 5.0 % longer than in the earlier run.")) << verdict(page);
  page.comparison->rows.push_back({.strategy = "nocomm", .verdict = Verdict::worse});
  EXPECT_TRUE(has(plain(verdict(page)), " than in the earlier run, but nocomm changed too."))
      << verdict(page);
  EXPECT_TRUE(has(against(0.2625), "; no change since the earlier run.")) << verdict(page);
}

TEST(ScalingPage, ASweepIsSummedUpByItsMostRanks) {
  const ScalingPage page{.title = "t",
                         .facts = {},
                         .strategies = {},
                         .timeline = {},
                         .scaling = {{"weak", 1, 1, 0.2, 1000},
                                     {"weak", 4, 0.97, 0.2, 3880},
                                     {"strong", 1, 1, 0.2, 1000},
                                     {"strong", 4, 0.912, 0.05, 3600}},
                         .comparison = std::nullopt};
  EXPECT_EQ(plain(verdict(page)),
            "ddp: weak scaling keeps 97.0 % on 4 ranks; strong scaling keeps 91.2 % on 4 ranks.");
  const std::string html = to_html(page);
  EXPECT_TRUE(has(html, "<h2>Scaling</h2>"));
  EXPECT_TRUE(has(html, "class=\"ideal\""));
  EXPECT_FALSE(has(html, "<h2>Figures</h2>"));
  EXPECT_FALSE(has(html, "<h2>Efficiency</h2>"));
}

TEST(ScalingPage, WhatWasNotMeasuredIsNotShown) {
  const std::string before = to_html(measured());
  for (const char* heading : {"How communication overlaps", "<h2>Scaling", "Against the earlier run"})
    EXPECT_FALSE(has(before, heading)) << heading;
  for (const char* words : {"wire busy", "link is busy", "link busy ms", "slowest rank to come"})
    EXPECT_FALSE(has(before, words)) << words;

  ScalingPage page = measured();
  page.strategies[1].overlapped_seconds = 0.08;
  page.strategies[1].compute_seconds -= 0.08;
  page.strategies[1].link_busy_seconds = 0.0812;
  page.strategies[1].slowest_seconds = 0.0008;
  page.strategies[1].slowest_rank = 1;
  page.timeline = {{0, "compute", "forward", 0, 0.1}, {0, "wire", "bucket 0", 0.05, 0.15}};
  page.comparison = compare("monday.json", {{"ddp", page.strategies[1].samples}},
                            {{"ddp", page.strategies[1].samples}, {"nocomm", page.strategies[0].samples}});
  const std::string after = plain(to_html(page));
  for (const char* words :
       {"How communication overlaps", "Against the earlier run", "computing, wire busy 80.0 ms (30.4 %)",
        "link is busy for 81.2 ms", "link busy ms",
        "800 µs is for the slowest rank to come, most often rank 1", "nocomm: not in the earlier run"})
    EXPECT_TRUE(has(after, words)) << words;
}

TEST(ScalingPage, TheLastStepStandsBesideTheMedianStepOfTheVerdict) {
  ScalingPage page = measured();
  page.strategies[1].exposed_seconds = 0.0335;
  page.timeline = {{0, "compute", "forward", 0, 0.1}, {0, "waiting", "bucket 0", 0.1, 0.1000313}};
  page.timeline_of = page.strategies[1].name;
  const std::string html = plain(to_html(page));
  EXPECT_TRUE(has(verdict(page), duration(0.0335)));
  EXPECT_TRUE(has(html, "last step of ddp"));
  EXPECT_TRUE(has(html, "rank 0, last step"));
  EXPECT_TRUE(
      has(html, plain("<th scope=\"row\" class=\"words\">median step, mean over ranks</th><td>" +
                      duration(page.strategies[1].compute_seconds + page.strategies[1].overlapped_seconds) +
                      "</td><td>" + duration(0.0335) + "</td>")));
  page.timeline_of.clear();
  EXPECT_FALSE(has(plain(to_html(page)), ">median step, mean over ranks"));
}

TEST(ScalingPage, IsSelfContainedAndReadableWithoutEyesOrColours) {
  ScalingPage page = measured();
  page.timeline = {{0, "compute", "forward", 0, 0.1}, {0, "waiting", "bucket 0", 0.1, 0.15}};
  const std::string html = to_html(page);
  for (const char* outside : {"<script", "<link", "@import", "http://", "https://", "src=", "<img", "href"})
    EXPECT_FALSE(has(html, outside)) << outside;
  EXPECT_TRUE(has(html, "default-src 'none'"));
  EXPECT_TRUE(has(html, "prefers-color-scheme: dark"));
  EXPECT_TRUE(has(html, "@media print"));
  // Every drawing but the hatching's own is named and described.
  EXPECT_GT(count(html, "<svg role=\"img\""), 4u);
  EXPECT_EQ(count(html, "<svg"), count(html, "<svg role=\"img\"") + 1);
  EXPECT_EQ(count(html, "<desc>"), count(html, "<svg role=\"img\""));
  EXPECT_EQ(count(html, "<section>"), count(html, "</section>"));
  EXPECT_EQ(count(html, "<svg"), count(html, "</svg>"));
  EXPECT_EQ(count(html, "<table"), count(html, "</table>"));
  EXPECT_EQ(count(html, "<div"), count(html, "</div>"));
}

TEST(ScalingPage, EveryWordIsEscaped) {
  const std::string evil = "<b>&\"'";
  ScalingPage page = measured();
  page.title = evil;
  page.facts = {{evil, evil}};
  page.strategies[1].name = evil;
  page.timeline = {{0, evil, evil, 0, 0.1}, {0, "compute", evil, 0, 0.1}};
  page.scaling = {{evil, 2, 1, 0.1, 10}};
  page.comparison = compare(evil, {{evil, page.strategies[1].samples}, {evil + "1", {}}},
                            {{evil, page.strategies[1].samples}, {evil + "2", {}}});
  const std::string html = to_html(page);
  EXPECT_FALSE(has(html, "<b>"));
  EXPECT_GT(count(html, "&lt;b&gt;&amp;&quot;&#39;"), 20u);
}

TEST(ScalingPage, OddFiguresBreakNothing) {
  ScalingPage page = measured();
  page.strategies[0] = {};
  page.strategies[1].samples = {0.2};
  page.strategies[1].p99_seconds = std::nan("");
  page.strategies[1].efficiency_vs_nocomm = HUGE_VAL;
  page.scaling = {{"weak", 3, 1.2, 0, 0}};
  page.timeline = {{0, "compute", "forward", 0, 0}, {1, "wire", "b", 0.2, 0.1}};
  for (const std::string& html : {to_html(page), to_html({})}) {
    EXPECT_FALSE(has(html, "\"nan") || has(html, "\"inf") || has(html, "\"-nan"));
    EXPECT_TRUE(has(html, "</html>"));
  }
  EXPECT_TRUE(has(to_html({}), "Nothing was measured."));
}

TEST(ScalingPage, AnOutlierIsCountedAndDoesNotPressTheOthersTogether) {
  ScalingPage page = measured();
  for (std::size_t i = 0; i < 20; ++i) page.strategies[1].samples[i] = 0.26 + 0.0005 * static_cast<double>(i);
  page.strategies[1].samples[7] = 5;
  const std::string html = plain(step_times(page.strategies));
  EXPECT_TRUE(has(html, "1 beyond, up to 5.00 s"));
  EXPECT_FALSE(has(html, ">1000 ms<"));
}

/// ddp and the same with a code that loses one per cent.
std::vector<ScalingPage::Strategy> learned() {
  std::vector<ScalingPage::Strategy> strategies{measured().strategies[1], measured().strategies[1]};
  strategies[1].name = "ddp+powersgd:4";
  strategies[1].compressed = true;
  for (auto& [step, held_out] : strategies[1].curve)
    if (step > 0) held_out *= 1.01;
  return strategies;
}

TEST(LossCurves, EveryStrategyHasALineALabelAndItsFigures) {
  const std::string html = plain(loss_curves({learned()[0]}));
  EXPECT_EQ(count(html, "class=\"curve hue-0 dash-0\""), 2u);  // of three points
  EXPECT_EQ(count(html, "class=\"lead "), 1u);
  EXPECT_TRUE(has(html, ">ddp 3.104</div>")) << html;
  EXPECT_TRUE(has(html, "<desc>ddp 3.104</desc>")) << html;
  EXPECT_TRUE(has(html, "class=\"words\">20</th><td>3.6200</td>")) << html;
  EXPECT_FALSE(has(html, "Difference to"));  // there is nothing it could differ from
}

TEST(LossCurves, WhatIsAboveAndBelowTheFirstWithoutCompressionIsDrawn) {
  std::vector<ScalingPage::Strategy> strategies = learned();
  const std::string html = plain(loss_curves(strategies));
  EXPECT_EQ(count(html, "class=\"curve hue-1 dash-1\""), 4u);  // in both drawings
  EXPECT_TRUE(has(html, "<title>Difference to ddp</title><desc>ddp+powersgd:4 +1.00 %</desc>")) << html;
  EXPECT_TRUE(has(html, ">ddp+powersgd:4 +1.00 %</div>")) << html;
  EXPECT_TRUE(has(html, "ddp+powersgd:4, against ddp</th>")) << html;
  EXPECT_TRUE(has(html, "<td>5.6110</td><td>5.6110</td><td>0.00 %</td>")) << html;

  // Neither who sends nothing nor who sends less is what others are held against.
  std::swap(strategies[0], strategies[1]);
  strategies.insert(strategies.begin(), strategies[1]);
  strategies.front().name = "nocomm";
  EXPECT_EQ(count(loss_curves(strategies), "<title>Difference to ddp</title>"), 1u);
  strategies.pop_back();
  EXPECT_FALSE(has(loss_curves(strategies), "Difference to"));
}

TEST(LossCurves, WhatHasNoTwoPointsIsNotDrawn) {
  std::vector<ScalingPage::Strategy> strategies = learned();
  strategies[0].curve.resize(1);
  const std::string html = loss_curves(strategies);
  EXPECT_TRUE(has(html, "ddp+powersgd:4 "));
  EXPECT_FALSE(has(html, ">ddp</th>") || has(html, "Difference to")) << html;
  strategies[1].curve.clear();
  EXPECT_EQ(loss_curves(strategies), "");
  EXPECT_EQ(loss_curves({}), "");
  ScalingPage page = measured();
  EXPECT_TRUE(has(to_html(page), "<h2>Held-out loss</h2>"));
  page.strategies[1].curve.resize(1);
  EXPECT_FALSE(has(to_html(page), "<h2>Held-out loss</h2>"));
}

TEST(LossCurves, ALossThatExplodesIsSaidAndDoesNotPressTheOthersTogether) {
  std::vector<ScalingPage::Strategy> strategies = learned();
  const std::string before = loss_curves({strategies[0]});
  const auto line_of_ddp = [](const std::string& html) {
    const auto end = html.find(" class=\"curve hue-0 dash-0\"");
    const auto begin = html.rfind("<line", end);
    return html.substr(begin, end - begin);
  };
  strategies[1].curve = {{0, 5.611}, {20, 1e30}, {40, std::nan("")}};
  const std::string html = plain(loss_curves(strategies));
  EXPECT_EQ(line_of_ddp(html), line_of_ddp(before));
  EXPECT_TRUE(has(html, "<td>3.6200</td><td>1e+30</td><td>-</td>")) << html;
  EXPECT_TRUE(has(html, ">ddp+powersgd:4 until step 0</div>")) << html;
  EXPECT_TRUE(has(html, "Not drawn: 2 points of ddp+powersgd:4, no number or above 8.4;")) << html;
  EXPECT_FALSE(has(html, "nan") || has(html, "inf")) << html;

  for (auto& strategy : strategies)
    for (auto& [step, held_out] : strategy.curve) held_out = std::nan("");
  const std::string nothing = loss_curves(strategies);
  EXPECT_FALSE(has(nothing, "<svg"));
  EXPECT_TRUE(has(nothing, "3 points of ddp, 3 points of ddp+powersgd:4")) << nothing;
  EXPECT_FALSE(has(nothing, "nan") || has(nothing, "above")) << nothing;
}

TEST(LossCurves, EqualCurvesDifferByNothing) {
  std::vector<ScalingPage::Strategy> strategies = learned();
  strategies[1].curve = strategies[0].curve;
  EXPECT_TRUE(has(plain(loss_curves(strategies)), ">ddp+powersgd:4 0.00 %</div>"));
  for (auto& strategy : strategies)
    for (auto& [step, held_out] : strategy.curve) held_out = 2;
  const std::string flat = loss_curves(strategies);
  EXPECT_TRUE(has(flat, "class=\"curve hue-0 dash-0\""));
  EXPECT_FALSE(has(flat, "nan") || has(flat, "inf")) << flat;
}

TEST(LossCurves, NamesAreEscaped) {
  std::vector<ScalingPage::Strategy> strategies = learned();
  for (auto& strategy : strategies) strategy.name = "<b>&\"'";
  strategies[1].curve[2].held_out = HUGE_VAL;
  const std::string html = loss_curves(strategies);
  EXPECT_FALSE(has(html, "<b>"));
  EXPECT_TRUE(has(html, "Not drawn: 1 point of &lt;b&gt;&amp;&quot;&#39;,")) << html;
  EXPECT_TRUE(has(html, "<desc>&lt;b&gt;&amp;&quot;&#39; until step 20; ")) << html;
}

TEST(LossCurves, TwentyLooksDiffer) {
  std::set<std::string> looks;
  for (std::size_t i = 0; i < 20; ++i) looks.insert(look_of(i));
  EXPECT_EQ(looks.size(), 20u);
}

TEST(LossCurves, LabelsNeverOverlapAndStayInside) {
  EXPECT_EQ(apart({20, 60, 100}, 16, 230), (std::vector<double>{20, 60, 100}));
  EXPECT_EQ(apart({50, 50, 50}, 16, 230), (std::vector<double>{50, 66, 82}));
  EXPECT_EQ(apart({0, 228, 229, 230}, 16, 230), (std::vector<double>{8, 190, 206, 222}));
  EXPECT_EQ(apart({}, 16, 230), std::vector<double>());
  // As many as just fit, wherever they want to stand.
  for (const double wanted : {-5.0, 0.0, 40.0, 80.0, 99.0}) {
    const auto places = apart(std::vector<double>(5, wanted), 16, 80);
    for (std::size_t i = 0; i < places.size(); ++i)
      EXPECT_NEAR(places[i], 8 + 16.0 * static_cast<double>(i), 1e-9) << wanted;
  }
  // More than the drawing's usual height has room for make it higher.
  std::vector<ScalingPage::Strategy> many(30, learned()[0]);
  EXPECT_TRUE(has(loss_curves(many), "height=\"506.0\"")) << loss_curves(many);
}

std::vector<ScalingPage::Span> back_to_back(int spans, double each, double gap) {
  std::vector<ScalingPage::Span> lane;
  for (int i = 0; i < spans; ++i)
    lane.push_back({0, "compute", text("backward: ", i), i * (each + gap), i * (each + gap) + each});
  return lane;
}

TEST(Timeline, SpansWiderThanAPixelStayApart) {
  const auto marks = drawn(back_to_back(50, 2, 0.1), 1);
  ASSERT_EQ(marks.size(), 50u);
  for (const Mark& mark : marks) EXPECT_EQ(mark.spans, 1);
}

TEST(Timeline, ThinNeighboursBecomeMarksOfAPixelThatLoseNothing) {
  const auto marks = drawn(back_to_back(1000, 0.06, 0.04), 1);
  EXPECT_LE(marks.size(), 110u);
  EXPECT_GE(marks.size(), 90u);  // but no broad block that hides how it was
  int spans = 0;
  double busy = 0;
  for (const Mark& mark : marks) {
    spans += mark.spans;
    busy += mark.busy;
    EXPECT_LT(mark.end - mark.begin, 2.1);
  }
  EXPECT_EQ(spans, 1000);
  EXPECT_NEAR(busy, 60, 1e-6);
}

TEST(Timeline, DifferentKindsAreNeverJoined) {
  const auto marks =
      drawn({{0, "compute", "forward: a", 0, 0.1}, {0, "compute", "backward: a", 0.1, 0.2}}, 1);
  ASSERT_EQ(marks.size(), 2u);
  EXPECT_EQ(marks[0].name, "forward: a");
}

TEST(Timeline, SpansAtTheSameTimeStandBelowEachOther) {
  const auto marks = drawn({{0, "wire", "a", 0, 10}, {0, "wire", "b", 5, 15}, {0, "wire", "c", 10, 20}}, 1);
  ASSERT_EQ(marks.size(), 3u);
  EXPECT_EQ(marks[0].level, 0);
  EXPECT_EQ(marks[1].level, 1);
  EXPECT_EQ(marks[2].level, 0);
}

TEST(Timeline, ManyHundredSpansOfManyRanksStayAPage) {
  std::vector<ScalingPage::Span> timeline;
  for (int rank = 0; rank < 40; ++rank) {
    for (auto span : back_to_back(3000, 0.0001, 0.00001)) {
      span.rank = rank;
      timeline.push_back(span);
    }
  }
  const std::string html = overlap(timeline, nullptr);
  EXPECT_LT(count(html, "<rect"), 16u * 1000);
  EXPECT_TRUE(has(html, "the first 16 of 40 ranks"));
  EXPECT_TRUE(has(html, "rank 39"));  // in the table
}

TEST(Timeline, TheTableCountsTimeOnceWhereSpansOverlap) {
  const std::string html = plain(overlap(
      {{2, "wire", "a", 0, 0.010}, {2, "wire", "b", 0.005, 0.015}, {2, "compute", "forward", 0, 0.02}},
      nullptr));
  EXPECT_TRUE(has(html, "<td>20.0 ms</td><td>15.0 ms</td>")) << html;
}

}  // namespace
}  // namespace weft::report
