/* ppc64le.h: what the worker knows of 64-bit POWER in little-endian order; see machine.h. */
#define KF_FEATURES(X) X("vsx", __VSX__, getauxval(AT_HWCAP) & PPC_FEATURE_HAS_VSX)

#ifdef KF_MACHINE_H
#include <asm/cputable.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#define KF_ARCH "ppc64le"

static inline void put_processor(FILE *out) {
    const char *name = (const char *)getauxval(AT_PLATFORM);
    fputs(name != NULL ? name : "unknown", out);
}

static inline void put_settings(FILE *out) {
    (void)out;
}

static inline const char *emulator(void) {
    return "unknown";
}

/* The lower half of FPSCR, which has what a program may set. */
static inline uint32_t read_fpscr(void) {
    double status;
    uint64_t bits;
    __asm__ volatile("mffs %0" : "=d"(status));
    memcpy(&bits, &status, sizeof bits);
    return (uint32_t)bits;
}

enum { ROUND = 3, NON_IEEE = 4, ENABLED = 0xf8 }; /* bits of FPSCR */

static inline bool flushes(void) {
    return (read_fpscr() & NON_IEEE) != 0;
}

static inline void look_at_floating_point(saying *say) {
    const uint32_t fpscr = read_fpscr();
    if (fpscr & NON_IEEE) say("floating-point environment: subnormals are flushed to zero");
    if (fpscr & ROUND) say("floating-point environment: another rounding mode");
    if (fpscr & ENABLED) say("floating-point environment: exceptions are unmasked");
}

/* QEMU 7.2 leaves DSISR out of what it hands to a signal's handler. */
static inline int access_of(const ucontext_t *context) {
    (void)context;
    return ACCESS_UNKNOWN;
}

/* Every processor of this architecture has them all. */
static inline uint32_t widest_registers(void) {
    return 0;
}

/* 64-bit ELF V2 ABI, 2.2.2; of the vector registers the upper halves. */
#define KF_REGISTERS                                                                                                   \
    "r14", "r15", "r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29",    \
    "r30", "r31", "f14", "f15", "f16", "f17", "f18", "f19", "f20", "f21", "f22", "f23", "f24", "f25", "f26", "f27",    \
    "f28", "f29", "f30", "f31", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31"

/* X(k, n): register n is number k of the list; of vector registers n is their number among all 64. */
#define KF_EACH(X)                                                                                                     \
    X(0, 14) X(1, 15) X(2, 16) X(3, 17) X(4, 18) X(5, 19) X(6, 20) X(7, 21) X(8, 22) X(9, 23) X(10, 24) X(11, 25)      \
    X(12, 26) X(13, 27) X(14, 28) X(15, 29) X(16, 30) X(17, 31)
#define KF_EACH_F(X)                                                                                                   \
    X(18, 14) X(19, 15) X(20, 16) X(21, 17) X(22, 18) X(23, 19) X(24, 20) X(25, 21) X(26, 22) X(27, 23) X(28, 24)      \
    X(29, 25) X(30, 26) X(31, 27) X(32, 28) X(33, 29) X(34, 30) X(35, 31)
#define KF_EACH_V(X)                                                                                                   \
    X(36, 52) X(37, 53) X(38, 54) X(39, 55) X(40, 56) X(41, 57) X(42, 58) X(43, 59) X(44, 60) X(45, 61) X(46, 62)      \
    X(47, 63)
#define KF_SAVE(k, n) "    std " #n ", 96 + 8 * " #k "(1)\n"
#define KF_SAVE_F(k, n) "    stfd " #n ", 96 + 8 * " #k "(1)\n"
#define KF_SAVE_V(k, n) "    li 0, 96 + 288 + 16 * (" #k " - 36)\n    stxvd2x " #n ", 1, 0\n"
#define KF_LOAD(k, n) "    ld " #n ", 96 + 8 * " #k "(1)\n"
#define KF_LOAD_F(k, n) "    lfd " #n ", 96 + 8 * " #k "(1)\n"
#define KF_LOAD_V(k, n) "    li 0, 96 + 288 + 16 * (" #k " - 36)\n    lxvd2x " #n ", 1, 0\n"
#define KF_MARK(k, n) "    li " #n ", 0x5a0 + " #k "\n"
#define KF_MARK_V(k, n) "    li 0, 0x5a0 + " #k "\n    mtvsrd " #n ", 0\n"
#define KF_LOOK(k, n) "    cmpdi " #n ", 0x5a0 + " #k "\n    beq 1f\n    li 0, 1\n    sldi 0, 0, " #k "\n    or 11, 11, 0\n1:\n"
#define KF_LOOK_V(k, n) "    mfvsrd 12, " #n "\n" KF_LOOK(k, 12)

#define KF_OF_10(do, of) do(of##0) do(of##1) do(of##2) do(of##3) do(of##4) do(of##5) do(of##6) do(of##7) do(of##8) do(of##9)
#define KF_FILL_VECTOR(n) "    lxvd2x " #n ", 0, 11\n"
#define KF_FILL_SCALAR(n) "    ld " #n ", 0(11)\n"
#define KF_FILL_VECTORS                                                                                                \
    KF_OF_10(KF_FILL_VECTOR, ) KF_OF_10(KF_FILL_VECTOR, 1) KF_OF_10(KF_FILL_VECTOR, 2)                                 \
    KF_OF_10(KF_FILL_VECTOR, 3) KF_OF_10(KF_FILL_VECTOR, 4) KF_FILL_VECTOR(50) KF_FILL_VECTOR(51)
#define KF_FILL_SCALARS                                                                                                \
    KF_FILL_SCALAR(0) KF_FILL_SCALAR(4) KF_FILL_SCALAR(5) KF_FILL_SCALAR(6) KF_FILL_SCALAR(7) KF_FILL_SCALAR(8)        \
    KF_FILL_SCALAR(9) KF_FILL_SCALAR(10) KF_FILL_SCALAR(11)

/* 96 bytes are what a callee may write to; r12 tells it where it is. */
#define KF_ENTER                                                                                                       \
    "0:  addis 2, 12, .TOC.-0b@ha\n    addi 2, 2, .TOC.-0b@l\n    .localentry kf_enter, .-kf_enter\n"                  \
    "    mflr 0\n    std 0, 16(1)\n    mfcr 0\n    std 0, 8(1)\n    stdu 1, -576(1)\n    std 2, 24(1)\n"               \
    KF_EACH(KF_SAVE) KF_EACH_F(KF_SAVE_F) KF_EACH_V(KF_SAVE_V)                                                         \
    "    mr 12, 3\n    mr 3, 4\n    mtctr 12\n    addis 11, 2, kf_poison@toc@ha\n    addi 11, 11, kf_poison@toc@l\n"   \
    KF_FILL_VECTORS KF_EACH(KF_MARK) KF_EACH_F(KF_MARK_V) KF_EACH_V(KF_MARK_V) KF_FILL_SCALARS                         \
    "    bctrl\n    ld 2, 24(1)\n    li 11, 0\n"                                                                       \
    KF_EACH(KF_LOOK) KF_EACH_F(KF_LOOK_V) KF_EACH_V(KF_LOOK_V)                                                         \
    "    addis 12, 2, kf_lost_registers@toc@ha\n    std 11, kf_lost_registers@toc@l(12)\n"                             \
    KF_EACH(KF_LOAD) KF_EACH_F(KF_LOAD_F) KF_EACH_V(KF_LOAD_V)                                                         \
    "    addi 1, 1, 576\n    ld 0, 8(1)\n    mtcr 0\n    ld 0, 16(1)\n    mtlr 0\n    blr\n"
#endif
