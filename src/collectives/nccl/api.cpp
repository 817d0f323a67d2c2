#include "collectives/nccl/api.hpp"

#include <algorithm>
#include <type_traits>

#include "core/base/shared_library.hpp"
#include "weft/core/error.hpp"

namespace weft::detail::nccl {

std::string version_text(int code) {
  return text(code / 10000, ".", code / 100 % 100, ".", code % 100);
}

Config Config::for_library(int library) {
  constexpr int newest_known = version_code(2, 28, 9);
  Config config;
  config.version = static_cast<unsigned>(std::min(library, newest_known));
  // Up to and without the first member that came later.
  if (library < version_code(2, 26)) {
    config.size = offsetof(Config, traffic_class);
  } else if (library < version_code(2, 27)) {
    config.size = offsetof(Config, comm_name);
  } else if (library < version_code(2, 28)) {
    config.size = offsetof(Config, channels_per_net_peer);
  } else {
    config.size = sizeof(Config);
  }
  return config;
}

void Config::set(const NcclOptions& options) {
  min_ctas = options.min_ctas.value_or(min_ctas);
  max_ctas = options.max_ctas.value_or(max_ctas);
  cga_cluster_size = options.cga_size.value_or(cga_cluster_size);
  traffic_class = options.traffic_class.value_or(traffic_class);
  if (options.cta_policy) cta_policy = static_cast<int>(*options.cta_policy);
}

// NCCL itself puts its own choice in place of some wrong values, and says so in its log alone (2.28.9: init.cc:1760).
void expect_known(const NcclOptions& options, int library) {
  const auto within = [](const char* option, std::optional<int> value, int least, int most) {
    if (value && (*value < least || *value > most))
      throw Error(ErrorKind::usage, text("NcclOptions::", option, " is ", *value),
                  text(least, " to ", most, " are possible"));
  };
  within("min_ctas", options.min_ctas, 1, 64);
  within("max_ctas", options.max_ctas, 1, 64);
  within("cga_size", options.cga_size, 0, 8);
  within("traffic_class", options.traffic_class, 0, 255);
  if (options.min_ctas && options.max_ctas && *options.min_ctas > *options.max_ctas) {
    throw Error(ErrorKind::usage,
                text("NcclOptions: at least ", *options.min_ctas, " and at most ", *options.max_ctas,
                     " thread blocks"),
                "min_ctas must not be above max_ctas");
  }
  const auto since = [library](const char* option, bool is_given, int first) {
    if (is_given && library < first)
      throw Error(ErrorKind::usage, text("NCCL ", version_text(library), " knows no ", option),
                  text("it came with NCCL ", version_text(first), "; leave NcclOptions::", option, " out"));
  };
  since("traffic_class", options.traffic_class.has_value(), version_code(2, 26));
  since("cta_policy", options.cta_policy.has_value(), version_code(2, 27));
  since("cta_policy zero", options.cta_policy == CtaPolicy::zero, version_code(2, 28));
}

namespace {

constexpr const char* install_it =
    "install NCCL 2.18 or newer (libnccl2), or add its folder to LD_LIBRARY_PATH";

}  // namespace

std::shared_ptr<const Api> Api::load(const std::string& library) {
  const SharedLibrary file(library, "NCCL cannot be loaded", install_it);
  return load([&file](const char* symbol) { return file.find(symbol); }, library);
}

std::shared_ptr<const Api> Api::load(const Finder& find, const std::string& source) {
  auto api = std::make_shared<Api>();
  // What dlsym returns is a function's address; only this cast makes it one again.
  const auto set = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(symbol));  // NOLINT
  };
  set(api->GetVersion, "ncclGetVersion");
  if (api->GetVersion == nullptr || api->GetVersion(&api->version) != success) {
    throw Error(ErrorKind::system, text(source, " does not say which version of NCCL it is"), install_it);
  }
  if (api->version < oldest_version) {
    throw Error(
        ErrorKind::system,
        text(source, " is NCCL ", version_text(api->version), ", older than ", version_text(oldest_version)),
        install_it);
  }
  const auto require = [&](auto& function, const char* symbol, int since) {
    if (api->version < since) return;
    set(function, symbol);
    if (function != nullptr) return;
    throw Error(ErrorKind::system,
                text(source, " is NCCL ", version_text(api->version), " but has no ", symbol,
                     ", which came with ", version_text(since)),
                install_it);
  };
  require(api->GetErrorString, "ncclGetErrorString", oldest_version);
  require(api->GetLastError, "ncclGetLastError", oldest_version);
#define WEFT_NCCL_REQUIRE(name, since, parameters) require(api->name, "nccl" #name, since);
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_REQUIRE)
#undef WEFT_NCCL_REQUIRE
  return api;
}

}  // namespace weft::detail::nccl
