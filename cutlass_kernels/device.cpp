// What the card is, and which row of the tile table it can run.
#include <cuda_runtime.h>

#include <sstream>
#include <stdexcept>

#include "api.h"
#include "launch.h"
#include "ragged_attention_build_config.h"
#include "tiles.h"

namespace ragged_attention {

namespace {

std::string describe(Device const& device) {
  std::ostringstream text;
  text << device.name << " (compute capability " << device.major << '.' << device.minor << ", "
       << device.max_shared_memory << " bytes of shared memory a block)";
  return text.str();
}

template <class TileRow>
bool fits(Device const& device) {
  return device.has_code && device.major * 10 + device.minor >= TileRow::kMinCapability &&
         device.max_shared_memory >= TileRow::kMaxSharedMemory;
}

template <class TileRow>
void check_row(Device const& device) {
  if (fits<TileRow>(device)) return;
  std::ostringstream text;
  text << "device: " << describe(device) << "; tiles " << TileRow::kName
       << " need compute capability " << TileRow::kMinCapability / 10 << '.'
       << TileRow::kMinCapability % 10 << " and " << TileRow::kMaxSharedMemory
       << " bytes, of kernels that were built for sm " << RAGGED_ATTENTION_ARCHS;
  throw std::runtime_error(text.str());
}

}  // namespace

Device query_device(int index) {
  Device device{};
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  device.name = properties.name;
  device.index = index;
  device.major = properties.major;
  device.minor = properties.minor;
  device.multiprocessors = properties.multiProcessorCount;
  device.max_shared_memory = static_cast<int>(properties.sharedMemPerBlockOptin);
  device.has_code = has_device_code();
  return device;
}

Tiles choose_tiles(Device const& device) {
  if (fits<TilesSm90>(device)) return Tiles::kSm90;
  check_row<TilesSm86>(device);
  return Tiles::kSm86;
}

void check_tiles(Tiles tiles, Device const& device) {
  tiles == Tiles::kSm90 ? check_row<TilesSm90>(device) : check_row<TilesSm86>(device);
}

}  // namespace ragged_attention
