/* x86_64.h: what the worker knows of x86-64; see machine.h. */
#define KF_FEATURES(X)                                              \
    X("avx2", __AVX2__, __builtin_cpu_supports("avx2"))             \
    X("fma", __FMA__, __builtin_cpu_supports("fma"))                \
    X("f16c", __F16C__, has_f16c())                                 \
    X("avx512f", __AVX512F__, __builtin_cpu_supports("avx512f"))

#ifdef KF_MACHINE_H
#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#define KF_ARCH "x86_64"

static inline bool has_f16c(void) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) && __builtin_cpu_supports("avx");
}

static inline void put_processor(FILE *out) {
    unsigned eax = 0, name[4] = {0}, ebx = 0, ecx = 0, edx = 0;
    __get_cpuid(0, &eax, &name[0], &name[2], &name[1]);
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    const unsigned family = (eax >> 8 & 15) + (eax >> 20 & 255), model = (eax >> 4 & 15) | (eax >> 12 & 0xf0);
    fprintf(out, "%s %u %u", (const char *)name, family, model);
}

static inline void put_settings(FILE *out) {
    fprintf(out, "vl=%d ", __builtin_cpu_supports("avx512f") ? 512 : __builtin_cpu_supports("avx2") ? 256 : 128);
}

/* A hypervisor names itself in leaf 0x40000000; QEMU's translator calls itself TCGTCGTCGTCG. A plain virtual machine
 * runs the instructions on the hardware, so that it does not count. */
static inline const char *emulator(void) {
    unsigned eax = 0, name[4] = {0}, ecx = 0, ebx = 0, edx = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1u << 31)) return "none";
    __cpuid(0x40000000, eax, name[0], name[1], name[2]);
    return memcmp(name, "TCGTCGTCGTCG", 12) == 0 ? "tcg" : "none";
}

enum { DAZ = 0x40, FTZ = 0x8000 }; /* bits of MXCSR: operands, and results */

static inline bool flushes(void) {
    return (__builtin_ia32_stmxcsr() & (FTZ | DAZ)) != 0;
}

static inline void look_at_floating_point(saying *say) {
    enum { MXCSR = 0x1f80, X87 = 0x037f, FLAGS = 0x3f, ROUND = 0x6000, MASKS = 0x1f80 };
    unsigned short x87;
    const unsigned mxcsr = __builtin_ia32_stmxcsr() & ~(unsigned)FLAGS;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    const unsigned changed = mxcsr ^ MXCSR;
    if (changed & FTZ) say("floating-point environment: subnormal results are flushed to zero");
    if (changed & DAZ) say("floating-point environment: subnormal operands are taken as zero");
    if (changed & ROUND) say("floating-point environment: another rounding mode");
    if (changed & MASKS) say("floating-point environment: exceptions are unmasked");
    if (x87 != X87) say("floating-point environment: x87 control word %04x, not %04x", x87, X87);
}

static inline int access_of(const ucontext_t *context) {
    enum { PAGE_FAULT_WRITE = 2 };
    return context->uc_mcontext.gregs[REG_ERR] & PAGE_FAULT_WRITE ? ACCESS_WRITE : ACCESS_READ;
}

/* 2: AVX-512 with masks of 64 bits; 1: AVX; 0: SSE. */
static inline uint32_t widest_registers(void) {
    return __builtin_cpu_supports("avx512bw") ? 2 : __builtin_cpu_supports("avx") ? 1 : 0;
}

/* System V ABI, 3.2.1. */
#define KF_REGISTERS "rbx", "rbp", "r12", "r13", "r14", "r15", "the direction flag"

#define KF_MARK(k, name) "    movq $0x5a" #k ", %" #name "\n"
#define KF_LOOK(k, name) "    cmpq $0x5a" #k ", %" #name "\n    je 1f\n    orl $1 << " #k ", %ecx\n1:\n"
#define KF_EACH(X) X(0, rbx) X(1, rbp) X(2, r12) X(3, r13) X(4, r14) X(5, r15)

#define KF_16(do, of) do(of##0) do(of##1) do(of##2) do(of##3) do(of##4) do(of##5) do(of##6) do(of##7) do(of##8) do(of##9)   \
    do(of##10) do(of##11) do(of##12) do(of##13) do(of##14) do(of##15)
#define KF_UPPER(do, of) do(of##16) do(of##17) do(of##18) do(of##19) do(of##20) do(of##21) do(of##22) do(of##23)         \
    do(of##24) do(of##25) do(of##26) do(of##27) do(of##28) do(of##29) do(of##30) do(of##31)
#define KF_MASKS(do) do(k0) do(k1) do(k2) do(k3) do(k4) do(k5) do(k6) do(k7)
#define KF_SCALARS(do) do(rcx) do(rdx) do(rsi) do(r8) do(r9) do(r10)
#define KF_FILL_SSE(name) "    movups kf_poison(%rip), %" #name "\n"
#define KF_FILL_AVX(name) "    vmovups kf_poison(%rip), %" #name "\n"
#define KF_FILL_MASK(name) "    kmovq kf_poison(%rip), %" #name "\n"
#define KF_FILL_SCALAR(name) "    movq %rax, %" #name "\n"
#define KF_FILL_VECTORS                                                                                                  \
    "    cmpl $1, kf_widest(%rip)\n    je 2f\n    ja 3f\n"                                                               \
    KF_16(KF_FILL_SSE, xmm) "    jmp 4f\n2:\n"                                                                           \
    KF_16(KF_FILL_AVX, ymm) "    jmp 4f\n3:\n"                                                                           \
    KF_16(KF_FILL_AVX, zmm) KF_UPPER(KF_FILL_AVX, zmm) KF_MASKS(KF_FILL_MASK) "4:\n"

/* Vectors that are in use beyond 128 bits slow down instructions that know no others: ours too. */
#define KF_ENTER                                                                                                     \
    "    pushq %rbx\n    pushq %rbp\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"               \
    "    subq $8, %rsp\n" /* the stack is aligned to 16 bytes at a call */                                           \
    "    movq %rdi, %r11\n    movq %rsi, %rdi\n"                                                                     \
    KF_EACH(KF_MARK) KF_FILL_VECTORS "    movq kf_poison(%rip), %rax\n" KF_SCALARS(KF_FILL_SCALAR)                   \
    "    call *%r11\n    xorl %ecx, %ecx\n"                                                                          \
    KF_EACH(KF_LOOK)                                                                                                 \
    "    pushfq\n    popq %rdx\n    cld\n"                                                                           \
    "    testl $0x400, %edx\n    je 1f\n    orl $1 << 6, %ecx\n1:\n"                                                 \
    "    movl %ecx, kf_lost_registers(%rip)\n"                                                                       \
    "    cmpl $0, kf_widest(%rip)\n    je 1f\n    vzeroupper\n1:\n"                                                  \
    "    addq $8, %rsp\n"                                                                                            \
    "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbp\n    popq %rbx\n    ret\n"
#endif
