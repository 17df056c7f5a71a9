// The choice of a row of the tile table for Python, on cards made up for it.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "cutlass_kernels/api.h"

namespace host_tests {

namespace py = pybind11;
using namespace pybind11::literals;
using namespace ragged_attention;

inline Device made_up_card(std::string const& name, int major, int minor, int max_shared_memory,
                           bool has_code) {
  Device device{};
  device.name = name;
  device.major = major;
  device.minor = minor;
  device.max_shared_memory = max_shared_memory;
  device.has_code = has_code;
  return device;
}

inline void bind_tile_choice(py::module_& module) {
  module.def(
      "choose_tiles",
      [](std::string const& name, int major, int minor, int max_shared_memory, bool has_code) {
        Device const card = made_up_card(name, major, minor, max_shared_memory, has_code);
        return choose_tiles(card) == Tiles::kSm90 ? "sm90" : "sm86";
      },
      "name"_a, "major"_a, "minor"_a, "max_shared_memory"_a, "has_code"_a);
  module.def(
      "check_tiles",
      [](std::string const& tiles, std::string const& name, int major, int minor,
         int max_shared_memory, bool has_code) {
        check_tiles(tiles == "sm90" ? Tiles::kSm90 : Tiles::kSm86,
                    made_up_card(name, major, minor, max_shared_memory, has_code));
      },
      "tiles"_a, "name"_a, "major"_a, "minor"_a, "max_shared_memory"_a, "has_code"_a);
  module.def("built_architectures", [] { return build_info().architectures; });
}

}  // namespace host_tests
