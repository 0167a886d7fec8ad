static @result@ (*function)(@types@);

/* NULL, or why the function cannot be called. */
const char *kf_load(void) {
    static char trouble[800];
    static const char *const first[] = {@first@NULL};
    for (int i = 0; first[i] != NULL; i++)
        if (dlopen(first[i], RTLD_NOW | RTLD_GLOBAL) == NULL) return dlerror();
    void *library = dlopen(@path@, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return dlerror();
    void *found = dlsym(library, "@function@");
    if (found == NULL) {
        snprintf(trouble, sizeof trouble, "no symbol @function@");
        return trouble;
    }
    memcpy(&function, &found, sizeof function);
    return NULL;
}

