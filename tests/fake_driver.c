/* A stand-in for NVIDIA's driver: its version and what cuInit returns come from the environment. */
#include <stdlib.h>
#include <string.h>

static int number(const char *name) { return getenv(name) ? atoi(getenv(name)) : 0; }
static int broken(void) { return 999; /* CUDA_ERROR_UNKNOWN */ }

int cuDriverGetVersion(int *version) { *version = number("FAKE_DRIVER"); return 0; }
int cuInit(unsigned flags) { (void)flags; return number("FAKE_STATUS"); }
int cuDeviceGetCount(int *count) { *count = 0; return 0; }
int cuGetExportTable(const void **table, const void *id) { (void)id; *table = 0; return 1; }

int cuGetProcAddress_v2(const char *name, void **found, int version, unsigned long long flags, int *status) {
    (void)version, (void)flags;
    *found = !strcmp(name, "cuDriverGetVersion")  ? (void *)cuDriverGetVersion
             : !strcmp(name, "cuInit")            ? (void *)cuInit
             : !strcmp(name, "cuDeviceGetCount")  ? (void *)cuDeviceGetCount
             : !strcmp(name, "cuGetExportTable")  ? (void *)cuGetExportTable
             : !strncmp(name, "cuGetProcAddress", 16) ? (void *)cuGetProcAddress_v2
                                                  : (void *)broken;
    if (status) *status = 0;
    return 0;
}

int cuGetProcAddress(const char *name, void **found, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, found, version, flags, 0);
}
