/* What follows runs the calls above one after the other and looks at the last one: at every element of its outputs that
 * has an expectation, at everything around them, and, where a law is checked, at the outputs of the call before. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* A kernel that ends the process itself ends it with none of the two codes. */
enum { KFS_SHOWN = 10, KFS_PASSED = 100, KFS_FAILED = 101, KFS_FILL = 0xFF, KFS_OTHER_FILL = 0x5A };

static int kfs_failures;

static void kfs_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    char line[96];
    const int length = snprintf(line, sizeof line, "FAILS: reads or writes outside the tensors, at %p\n", info->si_addr);
    if (write(1, line, (size_t)length) < 0) _exit(3);
    _exit(KFS_FAILED);
}

static size_t kfs_size(kf_dtype dtype) {
    return (size_t)kfs_formats[dtype].size;
}

static double kfs_value(kf_dtype dtype, const void *place) {
    const int width = 8 * kfs_formats[dtype].size, precision = kfs_formats[dtype].precision;
    uint64_t bits = 0;
    memcpy(&bits, place, kfs_size(dtype));
    if (precision == 0) return (double)((int64_t)(bits << (64 - width)) >> (64 - width));
    const uint64_t hidden = (uint64_t)1 << (precision - 1), most = ((uint64_t)1 << (width - precision)) - 1;
    const uint64_t fraction = bits & (hidden - 1), exponent = bits >> (precision - 1) & most;
    const double sign = bits >> (width - 1) ? -1.0 : 1.0;
    if (exponent == most && kfs_formats[dtype].infinities) return fraction ? NAN : sign * INFINITY;
    if (exponent == most && fraction == hidden - 1) return NAN;
    const double size = (double)(exponent ? fraction + hidden : fraction);
    return sign * ldexp(size, (exponent ? (int)exponent - 1 : 0) + kfs_formats[dtype].emin - precision + 1);
}

static int64_t kfs_count(const kfs_tensor *t) {
    int64_t count = 1;
    for (int axis = 0; axis < t->rank; axis++) count *= t->shape[axis];
    return count;
}

/* Offset in elements of the flat-th element in C order. */
static int64_t kfs_offset(const kfs_tensor *t, int64_t flat) {
    int64_t offset = 0;
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        offset += flat % t->shape[axis] * t->strides[axis];
        flat /= t->shape[axis];
    }
    return offset;
}

static char *kfs_element(const kfs_tensor *t, int64_t flat) {
    return t->first + kfs_offset(t, flat) * (int64_t)kfs_size(t->dtype);
}

/* Memory of tensors that share it: pages between two that must not be touched, filled with a byte, all ones make NaN. */
static void kfs_place(kfs_call *call, int home, int fill) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t need = page;
    for (int i = 0; i < call->count; i++) {
        const kfs_tensor *t = &call->tensors[i];
        const size_t reach = (size_t)(t->extent + t->offset) * kfs_size(t->dtype) + 64;
        if (t->home == home && reach > need) need = reach;
    }
    need = (need + page - 1) / page * page;
    char *region = mmap(NULL, need + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED || mprotect(region + page, need, PROT_READ | PROT_WRITE) != 0) {
        puts("CANNOT RUN: no memory");
        exit(125);
    }
    region += page;
    memset(region, fill, need);
    for (int i = 0; i < call->count; i++) {
        kfs_tensor *t = &call->tensors[i];
        if (t->home != home) continue;
        const int64_t size = (int64_t)kfs_size(t->dtype);
        char *start = t->after ? region + need - (t->extent + t->offset) * size : region + t->offset * size;
        t->first = start - t->lowest * size;
        t->region = region;
        t->bytes = need;
    }
}

static void kfs_fill(const kfs_tensor *t) {
    const size_t size = kfs_size(t->dtype);
    for (int64_t i = 0; t->bits != NULL && i < kfs_count(t); i++)
        memcpy(kfs_element(t, i), (const char *)t->bits + (size_t)i * size, size);
}

static void kfs_fail(const char *what, const kfs_tensor *t, int64_t where) {
    if (++kfs_failures <= KFS_SHOWN) printf("FAILS: %s %s, %lld\n", what, t->name, (long long)where);
}

/* Bytes of a region that no output owns must be as they were; where the input was rejected, no output owns any. */
static void kfs_watch(const kfs_call *call, const kfs_tensor *t, const char *before, int rejected) {
    char *owned = calloc(t->bytes, 1);
    for (int i = 0; i < call->count && !rejected; i++) {
        const kfs_tensor *other = &call->tensors[i];
        for (int64_t k = 0; other->is_output && other->region == t->region && k < kfs_count(other); k++)
            memset(owned + (kfs_element(other, k) - t->region), 1, kfs_size(other->dtype));
    }
    for (size_t i = 0; i < t->bytes; i++)
        if (!owned[i] && t->region[i] != before[i]) {
            kfs_fail("changed memory that it does not own, bytes from the first element of", t, t->region + i - t->first);
            break;
        }
    free(owned);
}

static int kfs_conforms(const kfs_allowed *a, double got) {
    if (isnan(got)) return (a->rule & 12) != 0;
    if (a->rule & 8) return 0;
    if (got == 0 && a->rule & (signbit(got) ? 1 : 2)) return 0;
    return (a->low <= got && got <= a->high) || (a->rule & 16 && got == 0)
        || (a->rule & 32 && a->low <= -got && -got <= a->high) || (a->rule & 64 && got == INFINITY)
        || (a->rule & 128 && got == -INFINITY);
}

static void kfs_compare(const kfs_tensor *t) {
    for (int64_t i = 0; i < t->expected; i++) {
        const kfs_allowed *a = &t->allowed[i];
        const double got = kfs_value(t->dtype, kfs_element(t, a->index));
        if (kfs_conforms(a, got) || ++kfs_failures > KFS_SHOWN) continue;
        printf("FAILS: %s[%lld] = %.17g, allowed ", t->name, (long long)a->index, got);
        if (a->rule & 8) printf("NaN\n");
        else if (isinf(a->low) && isinf(a->high) && a->low < a->high) printf("any number\n");
        else printf("%.17g to %.17g%s%s\n", a->low, a->high, a->rule & 4 ? ", or NaN" : "",
                    got || !(a->rule & 3) ? "" : a->rule & 1 ? ", with the sign +" : ", with the sign -");
    }
}

static int kfs_same(kf_dtype dtype, const void *one, const void *two) {
    if (memcmp(one, two, kfs_size(dtype)) == 0) return 1;
    return isnan(kfs_value(dtype, one)) && isnan(kfs_value(dtype, two));
}

/* A law: the outputs of the last call are those of the call before it, element by element as `from` says. */
static void kfs_law(const kfs_call *before, const kfs_call *call) {
    for (int i = 0; i < call->count; i++) {
        const kfs_tensor *t = &call->tensors[i], *other = NULL;
        for (int k = 0; k < before->count; k++)
            if (strcmp(before->tensors[k].name, t->name) == 0) other = &before->tensors[k];
        for (int64_t k = 0; t->is_output && other != NULL && k < kfs_count(t); k++) {
            const int64_t source = t->from != NULL ? t->from[k] : k;
            const char *got = kfs_element(t, k), *wanted = kfs_element(other, source);
            if (kfs_same(t->dtype, got, wanted) || ++kfs_failures > KFS_SHOWN) continue;
            printf("FAILS: the twin's %s[%lld] = %.17g, but %s[%lld] = %.17g\n", t->name, (long long)k,
                   kfs_value(t->dtype, got), t->name, (long long)source, kfs_value(t->dtype, wanted));
        }
    }
}

static int kfs_run(kfs_call *call, int fill) {
    for (int i = 0; i < call->count; i++)
        if (call->tensors[i].home == i) kfs_place(call, i, fill);
#ifdef __GLIBC__
    /* What malloc gives the kernel is filled too, each time with something else: 0xFE, 0x84. */
    static int calls;
    mallopt(M_PERTURB, calls++ % 2 ? 0x7B : 0x01);
#endif
    char *before[KFS_MOST_TENSORS] = {0};
    for (int i = 0; i < call->count; i++) kfs_fill(&call->tensors[i]);
    for (int i = 0; i < call->count; i++) {
        const kfs_tensor *t = &call->tensors[i];
        before[i] = t->home == i ? memcpy(malloc(t->bytes), t->region, t->bytes) : NULL;
    }
    const int code = call->enter(call->tensors);
    for (int i = 0; i < call->count; i++)
        if (before[i] != NULL) kfs_watch(call, &call->tensors[i], before[i], code != KF_OK);
    return code;
}

static int kfs_holds(const kfs_tensor *t, int64_t flat, int fill) {
    const unsigned char *place = (const unsigned char *)kfs_element(t, flat);
    for (size_t i = 0; i < kfs_size(t->dtype); i++)
        if (place[i] != fill) return 0;
    return 1;
}

/* An element that holds what its memory was filled with, twice, was never written. */
static void kfs_unwritten(kfs_call *call) {
    char *held[KFS_MOST_TENSORS] = {0};
    int doubtful = 0;
    for (int i = 0; i < call->count; i++) {
        const kfs_tensor *t = &call->tensors[i];
        if (!t->is_output || t->home != i) continue;
        held[i] = calloc((size_t)kfs_count(t) + 1, 1);
        for (int64_t k = 0; k < kfs_count(t); k++) doubtful |= held[i][k] = (char)kfs_holds(t, k, KFS_FILL);
    }
    if (!doubtful || kfs_run(call, KFS_OTHER_FILL) != KF_OK) return;
    for (int i = 0; i < call->count; i++)
        for (int64_t k = 0; held[i] != NULL && k < kfs_count(&call->tensors[i]); k++)
            if (held[i][k] && kfs_holds(&call->tensors[i], k, KFS_OTHER_FILL))
                kfs_fail("never written:", &call->tensors[i], k);
}

static int kfs_judged(void) {
    static char stack[1 << 16];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_sigaction = kfs_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    alarm(KFS_LIMIT_S);
    int code = KF_OK;
    for (int i = 0; i < KFS_CALLS; i++) {
        kfs_failures = 0;
        code = kfs_run(&kfs_calls[i], KFS_FILL);
    }
    kfs_call *last = &kfs_calls[KFS_CALLS - 1];
    if (KFS_INVALID) {
        if (code == KF_OK) printf("FAILS: returned KF_OK for what it must reject\n"), kfs_failures++;
    } else if (code != KF_OK) {
        printf("FAILS: returned %d, not KF_OK\n", code), kfs_failures++;
    } else {
        for (int i = 0; i < last->count; i++) kfs_compare(&last->tensors[i]);
        if (KFS_LAW) kfs_law(last - 1, last);
        kfs_unwritten(last);
    }
    if (kfs_failures > KFS_SHOWN) printf("and %d more\n", kfs_failures - KFS_SHOWN);
    fflush(stdout);
    return kfs_failures ? KFS_FAILED : KFS_PASSED;
}

/* The calls are made in a process of their own, which they may end. */
int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const pid_t child = fork();
    int ended = 0;
    if (child == 0) _exit(kfs_judged());
    if (child < 0 || waitpid(child, &ended, 0) != child) {
        puts("CANNOT RUN: no process");
        return 125;
    }
    const int code = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    if (code == 125) return code;
    if (code == -1 && KFS_LIMIT_S && WTERMSIG(ended) == SIGALRM) printf("FAILS: no answer within %d s\n", KFS_LIMIT_S);
    else if (code == -1) printf("FAILS: killed by signal %d\n", WTERMSIG(ended));
    else if (code != KFS_PASSED && code != KFS_FAILED) printf("FAILS: the process ended, with code %d\n", code);
    puts(code == KFS_PASSED ? "passed" : "FAILED");
    return code != KFS_PASSED;
}
