/* convention.c: enters the kernel, and sees whether the registers that belong to the caller come back. Compilers keep the
 * convention; a kernel in assembler, or with a clobber left out, breaks it, and its caller computes something else later.
 * x86-64: System V ABI, 3.2.1. AArch64: AAPCS64, 6.1.1 and 6.1.2, of v8 to v15 the low 64 bits. */
#include "worker.h"

__attribute__((used, visibility("hidden"))) uint32_t kf_lost_registers;

/* While the kernel runs, register number k of a list holds 0x5a0 + k. Afterwards bit k says that it holds something else. */
#if defined(__x86_64__)
static const char *const REGISTERS[] = {"rbx", "rbp", "r12", "r13", "r14", "r15", "the direction flag"};

#define MARK(k, name) "    movq $0x5a" #k ", %" #name "\n"
#define LOOK(k, name) "    cmpq $0x5a" #k ", %" #name "\n    je 1f\n    orl $1 << " #k ", %ecx\n1:\n"
#define EACH(X) X(0, rbx) X(1, rbp) X(2, r12) X(3, r13) X(4, r14) X(5, r15)

__asm__(".text\n.globl kf_enter\n.hidden kf_enter\nkf_enter:\n"
        "    pushq %rbx\n    pushq %rbp\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    subq $8, %rsp\n" /* the stack is aligned to 16 bytes at a call */
        "    movq %rdi, %rax\n    movq %rsi, %rdi\n"
        EACH(MARK)
        "    call *%rax\n    xorl %ecx, %ecx\n"
        EACH(LOOK)
        "    pushfq\n    popq %rdx\n    cld\n"
        "    testl $0x400, %edx\n    je 1f\n    orl $1 << 6, %ecx\n1:\n"
        "    movl %ecx, kf_lost_registers(%rip)\n"
        "    addq $8, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbp\n    popq %rbx\n    ret\n");

#else
static const char *const REGISTERS[] = {"x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28",
                                        "d8",  "d9",  "d10", "d11", "d12", "d13", "d14", "d15"};

#define MARK(k, name) "    mov " #name ", #0x5a0 + " #k "\n"
#define LOOK(k, name) "    cmp " #name ", #0x5a0 + " #k "\n    b.eq 1f\n    orr w9, w9, #1 << " #k "\n1:\n"
#define MARK_D(k, name) "    mov x10, #0x5a0 + " #k "\n    fmov " #name ", x10\n"
#define LOOK_D(k, name) "    fmov x10, " #name "\n" LOOK(k, x10)
#define EACH(X) X(0, x19) X(1, x20) X(2, x21) X(3, x22) X(4, x23) X(5, x24) X(6, x25) X(7, x26) X(8, x27) X(9, x28)
#define EACH_D(X) X(10, d8) X(11, d9) X(12, d10) X(13, d11) X(14, d12) X(15, d13) X(16, d14) X(17, d15)
#define EACH_PAIR(do) \
    do " x19, x20, [sp, #16]\n" do " x21, x22, [sp, #32]\n" do " x23, x24, [sp, #48]\n" do " x25, x26, [sp, #64]\n" \
    do " x27, x28, [sp, #80]\n" do " d8, d9, [sp, #96]\n" do " d10, d11, [sp, #112]\n" do " d12, d13, [sp, #128]\n" \
    do " d14, d15, [sp, #144]\n"

__asm__(".text\n.globl kf_enter\n.hidden kf_enter\nkf_enter:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        EACH_PAIR("    stp")
        "    mov x11, x0\n    mov x0, x1\n"
        EACH(MARK) EACH_D(MARK_D)
        "    blr x11\n    mov w9, #0\n"
        EACH(LOOK) EACH_D(LOOK_D)
        "    adrp x10, kf_lost_registers\n    str w9, [x10, #:lo12:kf_lost_registers]\n"
        EACH_PAIR("    ldp")
        "    ldp x29, x30, [sp], #160\n    ret\n");
#endif

/* The first register that the last call did not give back; NULL where it gave back all. */
const char *lost_register(void) {
    const uint32_t lost = kf_lost_registers;
    kf_lost_registers = 0;
    return lost != 0 ? REGISTERS[__builtin_ctz(lost)] : NULL;
}
