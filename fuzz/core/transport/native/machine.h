/* machine.h: what differs from one architecture to another. Each has one header, called by its name, and nothing else of
 * the worker knows it; KF_MACHINE is that name, and comes from the build. The header of an architecture defines
 *
 *   KF_FEATURES(X)              X(name, macro, there) for each instruction set: our name, the macro by which a compiler says
 *                               that it may use it, and whether the processor has it
 *
 * and, for the worker alone, in C:
 *
 *   KF_ARCH                     its name, as a string
 *   put_processor(out)          writes maker and model
 *   put_settings(out)           writes "word=value " for each setting of its instruction sets, as observed
 *   emulator()                  "tcg" under QEMU's translator, "none" on hardware, or "unknown"
 *   flushes()                   whether subnormal numbers are flushed to zero
 *   look_at_floating_point(say) says what of the floating-point environment is not as it is by default
 *   access_of(context)          whether the instruction that faulted was reading or writing
 *   widest_registers()          which vector and mask registers there are, as its KF_ENTER understands it
 *   KF_REGISTERS, KF_ENTER      the names of the registers that belong to the caller, at most 64, and the body of
 *                               `kf_enter` in assembly: it marks these as convention.c says, fills all others with what
 *                               `kf_poison` begins with, as far as `kf_widest` says that they are there, calls its first
 *                               argument with its second one, and returns what that did
 */
#ifndef KF_MACHINE_H
#define KF_MACHINE_H

#if !defined(KF_MACHINE) || !__has_include(KF_MACHINE)
#error "kernelfuzz has no header for this architecture: see fuzz/docs/adding-an-instruction-set.md"
#endif

enum { ACCESS_UNKNOWN = 0, ACCESS_READ = 1, ACCESS_WRITE = 2 };

typedef void saying(const char *format, ...);

#include KF_MACHINE

#endif
