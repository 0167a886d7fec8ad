#define LOOP(NAME, TAKEN, GIVEN, RETURNED) \
  void NAME(TAKEN (*f)(TAKEN), long n, const GIVEN *x, RETURNED *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }

LOOP(f32, float, float, float)
LOOP(f64, double, double, double)
LOOP(f32_screened, double, float, double)
LOOP(f64_screened, long double, double, long double)

#define LOOP_OF_TWO(NAME, TYPE) \
  void NAME(TYPE (*f)(TYPE, TYPE), long n, const TYPE *x, TYPE *y) { for (long i = 0; i < n; i++) y[i] = f(x[2 * i], x[2 * i + 1]); }

LOOP_OF_TWO(f32_of_two, float)
LOOP_OF_TWO(f64_of_two, double)
