// What a step does to one element. The file has no include guard: plain loops, every instruction set and CUDA
// include it with their own WEFT_LANES.
//
// WEFT_LANES is the namespace; WEFT_LANES_ATTR stands before every function. `L` defines the SIMD lanes: Wide
// (f64) and Narrow (f32), with IEEE arithmetic. plus_product and minus_product are fused on every machine,
// and nothing else is.
//
// A square root and a quotient in f64 would take longer than memory does. Those of f32 take a third of the
// time, and one step of Newton's method for each, in products and sums, makes them almost exact:
//
//   s0 = f32 root of v, error 2^-23           y0 = f32 1 / (s0 + E), error 2^-21
//   d = s0 + E + (v - s0^2) y0 / 2            m / d = m y0 (2 - d y0), error 2^-42
//
// Newton's method divides the correction of the root by s0; this divides it by s0 + E. The remaining error is
// at most 2^-24 s0 E / (s0 + E), which is at most 2^-26 of d, where E is as large as s0, and less elsewhere.
// Where v is subnormal or 0 as f32, the error of s0 is at most 2^-75, which E hides: E is 2^-49 or more with
// an epsilon of 1e-13. Where v is infinite as f32, d is NaN, as optimizer.hpp says.

namespace weft::detail::WEFT_LANES {
namespace {

/// AdamW, and Adam where it `pulls`:
///   g = scale gradient (+ pull p where it pulls)
///   m = beta1 m + fresh1 g;  v = beta2 v + fresh2 g^2;  p = keep p - rate m / (sqrt(v) + epsilon)
template <class L, bool pulls>
struct AdaptiveRule {
  using Wide = typename L::Wide;
  using Narrow = typename L::Narrow;
  static constexpr int moments = 2;

  WEFT_LANES_ATTR explicit AdaptiveRule(const StepFactors& factors)
      : scale(L::all(factors.gradient_scale)),
        pull(L::all(factors.pull)),
        keep(L::all(factors.keep)),
        half_rate(L::all(0.5 * factors.rate)),
        beta1(L::all(factors.beta1)),
        fresh1(L::all(pulls ? factors.fresh1 : factors.fresh1 * factors.gradient_scale)),
        beta2(L::all(factors.beta2)),
        fresh2(L::all(pulls ? factors.fresh2
                            : factors.fresh2 * factors.gradient_scale * factors.gradient_scale)),
        twice_epsilon(L::all(2 * factors.epsilon)),
        two(L::all(2)),
        four(L::all(4)),
        epsilon(L::narrow_all(factors.epsilon)),
        one(L::narrow_all(1)) {}

  WEFT_LANES_ATTR Narrow operator()(Wide g, const Wide& p, Wide m, Wide v, Narrow& first,
                                    Narrow& second) const {
    if constexpr (pulls) g = L::plus_product(L::product(g, scale), p, pull);
    m = L::plus_product(L::product(g, fresh1), m, beta1);
    v = L::plus_product(L::product(L::product(g, g), fresh2), v, beta2);
    first = L::narrow(m);
    second = L::narrow(v);
    const Narrow narrow_root = L::root(second);
    const Wide root = L::wide(narrow_root);
    const Wide inverse = L::wide(L::quotient(one, L::sum(narrow_root, epsilon)));
    const Wide rest = L::minus_product(v, root, root);
    const Wide twice = L::plus_product(L::plus_product(twice_epsilon, root, two), rest, inverse);
    const Wide better = L::product(inverse, L::minus_product(four, twice, inverse));
    return L::narrow(L::minus_product(L::product(p, keep), L::product(m, half_rate), better));
  }

  // The same value in every lane; f64, but the last two f32.
  typename L::Constant scale, pull, keep, half_rate, beta1, fresh1, beta2, fresh2, twice_epsilon, two, four;
  typename L::NarrowConstant epsilon, one;
};

/// SGD: g = scale gradient + pull p;  m = momentum m + g where it `remembers`, otherwise g;  p -= rate m
template <class L, bool remembers>
struct DescentRule {
  using Wide = typename L::Wide;
  using Narrow = typename L::Narrow;
  static constexpr int moments = remembers ? 1 : 0;

  WEFT_LANES_ATTR explicit DescentRule(const StepFactors& factors)
      : scale(L::all(factors.gradient_scale)),
        pull(L::all(factors.pull)),
        momentum(L::all(factors.beta1)),
        rate(L::all(factors.rate)) {}

  WEFT_LANES_ATTR Narrow operator()(const Wide& gradient, const Wide& p, const Wide& m, const Wide&,
                                    Narrow& first, Narrow&) const {
    Wide velocity = L::plus_product(L::product(gradient, scale), p, pull);
    if constexpr (remembers) {
      velocity = L::plus_product(velocity, m, momentum);
      first = L::narrow(velocity);
    }
    return L::narrow(L::minus_product(p, velocity, rate));
  }

  typename L::Constant scale, pull, momentum, rate;
};

}  // namespace
}  // namespace weft::detail::WEFT_LANES
