/* keeper.c: the process above the worker. No kernel runs in it: it waits for the worker, ends whatever the kernel started
 * that outlived it, and ends the way the worker did. A kernel that signals its parent signals this one. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker.h"

static volatile pid_t worker;
static pid_t engine;
enum { LOOK_S = 2 }; /* seconds between two looks whether the engine lives: a kernel that hangs must not outlive it */

static void on_stop(int number) {
    (void)number;
    if (worker > 0) kill(worker, SIGKILL);
}

/* PR_SET_PDEATHSIG would tell of the end of the engine's thread that started us, which may be over long before it. */
static void on_look(int number) {
    (void)number;
    if (getppid() != engine && worker > 0) kill(worker, SIGKILL);
    alarm(LOOK_S);
}

static int parent_of(const char *pid) {
    char path[300], text[512];
    snprintf(path, sizeof path, "/proc/%s/stat", pid);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    const ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return -1;
    text[got] = '\0';
    const char *name_end = strrchr(text, ')'); /* the name may hold anything, parentheses too */
    return name_end != NULL && strlen(name_end) > 4 ? atoi(name_end + 4) : -1;
}

/* Orphans come to us, the reaper of all that descends from here: whatever child there still is, a kernel left behind. */
static void end_orphans(void) {
    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        DIR *processes = opendir("/proc");
        if (processes == NULL) return;
        for (const struct dirent *entry; (entry = readdir(processes)) != NULL;)
            if (parent_of(entry->d_name) == getpid()) kill(atoi(entry->d_name), SIGKILL);
        closedir(processes);
    }
}

/* The process that runs the kernel, and the bytes of a page. */
void put_process(FILE *out) {
    fprintf(out, "pid=%d\npage=%ld\n", getpid(), sysconf(_SC_PAGESIZE));
}

/* Returns in the worker; the keeper stays here until the worker has ended. */
void keep_worker(int in, int out) {
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const pid_t keeper = getpid();
    engine = getppid();
    worker = fork();
    if (worker < 0) broken_frame("cannot fork: %s", strerror(errno));
    if (worker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* so that an orphan of the kernel's is seen to be its child */
        if (getppid() != keeper) _exit(0);
        return;
    }
    const struct sigaction stop = {.sa_handler = on_stop};
    sigaction(SIGTERM, &stop, NULL);
    const struct sigaction look = {.sa_handler = on_look};
    sigaction(SIGALRM, &look, NULL);
    alarm(LOOK_S);
    close(in); /* or nobody would see that the worker has closed its ends */
    close(out);
    int status = 0;
    while (waitpid(worker, &status, 0) < 0 && errno == EINTR) {}
    worker = 0;
    end_orphans();
    if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
    for (;;) pause();
}

static bool guarded; /* the timers run */

/* Timers of our own: alarm and setitimer are left to be looked at. On a busy machine a call takes many times its limit,
 * of which it has a processor for the limit: our parent waits for that, and ends a call that sleeps. */
void set_guard(uint32_t seconds) {
    static const struct { clockid_t clock; uint32_t times; } limits[] = {
        {CLOCK_THREAD_CPUTIME_ID, 1}, {CLOCK_MONOTONIC, BUSY_TIMES},
    };
    static timer_t timers[2];
    static bool made;
    for (int i = 0; i < 2; i++) {
        if (!made && timer_create(limits[i].clock, NULL, &timers[i]) != 0) broken_frame("cannot create a timer");
        const struct itimerspec limit = {.it_value.tv_sec = (time_t)seconds * limits[i].times};
        timer_settime(timers[i], 0, &limit, NULL);
    }
    made = true;
    guarded = seconds > 0;
}

/* A hung kernel must not outlive a parent that was killed. The timers are set anew once a second, and not for each case. */
void renew_guard(uint32_t seconds, const struct timespec *now) {
    static time_t set;
    if (guarded && now->tv_sec - set < RENEWAL_S) return;
    set = now->tv_sec;
    set_guard(seconds);
}
