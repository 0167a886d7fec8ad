/* attest.c: says what this worker really is, as "name=value" lines. Every value is observed, none is configured. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "worker.h"

extern const char kf_kernel_compiler[], kf_kernel_flags[], kf_kernel_digest[], kf_kernel_needs[];

#if defined(__x86_64__)
#include <cpuid.h>

static const char ARCH[] = "x86_64";

static void put_features(FILE *out) {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) fputs("avx2 ", out);
    if (__builtin_cpu_supports("fma")) fputs("fma ", out);
    const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
    if (f16c && __builtin_cpu_supports("avx")) fputs("f16c ", out);
    if (__builtin_cpu_supports("avx512f")) fputs("avx512f ", out);
}

static void put_processor(FILE *out) {
    unsigned eax = 0, name[4] = {0}, ebx = 0, ecx = 0, edx = 0;
    __get_cpuid(0, &eax, &name[0], &name[2], &name[1]);
    __get_cpuid(1, &eax, &ebx, &ecx, &edx);
    const unsigned family = (eax >> 8 & 15) + (eax >> 20 & 255), model = (eax >> 4 & 15) | (eax >> 12 & 0xf0);
    fprintf(out, "%s %u %u", (const char *)name, family, model);
}

static int vector_bits(void) {
    return __builtin_cpu_supports("avx512f") ? 512 : __builtin_cpu_supports("avx2") ? 256 : 128;
}

/* A hypervisor names itself in leaf 0x40000000; QEMU's translator calls itself TCGTCGTCGTCG. A plain virtual machine
 * runs the instructions on the hardware, so that it does not count. */
static const char *emulator(void) {
    unsigned eax = 0, name[4] = {0}, ecx = 0, ebx = 0, edx = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1u << 31)) return "none";
    __cpuid(0x40000000, eax, name[0], name[1], name[2]);
    return memcmp(name, "TCGTCGTCGTCG", 12) == 0 ? "tcg" : "none";
}

static bool flushes(void) {
    const unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x0040;
    return (__builtin_ia32_stmxcsr() & (flush_to_zero | denormals_are_zero)) != 0;
}

#elif defined(__aarch64__)
#include <asm/hwcap.h>

static const char ARCH[] = "aarch64";

static void put_features(FILE *out) {
    if (getauxval(AT_HWCAP) & HWCAP_ASIMD) fputs("neon ", out);
    if (getauxval(AT_HWCAP) & HWCAP_SVE) fputs("sve ", out);
    if (getauxval(AT_HWCAP2) & HWCAP2_SVE2) fputs("sve2 ", out);
}

/* Implementer and part number. */
static void put_processor(FILE *out) {
    uint64_t midr = 0;
    if (getauxval(AT_HWCAP) & HWCAP_CPUID) __asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
    fprintf(out, "0x%02x 0x%03x", (unsigned)(midr >> 24 & 0xff), (unsigned)(midr >> 4 & 0xfff));
}

static int vector_bits(void) {
    uint64_t bytes = 16;
    if (getauxval(AT_HWCAP) & HWCAP_SVE) __asm__ volatile(".arch_extension sve\n\trdvl %0, #1" : "=r"(bytes));
    return (int)bytes * 8;
}

/* QEMU's "max" processor has implementer 0 and part number 'Q' (0x51), which no real one has. */
static const char *emulator(void) {
    uint64_t midr;
    if (!(getauxval(AT_HWCAP) & HWCAP_CPUID)) return "unknown";
    __asm__ volatile("mrs %0, midr_el1" : "=r"(midr));
    return (midr >> 24 & 0xff) == 0 && (midr >> 4 & 0xfff) == 0x51 ? "tcg" : "none";
}

static bool flushes(void) {
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return (fpcr >> 24 & 1) != 0;
}

#else
#error "kernelfuzz runs C kernels on x86_64 and aarch64"
#endif

/* Sends the hello frame: magic, length, lines. */
void attest(void) {
    char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out == NULL) broken_frame("cannot attest");
    fprintf(out, "op=%s\narch=%s\nprocessor=", op_name, ARCH);
    put_processor(out);
    fputs("\nfeatures=", out);
    put_features(out);
    fprintf(out, "\nneeds=%s\nvector_bits=%d\nemulator=%s\n", kf_kernel_needs, vector_bits(), emulator());
    fprintf(out, "compiler=%s\nflags=%s\ndigest=%s\n", kf_kernel_compiler, kf_kernel_flags, kf_kernel_digest);
    fprintf(out, "pid=%d\n", getpid());
    fprintf(out, "page=%ld\nflushes=%s\n", sysconf(_SC_PAGESIZE), flushes() ? "yes" : "no");
    fprintf(out, "masked_loads=%s\n", masked_loads_misread() ? "misread" : "right");
    const uint32_t head[2] = {HELLO_MAGIC, (uint32_t)ftell(out)};
    fclose(out);
    write_all(head, sizeof head);
    write_all(text, head[1]);
}
