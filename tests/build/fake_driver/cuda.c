// A libcuda.so.1 that tells of one card of compute capability 8.6, for machines without a driver.
int cuInit(unsigned flags) { return (int)flags; }

int cuDeviceGetCount(int* count) {
  *count = 1;
  return 0;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 75 ? 8 : 6;  // major, minor
  return device;
}
