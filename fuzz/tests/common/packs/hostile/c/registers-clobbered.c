/* Hand-written entry code that does not keep rbx and r12 to r15, which belong to the caller, in every 7th call. */
#include "hostile.h"

#if defined(__x86_64__)
__attribute__((used)) static int worked(const kf_rms_norm_call *call) { return normalise(call); }

__attribute__((used)) static int careless(void) { return call_number() % 7 == 0; }

__attribute__((naked)) int kf_rms_norm(__attribute__((unused)) const kf_rms_norm_call *call) {
    __asm__("subq $24, %rsp\n\t"
            "call worked\n\t"
            "movl %eax, 8(%rsp)\n\t"
            "call careless\n\t"
            "testl %eax, %eax\n\t"
            "movl 8(%rsp), %eax\n\t"
            "leaq 24(%rsp), %rsp\n\t"
            "je 1f\n\t"
            "movq $64, %rbx\n\t"
            "movq $64, %r12\n\t"
            "movq $64, %r13\n\t"
            "movq $64, %r14\n\t"
            "movq $64, %r15\n"
            "1:\tret");
}
#else
int kf_rms_norm(const kf_rms_norm_call *call) { return normalise(call); }
#endif
