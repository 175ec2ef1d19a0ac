/* A stand-in for libnvidia-ml.so.1: two GPUs, of which the second is lost. Our own values.
 * Only what the tests need; anything else is a function that is not found. */
#include <string.h>
#include <stdint.h>

typedef struct { unsigned field, scope; int64_t timestamp, latency; unsigned kind, code;
                 union { double d; unsigned u; uint64_t ull; int64_t sll; int s; unsigned short us; } value;
} Field;
typedef struct { unsigned version; uint8_t cluster[16]; unsigned status, clique; unsigned char state;
                 unsigned mask; uint8_t summary; } Fabric;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } Pci;
typedef struct { unsigned version; uint64_t total, reserved, free_, used; } Memory;
typedef struct { unsigned gpu, memory; } Load;
typedef struct { unsigned version; int celsius; } Margin;
typedef struct { uint64_t reference, violation; } Violation;
typedef struct { unsigned version; char guid[16], chassis[16]; char slot, tray, host, peer, module; } Platform;

enum { NOT_SUPPORTED = 3, LOST = 15, MISMATCH = 25 };
static int gpus[2];

int nvmlInitWithFlags(unsigned flags) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, int **h) { *h = &gpus[i]; return i ? LOST : 0; }
int nvmlDeviceGetUUID(int *h, char *s, unsigned n) { strncpy(s, "GPU-00000000-aaaa-bbbb-cccc-000000000001", n); return 0; }
int nvmlDeviceGetName(int *h, char *s, unsigned n) { strncpy(s, "NVIDIA H100 80GB HBM3", n); return 0; }
int nvmlDeviceGetSerial(int *h, char *s, unsigned n) { strncpy(s, "1650000000001", n); return 0; }
int nvmlSystemGetDriverVersion(char *s, unsigned n) { strncpy(s, "570.1.2", n); return 0; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return 0; }
int nvmlDeviceGetPciInfo_v3(int *h, Pci *p) { strncpy(p->bus_id, "00000000:19:00.0", 32); return 0; }
int nvmlDeviceGetTemperature(int *h, int sensor, unsigned *t) { *t = 61; return 0; }
int nvmlDeviceGetPowerUsage(int *h, unsigned *mw) { *mw = 0xffffffffu; return 0; }
int nvmlDeviceGetClockInfo(int *h, int kind, unsigned *mhz) { *mhz = kind == 2 ? 2619 : 1755; return 0; }
int nvmlDeviceGetUtilizationRates(int *h, Load *l) { l->gpu = 97; l->memory = 41; return 0; }
int nvmlDeviceGetEccMode(int *h, int *now, int *then) { *now = 1; *then = 0; return 0; }
int nvmlDeviceGetGspFirmwareVersion(int *h, char *s) { strcpy(s, "570.1.2"); return 0; }
int nvmlDeviceGetViolationStatus(int *h, int policy, Violation *v) { v->reference = 9; v->violation = 7; return 0; }
int nvmlDeviceGetRowRemapperHistogram(int *h, unsigned *v) { for (int i = 0; i < 5; i++) v[i] = 10 + i; return 0; }
int nvmlDeviceGetMarginTemperature(int *h, Margin *m) { m->celsius = -3; return 0; }
int nvmlDeviceGetMemoryInfo_v2(int *h, Memory *m) {
    if (m->version != 0x02000028) return MISMATCH;
    m->total = 85520809984ull; m->reserved = 503316480ull; m->used = 5ull; m->free_ = 85017493499ull;
    return 0;
}
int nvmlDeviceGetGpuFabricInfoV(int *h, Fabric *f) {
    if (f->version != 0x02000024) return MISMATCH; /* a driver that knows the second version */
    memset(f->cluster, 0xab, 16); f->status = 0; f->clique = 7; f->state = 3; f->mask = 0x1aa;
    return 0;
}
int nvmlDeviceGetPlatformInfo(int *h, Platform *p) {
    if (p->version != 0x0200002c) return MISMATCH;
    strcpy(p->chassis, "18201250004"); p->slot = 12; p->tray = 3; p->module = 2;
    return 0;
}
int nvmlDeviceGetFieldValues(int *h, int n, Field *f) {
    for (int i = 0; i < n; i++, f++) {
        f->code = 0;
        f->timestamp = 1700000000000000ll;
        f->value.ull = 0xdeadbeef00000000ull; /* what lies above a narrow value is not of it */
        switch (f->field) {
        case 82: f->kind = 1; f->value.u = 68; break;
        case 83: f->kind = 3; f->value.ull = 5000000000000ull; break;
        case 91: f->kind = 1; f->value.u = 2; break;
        case 94: f->kind = 1; f->value.u = 0xffffffffu; break;
        case 142: f->kind = 6; f->value.us = 4; break;
        case 165: f->kind = 1; f->value.u = f->scope == 0; break;
        case 164: f->kind = 1; f->value.u = 26562; break;
        case 194: f->kind = 5; f->value.s = -2; break;
        case 193: f->kind = 4; f->value.sll = -8; break;
        case 138: f->kind = 3; f->value.ull = f->scope == 0xffffffffu ? 1000 : 1; break;
        case 196: f->kind = 0; f->value.d = 0.5; break;
        default: f->code = NOT_SUPPORTED;
        }
    }
    return 0;
}
