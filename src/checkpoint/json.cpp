// Boost.JSON itself, compiled into this library: a program that links weft then needs no library of Boost.
#include <boost/json/src.hpp>
