#define LOOP(NAME, TAKEN, GIVEN, RETURNED) \
  void NAME(TAKEN (*f)(TAKEN), long n, const GIVEN *x, RETURNED *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }

LOOP(f32, float, float, float)
LOOP(f64, double, double, double)
LOOP(f32_screened, double, float, double)
LOOP(f64_screened, long double, double, long double)
