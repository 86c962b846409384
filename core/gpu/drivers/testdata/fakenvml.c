/* A libnvidia-ml.so.1 for tests: what the driver would say is read from the text file $FAKE_NVML_STATE at every call, so
 * that a card can fill up, or be lost, while a program runs. Only the binary interface of NVML matters here.
 *
 *   driver 550.54.15
 *   init 9                                      the code that nvmlInit returns
 *   gpu NAME UUID TOTAL RESERVED USED CAPABILITY [mig|lost|shared]     underscores in NAME stand for spaces
 *   slice PARENT NAME UUID TOTAL RESERVED USED  a MIG slice of the PARENTth card
 *   proc CARD PID BYTES                         NA for BYTES: the driver does not say
 *   busy CARD PERCENT                           for how much of the time a kernel ran; without it the driver does not say
 *   use CARD PID BYTES                          a process, as long as it lives; its bytes are added to the card's USED
 *   going CARD BYTES                            a process that ends after USED was read for the first time
 *   held CARD BYTES                             added to the card's USED
 *   mps CARD PID BYTES                          a client of MPS, which the driver lists apart
 *   fail FUNCTION CODE [CARD]                   what a function returns in place of an answer; * stands for all of a card
 *
 * An older library lacks symbols: a test links it with a version script that hides them. -DR535 makes one of the first
 * drivers of R535.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25 };

#define MAX 32
#define MAX_PROCESSES 512
#define MAX_FAILURES 16
typedef unsigned long long u64;
typedef struct { u64 total, free, used; } memory_v1;
typedef struct { unsigned version; u64 total, reserved, free, used; } memory_v2;
typedef struct { unsigned pid; u64 used; } process_v1;
typedef struct { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; } process_info;
typedef struct handle { int index; } *device;

typedef struct {
  char name[96], uuid[96];
  u64 total, reserved, used;
  int major, minor, parent, mig, lost, shared, busy;
} card;
typedef struct { int card; unsigned pid; u64 used; int mps; } process;
typedef struct { char function[64]; int code, card; } failure;
typedef struct {
  int cards, processes, failures, init;
  char driver[80];
  card card[MAX];
  process process[MAX_PROCESSES];
  failure failure[MAX_FAILURES];
} state;

static struct handle handles[MAX];
static int initialised, readings[MAX]; /* of USED, by card */

/* lives reports whether a process is there, and is no zombie. */
static int lives(unsigned pid) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%u/stat", pid);
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  char *end = strrchr(text, ')');
  return end && end[1] && end[2] && end[2] != 'Z' && end[2] != 'X';
}

static void read_state(state *s) {
  memset(s, 0, sizeof *s);
  strcpy(s->driver, "550.54.15");
  const char *path = getenv("FAKE_NVML_STATE");
  FILE *f = path ? fopen(path, "r") : NULL;
  if (!f) { s->init = DRIVER_NOT_LOADED; return; }
  char line[512], word[32], last[32];
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%31s", word) != 1) continue;
    last[0] = 0;
    if (!strcmp(word, "driver")) sscanf(line, "%*s %79s", s->driver);
    else if (!strcmp(word, "init")) sscanf(line, "%*s %d", &s->init);
    else if (!strcmp(word, "busy")) {
      int at, percent;
      if (sscanf(line, "%*s %d %d", &at, &percent) == 2 && at >= 0 && at < s->cards) s->card[at].busy = percent;
    } else if (!strcmp(word, "going")) {
      process p;
      if (sscanf(line, "%*s %d %llu", &p.card, &p.used) == 2 && p.card >= 0 && p.card < s->cards && !readings[p.card]) s->card[p.card].used += p.used;
    } else if (!strcmp(word, "held")) {
      process p;
      if (sscanf(line, "%*s %d %llu", &p.card, &p.used) == 2 && p.card >= 0 && p.card < s->cards) s->card[p.card].used += p.used;
    } else if (!strcmp(word, "use") && s->processes < MAX_PROCESSES) {
      process p;
      if (sscanf(line, "%*s %d %u %llu", &p.card, &p.pid, &p.used) != 3 || p.card < 0 || p.card >= s->cards || !lives(p.pid)) continue;
      p.mps = 0;
      s->card[p.card].used += p.used;
      s->process[s->processes++] = p;
    } else if ((!strcmp(word, "proc") || !strcmp(word, "mps")) && s->processes < MAX_PROCESSES) {
      process *p = &s->process[s->processes++];
      sscanf(line, "%*s %d %u %31s", &p->card, &p->pid, last);
      p->used = strcmp(last, "NA") ? strtoull(last, NULL, 10) : ~0ULL;
      p->mps = word[0] == 'm';
    } else if (!strcmp(word, "fail") && s->failures < MAX_FAILURES) {
      failure *f = &s->failure[s->failures++];
      f->card = -1;
      sscanf(line, "%*s %63s %d %d", f->function, &f->code, &f->card);
    } else if (s->cards < MAX && (!strcmp(word, "gpu") || !strcmp(word, "slice"))) {
      card *c = &s->card[s->cards++];
      c->parent = c->busy = -1;
      if (word[0] == 'g')
        sscanf(line, "%*s %95s %95s %llu %llu %llu %d.%d %31s", c->name, c->uuid, &c->total, &c->reserved, &c->used, &c->major, &c->minor, last);
      else
        sscanf(line, "%*s %d %95s %95s %llu %llu %llu", &c->parent, c->name, c->uuid, &c->total, &c->reserved, &c->used);
      c->mig = !strcmp(last, "mig");
      c->lost = !strcmp(last, "lost");
      c->shared = !strcmp(last, "shared"); /* its memory is the machine's, and not told of */
      for (char *p = c->name; *p; p++) if (*p == '_') *p = ' ';
    }
  }
  fclose(f);
}

/* failed returns what a function is to fail with on a card, or SUCCESS. */
static int failed(const state *s, const char *function, int card) {
  for (int i = 0; i < s->failures; i++) {
    const failure *f = &s->failure[i];
    if ((f->card < 0 || f->card == card) && (!strcmp(f->function, function) || !strcmp(f->function, "*"))) return f->code;
  }
  return SUCCESS;
}

/* CARD(d) reads the state and points c at the device's card, or returns as the driver would. */
#define CARD(d) \
  state s; \
  if (!initialised) return UNINITIALIZED; \
  if (!(d)) return INVALID_ARGUMENT; \
  read_state(&s); \
  if ((d)->index >= s.cards || s.card[(d)->index].lost) return GPU_IS_LOST; \
  if (failed(&s, __func__, (d)->index)) return failed(&s, __func__, (d)->index); \
  card *c = &s.card[(d)->index]; \
  (void)c

/* nth returns the index of the nth entry with that parent, or -1. */
static int nth(const state *s, int parent, unsigned n) {
  for (int i = 0; i < s->cards; i++)
    if (s->card[i].parent == parent && n-- == 0) return i;
  return -1;
}

int nvmlInit_v2(void) {
  state s;
  read_state(&s);
  if (s.init) return s.init;
  for (int i = 0; i < MAX; i++) handles[i].index = i;
  initialised = 1;
  return SUCCESS;
}
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }
int nvmlShutdown(void) { initialised = 0; return SUCCESS; }
const char *nvmlErrorString(int r) {
  switch (r) {
  case SUCCESS: return "Success";
  case DRIVER_NOT_LOADED: return "Driver Not Loaded";
  case GPU_IS_LOST: return "GPU is lost";
  case NOT_SUPPORTED: return "Not Supported";
  case 18: return "Driver/library version mismatch";
  case 20: return "GPU requires reset";
  case 999: return "Unknown Error";
  }
  return "Unknown Error code";
}
int nvmlSystemGetDriverVersion(char *v, unsigned n) { state s; read_state(&s); snprintf(v, n, "%s", s.driver); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *n) {
  state s;
  if (!initialised) return UNINITIALIZED;
  read_state(&s);
  for (int i = 0; i < s.failures; i++)
    if (!strcmp(s.failure[i].function, __func__)) return s.failure[i].code;
  for (*n = 0; nth(&s, -1, *n) >= 0; ++*n) {}
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) {
  state s;
  if (!initialised) return UNINITIALIZED;
  read_state(&s);
  int at = nth(&s, -1, i);
  if (at < 0) return INVALID_ARGUMENT;
  if (s.card[at].lost) return GPU_IS_LOST;
  if (failed(&s, __func__, at)) return failed(&s, __func__, at);
  *d = &handles[at];
  return SUCCESS;
}
int nvmlDeviceGetName(device d, char *b, unsigned n) { CARD(d); snprintf(b, n, "%s", c->name); return SUCCESS; }
int nvmlDeviceGetUUID(device d, char *b, unsigned n) { CARD(d); snprintf(b, n, "%s", c->uuid); return SUCCESS; }
int nvmlDeviceGetMemoryInfo(device d, memory_v1 *m) {
  CARD(d);
  if (c->shared) return NOT_SUPPORTED;
  m->total = c->total, m->used = c->used + c->reserved, m->free = m->total - m->used;
  readings[d->index]++;
  return SUCCESS;
}
int nvmlDeviceGetMemoryInfo_v2(device d, memory_v2 *m) {
  CARD(d);
  if (c->shared) return NOT_SUPPORTED;
  if (m->version != (unsigned)(sizeof(memory_v2) | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
  m->total = c->total, m->reserved = c->reserved, m->used = c->used, m->free = c->total - c->used - c->reserved;
  readings[d->index]++;
  return SUCCESS;
}
int nvmlDeviceGetCudaComputeCapability(device d, int *major, int *minor) { CARD(d); *major = c->major, *minor = c->minor; return SUCCESS; }
int nvmlDeviceGetUtilizationRates(device d, unsigned *rates) { /* of the card, and of its memory */
  CARD(d);
  if (c->busy < 0) return NOT_SUPPORTED;
  rates[0] = c->busy, rates[1] = 0;
  return SUCCESS;
}
int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *pending) {
  CARD(d);
  if (c->parent >= 0) return NOT_SUPPORTED;
  *now = *pending = c->mig;
  return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n) { CARD(d); *n = c->mig ? 7 : 0; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *out) {
  CARD(d);
  int at = nth(&s, d->index, i);
  if (at < 0) return NOT_FOUND;
  *out = &handles[at];
  return SUCCESS;
}

/* PROCESSES(type, mps, ...) is the body of a list of processes, of an entry's type, with what comes after its memory. */
#define PROCESSES(type, of_mps, ...) \
  CARD(d); \
  unsigned k = 0, room = *n; \
  for (int i = 0; i < s.processes; i++) { \
    process *p = &s.process[i]; \
    if (p->card != d->index || p->mps != of_mps) continue; \
    if (out && k < room) out[k] = (type){p->pid, p->used __VA_OPT__(,) __VA_ARGS__}; \
    k++; \
  } \
  *n = k; \
  return k > room ? INSUFFICIENT_SIZE : SUCCESS

int nvmlDeviceGetComputeRunningProcesses(device d, unsigned *n, process_v1 *out) { PROCESSES(process_v1, 0); }
int nvmlDeviceGetComputeRunningProcesses_v2(device d, unsigned *n, process_info *out) { PROCESSES(process_info, 0, ~0u, ~0u); }
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, process_info *out) { PROCESSES(process_info, 0, ~0u, ~0u); }

#ifdef R535
int nvmlDeviceGetConfComputeMemSizeInfo(device d, void *info) { (void)d, (void)info; return NOT_SUPPORTED; }
#else
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device d, unsigned *n, process_info *out) { PROCESSES(process_info, 1, ~0u, ~0u); }
#endif
