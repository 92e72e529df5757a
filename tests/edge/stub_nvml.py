"""NVML as a few lines of C: two cards, two processes."""

NVML = r"""
#include <string.h>
typedef void *nvmlDevice_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_t;
int nvmlInitWithFlags(unsigned int flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  *device = (void *)(1UL + index); return 0; }
int nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
  strncpy(name, "NVIDIA A100-SXM4-80GB", length); return 0; }
int nvmlDeviceGetMemoryInfo(nvmlDevice_t device, memory_t *memory) {
  memory->total = 85899345920ULL; memory->used = 12884901888ULL; memory->free = memory->total - memory->used;
  return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, process_t *found) {
  if (*count < 2) { *count = 2; return 7; }
  *count = 2; found[0].pid = 4242; found[0].used = device == (void *)1 ? 8589934592ULL : 1073741824ULL;
  found[1].pid = 7; found[1].used = device == (void *)1 ? 1048576ULL : ~0ULL;
  return 0; }
const char *nvmlErrorString(int code) { return code == 7 ? "Insufficient Size" : "error"; }
"""
