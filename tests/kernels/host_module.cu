// _kernels_host: the kernels' headers on the host, for the tests in Python.
#include "host_functions.h"
#include "host_operands.h"
#include "host_plan.h"
#include "host_ragged.h"
#include "host_score.h"
#include "host_tile_choice.h"
#include "host_tiles.h"
#include "host_traits.h"

PYBIND11_MODULE(_kernels_host, module) {
  host_tests::bind_score(module);
  host_tests::bind_tiles(module);
  host_tests::bind_operands(module);
  host_tests::bind_traits(module);
  host_tests::bind_ragged(module);
  host_tests::bind_plan(module);
  host_tests::bind_tile_choice(module);
}
