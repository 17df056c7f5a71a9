// The plan of a call for Python: which kernels run, and with how many CTAs.
#pragma once

#include <pybind11/pybind11.h>

#include "cutlass_kernels/plan.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;

// The plan, with the shape that it takes of the row's table.
template <class TileRow>
py::dict plan_record(Problem const& problem, Device const& device) {
  using Short = typename TileRow::ShortKeys;
  using Long = typename TileRow::LongKeys;
  Plan const plan = make_plan(problem, TileRow::kRow, device);
  return py::dict("resident_rows"_a = plan.resident_rows, "row_ctas"_a = plan.row_ctas,
                  "short_keys"_a = plan.short_keys, "shared_keys"_a = plan.shared_keys,
                  "keys_overlap"_a = plan.keys_overlap, "key_ctas"_a = plan.key_ctas,
                  "turn_count"_a = plan.turn_count, "rows"_a = TileRow::kRows,
                  "keys"_a = plan.short_keys ? Short::kKeys : Long::kKeys,
                  "ctas"_a = plan.short_keys ? Short::kCtas : Long::kCtas,
                  "warps"_a = 2 * (plan.short_keys ? Short::kPairs : Long::kPairs));
}

inline py::dict plan_of(int64_t total_q, int64_t total_k, int batch, int heads, bool sm90,
                        int multiprocessors, int major) {
  Problem problem{};
  problem.total_q = total_q;
  problem.total_k = total_k;
  problem.batch = batch;
  problem.heads = heads;
  Device device{};
  device.multiprocessors = multiprocessors;
  device.major = major;
  return sm90 ? plan_record<TilesSm90>(problem, device) : plan_record<TilesSm86>(problem, device);
}

inline void bind_plan(py::module_& module) {
  module.def("make_plan", &plan_of, "total_q"_a, "total_k"_a, "batch"_a, "heads"_a, "sm90"_a,
             "multiprocessors"_a, "major"_a = 9);
}

}  // namespace host_tests
