/* attest.c: says what this worker really is, as "name=value" lines. Every value is observed, none is configured. */
#define _GNU_SOURCE
#include <stdio.h>

#include "machine.h"
#include "worker.h"

extern const char kf_kernel_compiler[], kf_kernel_flags[], kf_kernel_digest[], kf_kernel_needs[];

static void put_features(FILE *out) {
#define KF_THERE(name, macro, there) \
    if (there) fputs(name " ", out);
    KF_FEATURES(KF_THERE)
}

/* Sends the hello frame: magic, length, lines. */
void attest(void) {
    char text[4096];
    FILE *out = fmemopen(text, sizeof text, "w");
    if (out == NULL) broken_frame("cannot attest");
    fprintf(out, "op=%s\narch=%s\nprocessor=", op_name, KF_ARCH);
    put_processor(out);
    fputs("\nfeatures=", out);
    put_features(out);
    fputs("\nsettings=", out);
    put_settings(out);
    fprintf(out, "\nneeds=%s\nemulator=%s\n", kf_kernel_needs, emulator());
    fprintf(out, "compiler=%s\nflags=%s\ndigest=%s\n", kf_kernel_compiler, kf_kernel_flags, kf_kernel_digest);
    put_process(out);
    fprintf(out, "flushes=%s\n", flushes() ? "yes" : "no");
    fprintf(out, "masked_loads=%s\n", masked_loads_misread() ? "misread" : "right");
    const char *trouble = kf_load != NULL ? kf_load() : NULL;
    if (trouble != NULL) fprintf(out, "unloadable=%.1000s\n", trouble);
    const uint32_t head[2] = {HELLO_MAGIC, (uint32_t)ftell(out)};
    fclose(out);
    write_all(head, sizeof head);
    write_all(text, head[1]);
}
