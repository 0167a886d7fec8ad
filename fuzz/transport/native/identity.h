/* identity.h: compiled into the kernel's own object (by -include), so that what the worker attests is what the
 * kernel was really built with. KF_FLAGS and KF_DIGEST come from the build. */
#ifndef KF_IDENTITY_H
#define KF_IDENTITY_H

extern const char kf_kernel_compiler[], kf_kernel_flags[], kf_kernel_digest[], kf_kernel_needs[];

#if defined(__clang__)
const char kf_kernel_compiler[] = "clang " __clang_version__;
#else
const char kf_kernel_compiler[] = "gcc " __VERSION__;
#endif
const char kf_kernel_flags[] = KF_FLAGS;
const char kf_kernel_digest[] = KF_DIGEST;

/* Instruction sets that the compiler was free to use anywhere in the kernel: the worker checks them before the call. */
const char kf_kernel_needs[] = ""
#ifdef __AVX2__
    "avx2 "
#endif
#ifdef __FMA__
    "fma "
#endif
#ifdef __F16C__
    "f16c "
#endif
#ifdef __AVX512F__
    "avx512f "
#endif
#ifdef __ARM_FEATURE_SVE
    "sve "
#endif
    ;

#endif
