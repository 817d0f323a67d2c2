#include "weft/compression/codec_choice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "compression/auto/step_measurements.hpp"
#include "support/expect_error.hpp"

namespace weft {
namespace {

using Specs = std::vector<ParamSpec>;

// Two tensors that are worth compressing, a vector, and a matrix that PowerSGD makes smaller, but saves less
// than a latency.
const Specs specs{{"large", 1024 * 1024, nullptr, {1024, 1024}},
                  {"other", 1024 * 1024, nullptr, {1024, 1024}},
                  {"bias", 1024},
                  {"small", 40 * 40, nullptr, {40, 40}}};

/// A bucket for every tensor.
BucketPlan plan_of(const Specs& of) {
  return plan_buckets(ParamLayout(DataType::f32, of), 1);
}

/// All gradients are ready at once, and the rest of a step takes a tenth of a second.
StepProfile profile_of(const BucketPlan& plan, const LinkModel& link) {
  StepProfile profile{std::vector<double>(plan.buckets().size()),
                      0.1,
                      link,
                      {.bf16 = 1e-9, .matrix = 4e-9, .factor = 1e-8, .copying = 5e-10}};
  for (const Bucket& bucket : plan.buckets())
    profile.step_seconds += link.seconds(static_cast<double>(bucket.count()) * sizeof(float));
  return profile;
}

std::map<std::string, std::string> codes_of(const CodecChoice& choice) {
  std::map<std::string, std::string> codes;
  for (const auto& [name, code] : choice.tensors) codes[name] = code;
  return codes;
}

double exposed(const CodecChoice& choice, const std::string& name) {
  const auto found = std::ranges::find(choice.candidates, name, &CodecChoice::Candidate::name);
  return found == choice.candidates.end() ? NAN : found->exposed_seconds;
}

TEST(CodecChoice, AFastWireCarriesGradientsAsTheyAre) {
  const BucketPlan plan = plan_of(specs);
  const CodecChoice choice = choose_codecs(plan, profile_of(plan, {1e-6, 1e11}), {});
  EXPECT_EQ(choice.chosen, "none") << choice;
  for (const auto& [name, code] : codes_of(choice)) EXPECT_EQ(code, "none") << name;
  EXPECT_EQ(choice.whole().size(), specs.size());
}

TEST(CodecChoice, AWireInBetweenCarriesSixteenBits) {
  const BucketPlan plan = plan_of(specs);
  const CodecChoice choice = choose_codecs(plan, profile_of(plan, {1e-4, 4.2e8}), {});
  EXPECT_EQ(choice.chosen, "bf16") << choice;
  for (const auto& [name, code] : codes_of(choice)) EXPECT_EQ(code, "bf16") << name;
  EXPECT_LT(exposed(choice, "powersgd:4"), exposed(choice, "bf16"))
      << "which would be faster, but by too little";
}

TEST(CodecChoice, ASlowWireCarriesFactorsOfLargeMatricesAndTheRestAsItIs) {
  const BucketPlan plan = plan_of(specs);
  const CodecChoice choice = choose_codecs(plan, profile_of(plan, {1e-4, 1e8}), {});
  EXPECT_EQ(choice.chosen, "powersgd:4") << choice;
  const std::map<std::string, std::string> expected{
      {"large", "powersgd:4"}, {"other", "powersgd:4"}, {"bias", "none"}, {"small", "none"}};
  EXPECT_EQ(codes_of(choice), expected);
  // In a bucket with a large one it costs no latency of its own.
  const BucketPlan together = plan_buckets(plan.layout(), 1 << 30);
  const CodecChoice of_one = choose_codecs(together, profile_of(together, {1e-4, 1e8}), {});
  EXPECT_EQ(codes_of(of_one)["small"], "powersgd:4");
}

TEST(CodecChoice, PredictsWhatBucketsTakeOneAfterTheOther) {
  const BucketPlan plan = plan_of({specs[0], specs[1]});
  StepProfile profile = profile_of(plan, {1e-3, 1e8});
  profile.ready_seconds = {0, 0.02};
  const double elements = 1024 * 1024;
  const double as_it_is = 1e-3 + elements * 4 / 1e8;
  const double in_bf16 = 2e-3 + elements * 2 / 1e8 + elements * 1e-9;
  const double factors = 2e-3 + 8192 * (4 / 1e8 + 1e-8) + elements * 4e-9;
  const CodecChoice beside = choose_codecs(plan, profile, {});
  EXPECT_NEAR(exposed(beside, "none"), 2 * as_it_is - 0.02, 1e-12);
  EXPECT_NEAR(exposed(beside, "bf16"), 2 * in_bf16 - 0.02, 1e-12);
  EXPECT_NEAR(exposed(beside, "powersgd:4"), factors, 1e-12)
      << "the first is there before the second is ready";
  for (const auto& [name, exposed, step] : beside.candidates)
    EXPECT_NEAR(step - exposed, profile.step_seconds - (2 * as_it_is - 0.02), 1e-12) << name;

  profile.slowdown = 2;
  EXPECT_NEAR(exposed(choose_codecs(plan, profile, {}), "bf16"), 4 * in_bf16 - 0.02, 1e-12);
  profile.slowdown = 1;

  profile.sharded = true;
  const CodecChoice sharded = choose_codecs(plan, profile, {});
  const double half = 1e-3 + elements * 2 / 1e8;
  EXPECT_NEAR(exposed(sharded, "none"), 2 * half - 0.02, 1e-12);
  EXPECT_NEAR(exposed(sharded, "bf16"), 1e-3 + elements * (1 / 1e8 + 1e-9), 1e-12);
  EXPECT_NEAR(exposed(sharded, "powersgd:4"), factors, 1e-12) << "which moves all factors everywhere";

  profile.sharded = profile.beside = false;
  const CodecChoice in_the_way = choose_codecs(plan, profile, {});
  EXPECT_NEAR(exposed(in_the_way, "none"), 2 * as_it_is, 1e-12);
  EXPECT_NEAR(exposed(in_the_way, "bf16"), 2 * in_bf16, 1e-12);
  EXPECT_NEAR(exposed(in_the_way, "powersgd:4"), 2 * factors, 1e-12);
}

TEST(CodecChoice, WhatHidesBehindBackwardStaysExact) {
  const BucketPlan plan = plan_of({specs[0], specs[1]});
  ASSERT_EQ(plan.layout().name(plan.buckets()[0].params[0]), "other") << "the last parameter leaves first";
  StepProfile profile = profile_of(plan, {1e-4, 1e8});
  profile.ready_seconds = {0, 0.06};  // the wire takes 42 ms for the first
  const CodecChoice choice = choose_codecs(plan, profile, {});
  EXPECT_EQ(choice.chosen, "powersgd:4") << choice;
  EXPECT_EQ(codes_of(choice)["large"], "powersgd:4");
  EXPECT_EQ(codes_of(choice)["other"], "none");
  profile.ready_seconds = {0, 0.044};  // just so
  EXPECT_EQ(codes_of(choose_codecs(plan, profile, {}))["other"], "powersgd:4");
  profile.ready_seconds = {0, 0.06};
  profile.beside = false;
  EXPECT_EQ(codes_of(choose_codecs(plan, profile, {}))["other"], "powersgd:4") << "nothing hides";
}

TEST(CodecChoice, CodingInTheWayOfBackwardRaisesTheBar) {
  // Many small buckets while backward goes on, to which a code brings a latency each, and a large one at its
  // end.
  Specs many{specs[0]};
  for (int i = 0; i < 20; ++i) many.push_back({text("middle", i), 200 * 200, nullptr, {200, 200}});
  const BucketPlan plan = plan_of(many);
  StepProfile profile = profile_of(plan, {1e-3, 4.2e8});
  for (std::size_t i = 0; i < profile.ready_seconds.size(); ++i)
    profile.ready_seconds[i] = 0.005 * static_cast<double>(i);
  profile.coding.matrix = 1e-7;  // PowerSGD is not what this is about
  EXPECT_EQ(choose_codecs(plan, profile, {.least_gain = 0.01}).chosen, "bf16");
  profile.beside = false;
  EXPECT_EQ(choose_codecs(plan, profile, {.least_gain = 0.01}).chosen, "none");
}

TEST(CodecChoice, TheOrderOfTensorsOfABucketChangesNothing) {
  Specs some = specs;
  for (int i = 0; i < 6; ++i) some.push_back({text("square", i), 64 * 64, nullptr, {64, 64}});
  some.push_back({"wide", 16 * 3000, nullptr, {16, 3000}});
  const auto by_name = [](const ParamSpec& a, const ParamSpec& b) { return a.name < b.name; };
  std::ranges::sort(some, by_name);
  std::optional<CodecChoice> first;
  for (int tries = 0; tries < 50; ++tries) {
    const BucketPlan plan = plan_buckets(ParamLayout(DataType::f32, some), 1 << 30);
    StepProfile profile = profile_of(plan, {1e-4, 3e8});
    profile.coding.factor = 3e-8;  // between what pays and what does not
    CodecChoice choice = choose_codecs(plan, profile, {});
    if (!first) first = choice;
    EXPECT_EQ(codes_of(choice), codes_of(*first));
    EXPECT_EQ(exposed(choice, "powersgd:4"), exposed(*first, "powersgd:4"));
    std::next_permutation(some.begin(), some.end(), by_name);
    std::rotate(some.begin(), some.begin() + 3, some.end());
  }
}

TEST(CodecChoice, AskingForMoreChoosesMilder) {
  const BucketPlan plan = plan_of(specs);
  const StepProfile profile = profile_of(plan, {1e-4, 1e8});
  EXPECT_EQ(choose_codecs(plan, profile, {.least_gain = 0.05}).chosen, "powersgd:4");
  EXPECT_EQ(choose_codecs(plan, profile, {.least_gain = 0.23}).chosen, "powersgd:4");
  EXPECT_EQ(choose_codecs(plan, profile, {.least_gain = 0.9}).chosen, "none");
  const BucketPlan vectors = plan_of({specs[2]});
  const CodecChoice without = choose_codecs(vectors, profile_of(vectors, {1e-4, 1e8}), {});
  EXPECT_EQ(without.candidates.size(), 2U) << "no matrix, no PowerSGD";
  EXPECT_NE(without.why.find("powersgd:4 makes no step shorter"), std::string::npos) << without.why;
}

TEST(CodecChoice, SaysWhatAndWhy) {
  const BucketPlan plan = plan_of(specs);
  const CodecChoice choice = choose_codecs(plan, profile_of(plan, {1e-4, 1e8}), {});
  std::ostringstream out;
  out << choice;
  for (const char* part : {"  none: exposed ", "  bf16: exposed ", "* powersgd:4: exposed ", "a step of ",
                           "powersgd:4 for 2 of 4 tensors: bf16 pays: ", "% shorter than with bf16",
                           "a collective takes 100 us", "beside the backward pass"})
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " in:\n" << out.str();
  const CodecChoice other = choose_codecs(plan, profile_of(plan, {1e-4, 4.2e8}), {});
  EXPECT_NE(choice.hash(), other.hash());
}

TEST(CodecChoice, RefusesNumbersThatAreNone) {
  using test::expect_error;
  const BucketPlan plan = plan_of(specs);
  const StepProfile good = profile_of(plan, {1e-4, 1e8});
  const auto refused = [&](std::initializer_list<std::string> parts, auto change) {
    StepProfile profile = good;
    AutoOptions options;
    change(profile, options);
    expect_error(ErrorKind::usage, parts, [&] { choose_codecs(plan, profile, options); });
  };
  refused({"3 ready times for 4 buckets"}, [](auto& p, auto&) { p.ready_seconds.pop_back(); });
  refused({"ready after -1 s"}, [](auto& p, auto&) { p.ready_seconds[1] = -1; });
  refused({"a step of nan s"}, [](auto& p, auto&) { p.step_seconds = NAN; });
  refused({"a slowdown of 0.5"}, [](auto& p, auto&) { p.slowdown = 0.5; });
  refused({"0 bytes/s"}, [](auto& p, auto&) { p.link.bytes_per_second = 0; });
  refused({"a link of inf s"}, [](auto& p, auto&) { p.link.latency_seconds = INFINITY; });
  refused({"coding that takes -1 s"}, [](auto& p, auto&) { p.coding.factor = -1; });
  refused({"rank 0", "1 or more"}, [](auto&, auto& o) { o.rank = 0; });
  refused({"least gain of 1", "below 1"}, [](auto&, auto& o) { o.least_gain = 1; });
  refused({"least gain of nan"}, [](auto&, auto& o) { o.least_gain = NAN; });
  refused({"step -1"}, [](auto&, auto& o) { o.start_step = -1; });
}

TEST(StepMeasurements, TravelAsNumbersOfWhichTheLargestAreTheSlowestRanks) {
  const BucketPlan plan = plan_of({specs[0], specs[1]});
  detail::StepMeasurements one{{{0, 1}, 3, {}, {4, 5, 6, 7}}, {0.5, 0.1}, {{64, 2e-5}, {4e6, 0.0402}}};
  detail::StepMeasurements other = one;
  other.profile.ready_seconds = {0, 2};
  other.took_seconds = {0.1, 0.6};
  const auto agreed = [&] {
    auto numbers = detail::to_numbers(one);
    EXPECT_EQ(std::ssize(numbers), detail::numbers_of(2, 2));
    const auto others = detail::to_numbers(other);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::max(numbers[i], others[i]);
    return detail::from_numbers(numbers, one, plan);
  };
  const StepProfile beside = agreed();
  EXPECT_EQ(beside.ready_seconds, (std::vector<double>{0, 2}));
  EXPECT_EQ(beside.step_seconds, 3);
  EXPECT_EQ(beside.coding.factor, 6);
  EXPECT_NEAR(beside.link.bytes_per_second, 1e8, 1e6);
  EXPECT_NEAR(beside.slowdown, 0.2 / (2 * 4 * 1024 * 1024 / 1e8), 0.05)
      << "of the shortest times, in which no rank waited";
  other.profile.beside = false;
  EXPECT_FALSE(agreed().beside) << "one rank without a wire thread is enough";
  EXPECT_EQ(agreed().slowdown, 1);
}

}  // namespace
}  // namespace weft
