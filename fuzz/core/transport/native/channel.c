/* channel.c: where frames come from and answers go. Answers go to the journal, which the parent shares, and from there on
 * their way many at a time: a write for each costs more than a small case. Of a worker that dies the journal tells which
 * case it was running, and what it had answered. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "worker.h"

static int requests, responses;

/* As `Journal` in core/transport/journal.py reads it. `begun` and `done` count cases of the frame: they are equal while no case
 * runs. The answers are those that are not on their way yet. */
static struct {
    uint32_t begun, done;
    uint64_t bytes;
    uint8_t answers[];
} *volatile journal;
static size_t journal_room;

/* Moves the protocol to where no kernel expects it, away from stdin and stdout. */
void open_protocol(int in, int out) {
    requests = fcntl(in, F_DUPFD_CLOEXEC, 64);
    responses = fcntl(out, F_DUPFD_CLOEXEC, 64);
    close(in);
    close(out);
    const int nothing = open("/dev/null", O_RDONLY);
    if (requests < 0 || responses < 0 || nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        broken_frame("cannot open the protocol: %s", strerror(errno));
    if (nothing != STDIN_FILENO) close(nothing);
}

/* False at the end of the stream, provided that nothing had been read. */
bool read_exactly(void *to, size_t bytes, bool may_end) {
    uint8_t *at = to;
    while (bytes > 0) {
        const ssize_t got = read(requests, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) broken_frame("cannot read: %s", strerror(errno));
        if (got == 0 && may_end && at == (uint8_t *)to) return false;
        if (got == 0) broken_frame("broken frame: the stream ended %zu bytes early", bytes);
        at += got;
        bytes -= (size_t)got;
    }
    return true;
}

/* Memory that outlives us where the parent gave its descriptor. Without one, -1, each answer is sent at once: nobody else
 * could tell at which case we are. */
void open_journal(int descriptor) {
    struct stat found = {.st_size = 1 << 16};
    if (descriptor >= 0 && fstat(descriptor, &found) != 0) broken_frame("cannot open the journal: %s", strerror(errno));
    const int kind = descriptor >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    void *mapping = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, kind, descriptor, 0);
    if (mapping == MAP_FAILED) broken_frame("cannot open the journal: %s", strerror(errno));
    journal = mapping;
    journal_room = descriptor >= 0 ? (size_t)found.st_size - sizeof *journal : 0;
    if (descriptor >= 0) close(descriptor);
}

void begin_case(uint32_t index) {
    __atomic_store_n(&journal->begun, index + 1, __ATOMIC_RELEASE);
}

/* One whole answer, to the case that was begun last. False, and nothing done, where it has no room. */
bool journal_answer(const void *data, size_t bytes) {
    const uint64_t before = journal->bytes;
    if (bytes > journal_room - before) return false;
    memcpy(journal->answers + before, data, bytes);
    __atomic_store_n(&journal->bytes, before + bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&journal->done, journal->begun, __ATOMIC_RELEASE);
    return true;
}

/* What is in the journal, and then an answer that has no room there. It takes as long as the parent likes. */
void send_answers(const void *data, size_t bytes) {
    __atomic_store_n(&journal->done, journal->begun, __ATOMIC_RELEASE);
    write_all(journal->answers, journal->bytes);
    __atomic_store_n(&journal->bytes, 0, __ATOMIC_RELEASE);
    write_all(data, bytes);
}

void write_all(const void *data, size_t bytes) {
    const uint8_t *at = data;
    while (bytes > 0) {
        const ssize_t put = write(responses, at, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) _exit(0); /* the parent is gone */
        at += put;
        bytes -= (size_t)put;
    }
}
