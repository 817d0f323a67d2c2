#include "collectives/network/plan/tree.hpp"

#include <bit>

namespace weft::detail {
namespace {

int without_highest_bit(int place) {
  return place - static_cast<int>(std::bit_floor(static_cast<unsigned>(place)));
}

}  // namespace

int told_by(Tree tree, int place) {
  switch (tree) {
    case Tree::star:
      break;
    case Tree::chain:
      return place - 1;
    case Tree::binomial:
      return without_highest_bit(place);
  }
  return 0;
}

std::vector<int> told(Tree tree, int place, int n) {
  std::vector<int> places;
  switch (tree) {
    case Tree::star:
      for (int other = 1; place == 0 && other < n; ++other) places.push_back(other);
      break;
    case Tree::chain:
      if (place + 1 < n) places.push_back(place + 1);
      break;
    case Tree::binomial:
      for (int distance = 1; place + distance < n; distance *= 2) {
        if (distance > place) places.push_back(place + distance);
      }
      break;
  }
  return places;
}

// Sums and results go around the ring the same way, so that a rank has one neighbour to send to and one to
// receive from. In the other trees sums go back along the way that results come.
int summed_by(Tree tree, int place, int n) {
  return tree == Tree::chain ? (place + 1) % n : told_by(tree, place);
}

std::vector<int> summands(Tree tree, int place, int n) {
  if (tree != Tree::chain) return told(tree, place, n);
  if (place == 1 || n == 1) return {};
  return {place == 0 ? n - 1 : place - 1};
}

}  // namespace weft::detail
