/* masks.c: lanes that a masked load leaves out. A processor does not read them, so that a correct kernel may have them past
 * the end of a tensor. QEMU 7.2 reads every lane of AVX's masked loads, and faults there. (Its masked stores and gathers are
 * right, and so are the predicated, first-faulting and non-faulting loads of SVE.) */
#define _GNU_SOURCE
#include "worker.h"

static bool misread; /* as observed at start */

#if defined(__x86_64__)
#include <setjmp.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <xmmintrin.h>

static sigjmp_buf escape;

static void on_fault(int signal_number) {
    (void)signal_number;
    siglongjmp(escape, 1);
}

/* In assembly: a compiler that knows the mask loads one number instead. */
static void load_first_lane(const float *address) {
    const uint32_t lanes[4] = {0xffffffff, 0, 0, 0};
    __m128 mask, loaded;
    memcpy(&mask, lanes, sizeof mask);
    __asm__ volatile("vmaskmovps (%1), %2, %0" : "=x"(loaded) : "r"(address), "x"(mask) : "memory");
}

/* Tries a load with one live lane right before an inaccessible page. */
bool masked_loads_misread(void) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx")) return false;
    uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE) != 0) broken_frame("cannot try a masked load");
    const struct sigaction action = {.sa_handler = on_fault};
    struct sigaction segv, bus;
    sigaction(SIGSEGV, &action, &segv);
    sigaction(SIGBUS, &action, &bus);
    if (sigsetjmp(escape, 1) == 0) load_first_lane((const float *)(pages + page) - 1);
    else misread = true;
    sigaction(SIGSEGV, &segv, NULL);
    sigaction(SIGBUS, &bus, NULL);
    munmap(pages, 2 * page);
    return misread;
}

/* VMASKMOVPS, VMASKMOVPD, VPMASKMOVD and VPMASKMOVQ from memory: a VEX prefix of three bytes that names the second map of
 * opcodes and 66, and the opcode. */
static bool is_masked_load(const uint8_t *code) {
    return code[0] == 0xc4 && (code[1] & 0x1f) == 2 && (code[2] & 3) == 1 &&
           (code[3] == 0x2c || code[3] == 0x2d || code[3] == 0x8c);
}

/* Of code that lies elsewhere, as after a jump to nowhere, nothing is known. */
bool is_misread(const void *context) {
    extern const uint8_t __executable_start[], etext[];
    const uint8_t *code = (const uint8_t *)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    return misread && code >= __executable_start && code + 4 <= etext && is_masked_load(code);
}

#else

bool masked_loads_misread(void) {
    return misread;
}

bool is_misread(const void *context) {
    (void)context;
    return misread;
}

#endif
