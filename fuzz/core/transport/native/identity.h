/* identity.h: compiled into the kernel's own object (by -include), so that what the worker attests is what the
 * kernel was really built with. KF_FLAGS, KF_DIGEST and KF_MACHINE come from the build. */
#ifndef KF_IDENTITY_H
#define KF_IDENTITY_H

#include KF_MACHINE

extern const char kf_kernel_compiler[], kf_kernel_flags[], kf_kernel_digest[], kf_kernel_needs[];

#if defined(__clang__)
const char kf_kernel_compiler[] = "clang " __clang_version__;
#else
const char kf_kernel_compiler[] = "gcc " __VERSION__;
#endif
const char kf_kernel_flags[] = KF_FLAGS;
const char kf_kernel_digest[] = KF_DIGEST;

/* Instruction sets that the compiler was free to use anywhere in the kernel: the worker checks them before the call. Of
 * each, what the compiler says of it: a number, or, where it says nothing, the name of its macro. */
#define KF_TEXT(macro) #macro
#define KF_NEED(name, macro, there) name "=" KF_TEXT(macro) " "
const char kf_kernel_needs[] = KF_FEATURES(KF_NEED);

#endif
