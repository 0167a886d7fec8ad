/* FUNCTION of each NUMBER, float or double, of standard input, on standard output. */
#include <math.h>
#include <stdio.h>

int main(void) {
  static NUMBER numbers[1 << 16];
  for (size_t n; (n = fread(numbers, sizeof *numbers, 1 << 16, stdin)) > 0;) {
    for (size_t i = 0; i < n; i++) numbers[i] = FUNCTION(numbers[i]);
    if (fwrite(numbers, sizeof *numbers, n, stdout) != n) return 1;
  }
  return fflush(stdout) != 0;
}
