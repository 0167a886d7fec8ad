/* state.c: what a kernel must leave as it found it: everything of its process that outlives a call. The floating-point
 * environment is looked at after every call; the rest takes hundreds of system calls, and so is looked at after the last
 * case of a frame, or after each where the request asks for it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine.h"
#include "worker.h"

enum { DESCRIPTORS = 256, SIGNALS = 64 };

typedef struct {
    uint64_t handlers[SIGNALS], descriptors[DESCRIPTORS];
    uint64_t blocked, signal_stack, folder, environment, locale, affinity;
    struct rlimit limits[RLIM_NLIMITS];
    struct itimerval timers[3];
    mode_t mask;
    int threads, nice;
} snapshot;

static snapshot known;
static char text[4096];
static size_t length;

extern char **environ;

/* FNV-1a, 64 bits. */
static uint64_t mixed(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

static uint64_t hash_of(const char *string) {
    return mixed(0xcbf29ce484222325u, string, strlen(string));
}

/* One line, "kind: words", said once; the kinds are those of `Change` in core/base/outcome.py. */
static __attribute__((format(printf, 1, 2))) void note(const char *format, ...) {
    char line[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const size_t bytes = strlen(line);
    if (length + bytes + 2 > sizeof text || strstr(text, line) != NULL) return;
    memcpy(text + length, line, bytes);
    length += bytes;
    text[length++] = '\n';
    text[length] = '\0';
}

void forget_changes(void) {
    length = 0;
    text[0] = '\0';
}

const char *noted_changes(size_t *bytes) {
    *bytes = length;
    return text;
}

void check_floating_point(void) {
    look_at_floating_point(note);
}

void check_registers(void) {
    const char *lost = lost_register();
    if (lost != NULL) note("calling convention: %s is not as it was before the call", lost);
}

/* 0 where there is no memory to count them in: what took it is told otherwise. */
static int count_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int count = -2; /* "." and ".." */
    if (tasks == NULL) return 0;
    while (readdir(tasks) != NULL) count++;
    closedir(tasks);
    return count;
}

static uint64_t open_on(int descriptor) {
    struct stat found;
    if (fstat(descriptor, &found) != 0) return 0;
    const uint64_t parts[] = {found.st_dev, found.st_ino, (uint64_t)fcntl(descriptor, F_GETFL)};
    return mixed(1, parts, sizeof parts) | 1;
}

/* One call tells which are open; it fails where there may not be so many. */
static void find_descriptors(uint64_t *found) {
    struct pollfd each[DESCRIPTORS];
    for (int i = 0; i < DESCRIPTORS; i++) each[i] = (struct pollfd){.fd = i};
    const bool known_open = poll(each, DESCRIPTORS, 0) >= 0;
    for (int i = 0; i < DESCRIPTORS; i++)
        found[i] = known_open && each[i].revents & POLLNVAL ? 0 : open_on(i);
}

/* Not its flags: the C library and `signal` add some, even where they put back what was there. */
static uint64_t handler_of(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) != 0 ? 0 : (uint64_t)(uintptr_t)action.sa_sigaction;
}

static void look(snapshot *now) {
    memset(now, 0, sizeof *now);
    sigset_t blocked;
    stack_t stack;
    struct stat folder;
    cpu_set_t processors;
    for (int i = 1; i < SIGNALS; i++) now->handlers[i] = handler_of(i);
    find_descriptors(now->descriptors);
    if (sigprocmask(SIG_BLOCK, NULL, &blocked) == 0) memcpy(&now->blocked, &blocked, sizeof now->blocked);
    if (sigaltstack(NULL, &stack) == 0) now->signal_stack = (uint64_t)(uintptr_t)stack.ss_sp;
    if (stat(".", &folder) == 0) now->folder = folder.st_dev * 0x9e3779b97f4a7c15u ^ folder.st_ino;
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++)
        now->environment += hash_of(*variable); /* in any order: one that is put back comes last */
    const char *locale = setlocale(LC_ALL, NULL);
    now->locale = locale == NULL ? 0 : hash_of(locale);
    if (sched_getaffinity(0, sizeof processors, &processors) == 0)
        now->affinity = mixed(1, &processors, sizeof processors);
    for (int i = 0; i < RLIM_NLIMITS; i++) getrlimit((__rlimit_resource_t)i, &now->limits[i]);
    getitimer(ITIMER_VIRTUAL, &now->timers[0]);
    getitimer(ITIMER_PROF, &now->timers[1]);
    getitimer(ITIMER_REAL, &now->timers[2]);
    now->mask = umask(0);
    umask(now->mask);
    now->threads = count_threads();
    now->nice = getpriority(PRIO_PROCESS, 0);
}

void remember_state(void) {
    look(&known);
}

static void compare_signals(const snapshot *now) {
    for (int i = 1; i < SIGNALS; i++) {
        if (now->handlers[i] == known.handlers[i]) continue;
        note("signals: another handler of SIG%s", sigabbrev_np(i) != NULL ? sigabbrev_np(i) : "RT");
        return; /* one is enough: some kernels change them all */
    }
}

static void compare_descriptors(const snapshot *now) {
    for (int i = 0; i < DESCRIPTORS; i++) {
        const uint64_t before = known.descriptors[i], after = now->descriptors[i];
        if (before == after) continue;
        const char *what = before == 0 ? "was opened" : after == 0 ? "was closed" : "is open on something else";
        note("descriptors: %d %s", i, what);
        return;
    }
}

static void look_for_children(void) {
    int ended = 0;
    pid_t child;
    while ((child = waitpid(-1, NULL, WNOHANG | __WALL)) > 0) ended++;
    if (child == 0) note("children: a process that still runs");
    else if (ended > 0) note("children: a process that nobody waited for");
}

/* Everything that differs from what it was when the worker started, or after the last fault. */
void audit_state(void) {
    snapshot now;
    look(&now);
    compare_signals(&now);
    compare_descriptors(&now);
    look_for_children();
    if (now.blocked != known.blocked) note("signals: others are blocked");
    if (now.signal_stack != known.signal_stack) note("signals: another signal stack");
    if (now.folder != known.folder) note("folder: the current folder is another one");
    if (now.environment != known.environment) note("environment: the variables differ");
    if (now.locale != known.locale) note("environment: the locale is %s", setlocale(LC_ALL, NULL));
    if (now.mask != known.mask) note("environment: the file mode mask is %03o", now.mask);
    if (memcmp(now.limits, known.limits, sizeof now.limits) != 0) note("limits: resource limits differ");
    for (int i = 0; i < 3; i++)
        if (now.timers[i].it_value.tv_sec != 0 || now.timers[i].it_value.tv_usec != 0) note("timers: a timer is set");
    if (now.threads != 0 && now.threads != known.threads) note("threads: %d where there was %d", now.threads, known.threads);
    if (now.affinity != known.affinity || now.nice != known.nice) note("scheduling: processors or priority differ");
}

/* Of what can be accessed: QEMU may have reserved all addresses. Not by /proc/self/maps, which QEMU makes up line by line;
 * this one is the system's, and has QEMU's own mappings too. */
static size_t mapped_bytes(void) {
    static char lines[1 << 16];
    size_t total = 0, kept = 0;
    const int file = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    for (ssize_t got; (got = read(file, lines + kept, sizeof lines - 1 - kept)) > 0;) {
        char *at = lines, *end = lines + kept + got;
        *end = '\0';
        for (char *stop; (stop = strchr(at, '\n')) != NULL; at = stop + 1) {
            char *rest;
            const unsigned long long low = strtoull(at, &rest, 16), high = strtoull(rest + 1, &rest, 16);
            if (strncmp(rest, " ---", 4) != 0) total += high - low;
        }
        kept = (size_t)(end - at);
        if (kept >= sizeof lines - 1) break;
        memmove(lines, at, kept);
    }
    close(file);
    return total;
}

/* What malloc has given out, and what is mapped: what leaks is in one of them. */
memory_use measured_memory(void) {
    const struct mallinfo2 heap = mallinfo2();
    return (memory_use){.heap = heap.uordblks + heap.hblkhd, .mapped = mapped_bytes()};
}

void note_leak(size_t bytes, int calls) {
    note("memory: every call keeps more, about %zu bytes, in %d calls of this case", bytes, calls);
}
