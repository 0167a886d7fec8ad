void floats(float (*f)(float), long n, const float *x, float *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }
void doubles(double (*f)(double), long n, const float *x, double *y) { for (long i = 0; i < n; i++) y[i] = f(x[i]); }
