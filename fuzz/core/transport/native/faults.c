/* faults.c: a signal raised by the kernel ends the call, not the worker. */
#define _GNU_SOURCE
#include <fenv.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "machine.h"
#include "worker.h"

static const int CAUGHT[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
enum { HANDLER_STACK_BYTES = 256 * 1024 }; /* SVE at 2048 bits saves 9 KiB of registers, AVX-512 3 KiB */

static sigjmp_buf escape;
static pid_t self;
volatile sig_atomic_t inside_kernel;
static volatile sig_atomic_t fault_misread;
static volatile int fault_signal, fault_access;
static uint8_t *volatile fault_address;

/* Set for a call that is looked at closely: what memory was in use right before it and right after. */
bool measures_memory;
memory_use before_call, after_call;

static void on_fault(int signal_number, siginfo_t *info, void *context) {
    if (!inside_kernel) { /* the worker's own fault: die visibly */
        signal(signal_number, SIG_DFL);
        raise(signal_number);
        return;
    }
    inside_kernel = 0;
    const bool touches_memory = signal_number == SIGSEGV || signal_number == SIGBUS;
    fault_signal = signal_number;
    fault_misread = touches_memory && is_misread(context);
    fault_address = touches_memory ? info->si_addr : NULL;
    fault_access = touches_memory && info->si_addr != NULL ? access_of(context) : ACCESS_UNKNOWN;
    siglongjmp(escape, 1);
}

/* SA_NODEFER leaves the signal unblocked, so that neither sigsetjmp nor siglongjmp needs a system call per case.
 * The handler has its own stack because the kernel may have used up the other one. */
void catch_faults(void) {
    const stack_t stack = {
        .ss_sp = mmap(NULL, HANDLER_STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        .ss_size = HANDLER_STACK_BYTES,
    };
    if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) != 0) broken_frame("cannot set up the signal stack");
    const struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    for (size_t i = 0; i < sizeof CAUGHT / sizeof *CAUGHT; i++) sigaction(CAUGHT[i], &action, NULL);
    self = getpid();
}

/* A kernel that puts a handler back by `signal` drops its flags. */
void catch_faults_again(void) {
    struct sigaction action;
    for (size_t i = 0; i < sizeof CAUGHT / sizeof *CAUGHT; i++) {
        if (sigaction(CAUGHT[i], NULL, &action) != 0 || action.sa_sigaction != on_fault) continue;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(CAUGHT[i], &action, NULL);
    }
}

/* Inside a sparse tensor the byte stays unknown: the row and column say where. */
static void locate(const test_case *c, response_header *out) {
    for (int i = 0; i < c->total && fault_address != NULL; i++) {
        const tensor *t = &c->tensors[i];
        const arena *a = &region_of(t)->arena;
        if (t->home != i || fault_address < a->mapping || fault_address >= a->mapping + a->mapped) continue;
        const int64_t start = fault_address - t->storage, end = start - (int64_t)t->storage_bytes;
        out->tensor = (int8_t)i;
        out->element = nearest_element(t, start);
        if (end >= 0) out->byte = end;
        else if (start < 0) out->byte = start;
        return;
    }
}

/* Calls the kernel with the default floating-point environment. A copy of this process that a kernel forked ends here:
 * two would answer. */
void call_guarded(const test_case *c, response_header *response) {
    fesetenv(FE_DFL_ENV);
    if (measures_memory) before_call = measured_memory();
    if (sigsetjmp(escape, 0) == 0) {
        inside_kernel = 1;
        response->code = call_op(c);
        inside_kernel = 0;
        if (getpid() != self) _exit(0);
        check_floating_point();
        check_registers();
        if (measures_memory) after_call = measured_memory();
        response->status = response->code == KF_OK ? RAN : RETURNED_REJECTED;
    } else {
        if (getpid() != self) _exit(0);
        response->status = fault_misread ? MISREAD : FAULTED;
        response->signal = (uint8_t)fault_signal;
        response->access = (uint8_t)fault_access;
        locate(c, response);
    }
    fesetenv(FE_DFL_ENV);
}
