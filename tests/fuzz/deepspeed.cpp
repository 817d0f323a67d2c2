// A configuration of DeepSpeed: Hjson, which says the same as the JSON that it is written as, and what it resolves to.

#include "deepspeed/hjson.hpp"
#include "fuzz/expect_refused.hpp"
#include "weft/deepspeed/config.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace weft;
  const std::string_view input = test::as_text(data, size);
  test::taken_or_refused([&] {
    const std::string once = detail::to_json(detail::read_hjson(input, "ds.json"));
    const std::string json =
        detail::to_json(detail::read_hjson(once, "once"));  // bytes that are no UTF-8 are replaced
    test::expect(detail::to_json(detail::read_hjson(json, "again")) == json, "JSON says the same again");
  });
  for (const int ranks : {1, 8}) {
    test::taken_or_refused([&] {
      const deepspeed::Config config = deepspeed::parse(input, ranks, "ds.json");
      const deepspeed::Setting* const batch = config.find("train_batch_size");
      test::expect(batch != nullptr && batch->value != "null", "there is a batch");
      (void)deepspeed::explain(config);
      const deepspeed::Options options = deepspeed::options(config);
      test::expect(options.train_batch_size ==
                       options.train_micro_batch_size_per_gpu * options.gradient_accumulation_steps * ranks,
                   "the batch sizes agree");
    });
  }
  return 0;
}
