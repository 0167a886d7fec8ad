/* access.h: whether the instruction that faulted was reading or writing, by what the machine says of the fault. */
#ifndef KF_ACCESS_H
#define KF_ACCESS_H

#include <stdint.h>
#include <string.h>
#include <ucontext.h>

enum { ACCESS_UNKNOWN = 0, ACCESS_READ = 1, ACCESS_WRITE = 2 };

static inline int access_of(const ucontext_t *context) {
#if defined(__x86_64__)
    enum { PAGE_FAULT_WRITE = 2 };
    return context->uc_mcontext.gregs[REG_ERR] & PAGE_FAULT_WRITE ? ACCESS_WRITE : ACCESS_READ;
#elif defined(__aarch64__)
    /* The exception syndrome is one of the optional records that follow the registers. */
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
#else
    (void)context;
    return ACCESS_UNKNOWN;
#endif
}

#endif
