/* wasm32.h: what the worker knows of WebAssembly; see machine.h. A module that has instructions which its engine has not
 * does not start: what is compiled for them may be called. */
#define KF_FEATURES(X)                      \
    X("simd128", __wasm_simd128__, true)    \
    X("relaxed", __wasm_relaxed_simd__, true)

#ifdef KF_MACHINE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KF_ARCH "wasm32"

/* The engine has put its name, and how it is set, into the environment: a module sees nothing of it. */
static inline void put_processor(FILE *out) {
    const char *name = getenv("KF_ENGINE");
    fputs(name != NULL ? name : "unknown", out);
}

static inline void put_settings(FILE *out) {
    const char *mode = getenv("KF_MODE");
    fprintf(out, "engine=%s ", mode != NULL ? mode : "unknown");
}

static inline const char *emulator(void) {
    return "wasm";
}

/* There is no mode for it. */
static inline bool flushes(void) {
    return false;
}

/* There are none. */
static inline uint32_t widest_registers(void) {
    return 0;
}
#endif
