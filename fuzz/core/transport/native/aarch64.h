/* aarch64.h: what the worker knows of AArch64; see machine.h. */
#define KF_FEATURES(X)                                                      \
    X("neon", , getauxval(AT_HWCAP) & HWCAP_ASIMD) /* every compiler may */ \
    X("sve", __ARM_FEATURE_SVE, getauxval(AT_HWCAP) & HWCAP_SVE)            \
    X("sve2", __ARM_FEATURE_SVE2, getauxval(AT_HWCAP2) & HWCAP2_SVE2)       \
    X("sme", __ARM_FEATURE_SME, getauxval(AT_HWCAP2) & HWCAP2_SME)

#ifdef KF_MACHINE_H
#include <asm/hwcap.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#define KF_ARCH "aarch64"

/* Implementer and part number. */
static inline void put_processor(FILE *out) {
    uint64_t midr = 0;
    if (getauxval(AT_HWCAP) & HWCAP_CPUID) __asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
    fprintf(out, "0x%02x 0x%03x", (unsigned)(midr >> 24 & 0xff), (unsigned)(midr >> 4 & 0xfff));
}

static inline void put_settings(FILE *out) {
    uint64_t bytes = 16;
    if (getauxval(AT_HWCAP) & HWCAP_SVE) __asm__ volatile(".arch_extension sve\n\trdvl %0, #1" : "=r"(bytes));
    fprintf(out, "vl=%d ", (int)bytes * 8);
    if (!(getauxval(AT_HWCAP2) & HWCAP2_SME)) return;
    /* rdsvl x0, #1: clang 14 has no word for it. */
    __asm__ volatile(".inst 0x04bf5820\n\tmov %0, x0" : "=r"(bytes) : : "x0");
    fprintf(out, "svl=%d ", (int)bytes * 8);
}

/* QEMU's "max" processor has implementer 0 and part number 'Q' (0x51), which no real one has. */
static inline const char *emulator(void) {
    uint64_t midr;
    if (!(getauxval(AT_HWCAP) & HWCAP_CPUID)) return "unknown";
    __asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
    return (midr >> 24 & 0xff) == 0 && (midr >> 4 & 0xfff) == 0x51 ? "tcg" : "none";
}

static inline uint64_t read_fpcr(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}

static inline bool flushes(void) {
    return (read_fpcr() >> 24 & 1) != 0;
}

static inline void look_at_floating_point(saying *say) {
    const uint64_t fpcr = read_fpcr();
    if (fpcr >> 24 & 1) say("floating-point environment: subnormals are flushed to zero");
    if (fpcr >> 22 & 3) say("floating-point environment: another rounding mode");
    if (fpcr & ~((uint64_t)7 << 22)) say("floating-point environment: FPCR is %llx", (unsigned long long)fpcr);
}

/* The exception syndrome is one of the optional records that follow the registers. */
static inline int access_of(const ucontext_t *context) {
    const uint8_t *record = context->uc_mcontext.__reserved, *end = record + sizeof context->uc_mcontext.__reserved;
    while (end - record >= 16) {
        uint32_t magic, size;
        uint64_t syndrome;
        memcpy(&magic, record, 4);
        memcpy(&size, record + 4, 4);
        if (magic == 0 || size < 8) break;
        if (magic == 0x45535201) {
            memcpy(&syndrome, record + 8, 8);
            return syndrome >> 6 & 1 ? ACCESS_WRITE : ACCESS_READ;
        }
        record += size;
    }
    return ACCESS_UNKNOWN;
}

/* Bit 0: SVE; bit 1: SME; neither: Advanced SIMD. */
static inline uint32_t widest_registers(void) {
    return (getauxval(AT_HWCAP) & HWCAP_SVE ? 1 : 0) | (getauxval(AT_HWCAP2) & HWCAP2_SME ? 2 : 0);
}

/* AAPCS64, 6.1.1 and 6.1.2; of v8 to v15 the low 64 bits. A caller that knows nothing of SME has neither mode on. */
#define KF_REGISTERS                                                                                                   \
    "streaming mode (PSTATE.SM)", "the storage ZA (PSTATE.ZA)", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "d8", "d9", "d10", "d11", "d12", "d13",      \
    "d14", "d15"

#define KF_MARK(k, name) "    mov " #name ", #0x5a0 + " #k "\n"
#define KF_LOOK(k, name) "    cmp " #name ", #0x5a0 + " #k "\n    b.eq 1f\n    orr w9, w9, #1 << " #k "\n1:\n"
#define KF_MARK_D(k, name) "    mov x9, #0x5a0 + " #k "\n    ins v" #name ".d[0], x9\n"
#define KF_MARK_Z(k, name) "    mov x9, #0x5a0 + " #k "\n    mov z" #name ".d, p0/m, x9\n" /* the rest stays */
#define KF_LOOK_D(k, name) "    fmov x10, d" #name "\n" KF_LOOK(k, x10)
#define KF_EACH(X) X(2, x19) X(3, x20) X(4, x21) X(5, x22) X(6, x23) X(7, x24) X(8, x25) X(9, x26) X(10, x27) X(11, x28)
#define KF_EACH_D(X) X(12, 8) X(13, 9) X(14, 10) X(15, 11) X(16, 12) X(17, 13) X(18, 14) X(19, 15)
#define KF_EACH_PAIR(do)                                                                                               \
    do " x19, x20, [sp, #16]\n" do " x21, x22, [sp, #32]\n" do " x23, x24, [sp, #48]\n" do " x25, x26, [sp, #64]\n"    \
    do " x27, x28, [sp, #80]\n" do " d8, d9, [sp, #96]\n" do " d10, d11, [sp, #112]\n" do " d12, d13, [sp, #128]\n"    \
    do " d14, d15, [sp, #144]\n"

#define KF_EACH_OF_16(do, of)                                                                                          \
    do(of##0) do(of##1) do(of##2) do(of##3) do(of##4) do(of##5) do(of##6) do(of##7) do(of##8) do(of##9) do(of##10)     \
    do(of##11) do(of##12) do(of##13) do(of##14) do(of##15)
#define KF_UPPER(do, of)                                                                                               \
    do(of##16) do(of##17) do(of##18) do(of##19) do(of##20) do(of##21) do(of##22) do(of##23) do(of##24) do(of##25)      \
    do(of##26) do(of##27) do(of##28) do(of##29) do(of##30) do(of##31)
#define KF_SCALARS(do)                                                                                                 \
    do(x1) do(x2) do(x3) do(x4) do(x5) do(x6) do(x7) do(x8) do(x9) do(x10) do(x11) do(x12) do(x13) do(x14) do(x15)
#define KF_FILL(name) "    ldr " #name ", [x10]\n"
#define KF_FILL_SCALAR(name) "    mov " #name ", x17\n"
#define KF_FILL_REGISTERS                                                                                              \
    "    adrp x9, kf_widest\n    ldr w9, [x9, #:lo12:kf_widest]\n"                                                     \
    "    adrp x10, kf_poison\n    add x10, x10, #:lo12:kf_poison\n    ldr x17, [x10]\n    tbnz w9, #0, 2f\n"           \
    KF_EACH_OF_16(KF_FILL, q) KF_UPPER(KF_FILL, q) KF_EACH_D(KF_MARK_D) "    b 3f\n2:\n    .arch_extension sve\n"      \
    KF_EACH_OF_16(KF_FILL, z) KF_UPPER(KF_FILL, z) "    ptrue p0.d, vl1\n" KF_EACH_D(KF_MARK_Z)                        \
    KF_EACH_OF_16(KF_FILL, p) "3:\n" KF_SCALARS(KF_FILL_SCALAR)

/* SVCR has the modes in its two lowest bits. What the kernel left on is left now: our own code may not run there. */
#define KF_LEAVE_MODES                                                                                                 \
    "    adrp x10, kf_widest\n    ldr w10, [x10, #:lo12:kf_widest]\n    tbz w10, #1, 1f\n    .arch_extension sme\n"    \
    "    mrs x10, S3_3_C4_C2_2\n    and w10, w10, #3\n    orr w9, w9, w10\n    cbz w10, 1f\n    smstop\n1:\n"

#define KF_ENTER                                                                                                       \
    "    stp x29, x30, [sp, #-160]!\n"                                                                                 \
    KF_EACH_PAIR("    stp")                                                                                            \
    "    mov x16, x0\n    mov x0, x1\n"                                                                                \
    KF_EACH(KF_MARK) KF_FILL_REGISTERS                                                                                 \
    "    blr x16\n    mov w9, #0\n"                                                                                    \
    KF_EACH(KF_LOOK) KF_EACH_D(KF_LOOK_D) KF_LEAVE_MODES                                                               \
    "    adrp x10, kf_lost_registers\n    str w9, [x10, #:lo12:kf_lost_registers]\n"                                   \
    KF_EACH_PAIR("    ldp")                                                                                            \
    "    ldp x29, x30, [sp], #160\n    ret\n"
#endif
