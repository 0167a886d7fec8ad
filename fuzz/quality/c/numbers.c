/* FUNCTION of each NUMBER, float or double, of standard input, on standard output; with OF_TWO that of each pair. */
#include <math.h>
#include <stdio.h>

#ifdef OF_TWO
#define STEP 2
#define VALUE(x) FUNCTION((x)[0], (x)[1])
#else
#define STEP 1
#define VALUE(x) FUNCTION((x)[0])
#endif

int main(void) {
  static NUMBER numbers[1 << 16];
  for (size_t n; (n = fread(numbers, STEP * sizeof *numbers, (1 << 16) / STEP, stdin)) > 0;) {
    for (size_t i = 0; i < n; i++) numbers[i] = VALUE(numbers + STEP * i);
    if (fwrite(numbers, sizeof *numbers, n, stdout) != n) return 1;
  }
  return fflush(stdout) != 0;
}
