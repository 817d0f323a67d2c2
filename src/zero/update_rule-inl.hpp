// What a step does to one element, written once: included for every instruction set, for plain loops and for
// CUDA.
//
// WEFT_LANES is the namespace; WEFT_LANES_ATTR stands before every function. `L` says what lanes are: Wide
// (f64) and Narrow (f32), with IEEE arithmetic. Fused are the products written as such and no others, and
// they are fused everywhere. No guard: that is the point.
//
// A root and a quotient in f64 would take longer than memory does. Those of f32 take a third, and one step of
// Newton's method each, in products and sums, makes them as good as exact:
//
//   s0 = f32 root of v, off by 2^-23          y0 = f32 1 / (s0 + E), off by 2^-21
//   d = s0 + E + (v - s0^2) y0 / 2            m / d = m y0 (2 - d y0), off by 2^-42
//
// The correction of the root should be divided by s0, and is by s0 + E. What that leaves is at most
// 2^-24 s0 E / (s0 + E), and so at most 2^-26 of d, where E is as large as s0; beside larger E or s0, less.
// Where v is subnormal or 0 as f32, s0 is off by 2^-75 at most, and E hides it: it is 2^-49 or more with an
// epsilon of 1e-13. Where v is infinite as f32, d is NaN, as said in optimizer.hpp.

namespace weft::detail::WEFT_LANES {
namespace {

/// m = beta1 m + fresh1 g; v = beta2 v + fresh2 g^2; p = keep p - rate m / (sqrt(v) + epsilon), of
/// g = scale gradient, and + pull p where it `pulls`.
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

  // Of every lane the same. In f64, all but the last two.
  typename L::Constant scale, pull, keep, half_rate, beta1, fresh1, beta2, fresh2, twice_epsilon, two, four;
  typename L::NarrowConstant epsilon, one;
};

/// g = scale gradient + pull p; m = momentum m + g where it `remembers`, else g; p -= rate m
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
