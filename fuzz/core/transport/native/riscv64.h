/* riscv64.h: what the worker knows of 64-bit RISC-V; see machine.h. */
#define KF_FEATURES(X)                                      \
    X("rvv", __riscv_v_intrinsic, runs(read_vector_length)) \
    X("zfh", __riscv_zfh, runs(add_halves))                 \
    X("zvfh", __riscv_zvfh, runs(add_vectors_of_halves))

#ifdef KF_MACHINE_H
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#define KF_ARCH "riscv64"
#define KF_WITH(extension) ".option push\n    .option arch, +" extension "\n"
#define KF_WITHOUT ".option pop\n"

static inline void put_processor(FILE *out) {
    fputs("unknown", out);
}

static sigjmp_buf cannot_run;

static inline void on_illegal(int number) {
    (void)number;
    siglongjmp(cannot_run, 1);
}

/* Whether the processor runs an instruction. QEMU 7.2 does not say by AT_HWCAP what it has. */
static inline bool runs(void instruction(void)) {
    const struct sigaction action = {.sa_handler = on_illegal};
    struct sigaction before;
    volatile bool ran = false;
    sigaction(SIGILL, &action, &before);
    if (sigsetjmp(cannot_run, 1) == 0) {
        instruction();
        ran = true;
    }
    sigaction(SIGILL, &before, NULL);
    return ran;
}

static inline void read_vector_length(void) {
    __asm__ volatile(KF_WITH("v") "    csrr t0, vlenb\n" KF_WITHOUT ::: "t0");
}

static inline void add_halves(void) {
    __asm__ volatile(KF_WITH("zfh") "    fadd.h ft0, ft0, ft0\n" KF_WITHOUT ::: "ft0");
}

static inline void add_vectors_of_halves(void) {
    __asm__ volatile(KF_WITH("v") "    vsetivli t0, 1, e16, m1, ta, ma\n    vfadd.vv v8, v8, v8\n" KF_WITHOUT ::: "t0");
}

/* The policies are what is left of lanes of zeros that an instruction passes over: of the second lane, where one lane was
 * asked for, and of a lane that the mask leaves out. */
static inline void put_settings(FILE *out) {
    uint64_t bytes, tail, masked;
    if (!runs(read_vector_length)) return;
    __asm__ volatile(KF_WITH("v")
                     "    csrr %0, vlenb\n"
                     "    vsetivli t0, 2, e8, m1, ta, ma\n    vmv.v.i v8, 0\n"
                     "    vsetivli t0, 1, e8, m1, ta, ma\n    vmv.v.i v8, 1\n"
                     "    vsetivli t0, 1, e16, m1, ta, ma\n    vmv.x.s %1, v8\n"
                     "    vmv.v.i v0, 0\n    vmv.v.i v8, 0\n    vadd.vi v8, v8, 1, v0.t\n    vmv.x.s %2, v8\n" KF_WITHOUT
                     : "=r"(bytes), "=r"(tail), "=r"(masked)::"t0");
    const char *const left[2] = {"kept", "ones"};
    fprintf(out, "vl=%d tail=%s masked=%s ", (int)bytes * 8, left[(tail >> 8 & 0xff) == 0xff], left[(masked & 0xff) == 0xff]);
}

static inline const char *emulator(void) {
    return "unknown";
}

/* There is no mode for it. */
static inline bool flushes(void) {
    return false;
}

static inline void look_at_floating_point(saying *say) {
    uint64_t rounding;
    __asm__ volatile("frrm %0" : "=r"(rounding));
    if (rounding != 0) say("floating-point environment: another rounding mode");
}

static inline int access_of(const ucontext_t *context) {
    (void)context;
    return ACCESS_UNKNOWN;
}

/* 1: there are vectors; 0: there are none. */
static inline uint32_t widest_registers(void) {
    return runs(read_vector_length);
}

/* RISC-V ELF psABI, 1.1 and 1.2. */
#define KF_REGISTERS                                                                                          \
    "s0", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "fs0", "fs1", "fs2", "fs3",     \
    "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11"

#define KF_EACH(X) \
    X(0, s0) X(1, s1) X(2, s2) X(3, s3) X(4, s4) X(5, s5) X(6, s6) X(7, s7) X(8, s8) X(9, s9) X(10, s10) X(11, s11)
#define KF_EACH_F(X)                                                                                          \
    X(12, fs0) X(13, fs1) X(14, fs2) X(15, fs3) X(16, fs4) X(17, fs5) X(18, fs6) X(19, fs7) X(20, fs8)        \
    X(21, fs9) X(22, fs10) X(23, fs11)
#define KF_SAVE(k, name) "    sd " #name ", 8 * " #k "(sp)\n"
#define KF_SAVE_F(k, name) "    fsd " #name ", 8 * " #k "(sp)\n"
#define KF_LOAD(k, name) "    ld " #name ", 8 * " #k "(sp)\n"
#define KF_LOAD_F(k, name) "    fld " #name ", 8 * " #k "(sp)\n"
#define KF_MARK(k, name) "    li " #name ", 0x5a0 + " #k "\n"
#define KF_MARK_F(k, name) "    li t0, 0x5a0 + " #k "\n    fmv.d.x " #name ", t0\n"
#define KF_LOOK(k, name) "    li t0, 0x5a0 + " #k "\n    beq " #name ", t0, 1f\n    li t0, 1 << " #k "\n    or t2, t2, t0\n1:\n"
#define KF_LOOK_F(k, name) "    fmv.x.d t1, " #name "\n" KF_LOOK(k, t1)

#define KF_OF_8(do, of) do(of##0) do(of##1) do(of##2) do(of##3) do(of##4) do(of##5) do(of##6) do(of##7)
#define KF_VECTORS(do)                                                                                        \
    KF_OF_8(do, v) do(v8) do(v9) KF_OF_8(do, v1) do(v18) do(v19) KF_OF_8(do, v2) do(v28) do(v29) do(v30) do(v31)
#define KF_FLOATS(do) KF_OF_8(do, ft) do(ft8) do(ft9) do(ft10) do(ft11) KF_OF_8(do, fa)
#define KF_SCALARS(do)                                                                                        \
    do(a1) do(a2) do(a3) do(a4) do(a5) do(a6) do(a7) do(t2) do(t3) do(t4) do(t5) do(t6)
#define KF_FILL_VECTOR(name) "    vl1re8.v " #name ", (t0)\n"
#define KF_FILL_FLOAT(name) "    fld " #name ", 0(t0)\n"
#define KF_FILL_SCALAR(name) "    ld " #name ", 0(t0)\n"
#define KF_FILL_REGISTERS                                                                                     \
    "    lla t0, kf_widest\n    lw t2, 0(t0)\n    lla t0, kf_poison\n    beqz t2, 1f\n    " KF_WITH("v")       \
    KF_VECTORS(KF_FILL_VECTOR) "    " KF_WITHOUT "1:\n" KF_FLOATS(KF_FILL_FLOAT) KF_SCALARS(KF_FILL_SCALAR)   \
    "    ld t0, 0(t0)\n"

#define KF_ENTER                                                                                              \
    "    addi sp, sp, -208\n    sd ra, 192(sp)\n"                                                             \
    KF_EACH(KF_SAVE) KF_EACH_F(KF_SAVE_F)                                                                     \
    "    mv t1, a0\n    mv a0, a1\n"                                                                          \
    KF_EACH(KF_MARK) KF_EACH_F(KF_MARK_F) KF_FILL_REGISTERS                                                                    \
    "    jalr t1\n    li t2, 0\n"                                                                             \
    KF_EACH(KF_LOOK) KF_EACH_F(KF_LOOK_F)                                                                     \
    "    lla t0, kf_lost_registers\n    sw t2, 0(t0)\n"                                                       \
    KF_EACH(KF_LOAD) KF_EACH_F(KF_LOAD_F)                                                                     \
    "    ld ra, 192(sp)\n    addi sp, sp, 208\n    ret\n"
#endif
