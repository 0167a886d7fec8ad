/* convention.c: enters the kernel, and sees whether the registers that belong to the caller come back. Compilers keep the
 * convention; a kernel in assembler, or with a clobber left out, breaks it, and its caller computes something else later.
 * All other registers are filled before: see poison.c. */
#define _GNU_SOURCE
#include "machine.h"
#include "worker.h"

__attribute__((used, visibility("hidden"))) uint64_t kf_lost_registers;

/* While the kernel runs, register number k of the list holds 0x5a0 + k. Afterwards bit k says that it holds something else;
 * where no register has a bit above 31, only that half is written. */
static const char *const REGISTERS[] = {KF_REGISTERS};

__asm__(".text\n.globl kf_enter\n.hidden kf_enter\nkf_enter:\n" KF_ENTER);

/* The first register that the last call did not give back; NULL where it gave back all. */
const char *lost_register(void) {
    const uint64_t lost = kf_lost_registers;
    kf_lost_registers = 0;
    return lost != 0 ? REGISTERS[__builtin_ctzll(lost)] : NULL;
}
