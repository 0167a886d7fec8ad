/* faults.c: what a Python kernel touches in the inaccessible pages around its tensors is noted, and the kernel goes on.
 *
 * It cannot be thrown out of its call, as a C kernel is: there may be any number of frames of Python, NumPy and torch
 * above the instruction that faulted, with locks held and references counted. So the page is opened, and the instruction
 * is repeated. Everything here may be done in a signal handler, on any thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../native/machine.h"

/* The first fault since the last `kf_watch`; address 0 where there was none. */
typedef struct {
    uint64_t address;
    uint32_t access, claimed;
} fault;

static uint8_t *first, *end;
static uintptr_t page;
static fault *noted;

/* What it touches that is not watched ends the process, as it would without us: the instruction is repeated. */
static void on_fault(int number, siginfo_t *info, void *context) {
    uint8_t *const at = info->si_addr;
    const int before = errno;
    uint8_t *const start = (uint8_t *)((uintptr_t)at / page * page);
    if (at < first || at >= end || mprotect(start, page, PROT_READ | PROT_WRITE) != 0) {
        signal(number, SIG_DFL);
    } else if (__atomic_exchange_n(&noted->claimed, 1, __ATOMIC_RELAXED) == 0) {
        noted->access = (uint32_t)access_of(context);
        noted->address = (uint64_t)(uintptr_t)at;
    }
    errno = before;
}

/* Watches `bytes` from `start` on. It is asked for before every call: a kernel may have put another handler in place. */
int kf_watch(uint8_t *start, size_t bytes, fault *seen) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    *seen = (fault){0};
    first = start;
    end = start + bytes;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    noted = seen;
    return sigaction(SIGSEGV, &action, NULL);
}
