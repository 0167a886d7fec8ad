/* FUNCTION of each NUMBER, float or double, of standard input, as PoCL's first device has it, on standard output; with OF_TWO
   that of each pair. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define MOST ((size_t)1 << 20)
#ifdef OF_TWO
#define STEP 2
#define VALUE "(x[2 * i], x[2 * i + 1])"
#else
#define STEP 1
#define VALUE "(x[i])"
#endif

static cl_device_id device_of_pocl(void) {
  cl_platform_id platforms[16];
  cl_device_id device;
  cl_uint n = 0;
  char name[256];
  if (clGetPlatformIDs(16, platforms, &n)) return NULL;
  for (cl_uint i = 0; i < n && i < 16; i++)
    if (!clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name, name, NULL) &&
        strstr(name, "Portable Computing Language") &&
        !clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_CPU, 1, &device, NULL))
      return device;
  return NULL;
}

int main(void) {
  const char *source = "kernel void each(global " TEXT(NUMBER) " *x, global " TEXT(NUMBER) " *y) {"
                       " size_t i = get_global_id(0); y[i] = " TEXT(FUNCTION) VALUE "; }";
  static NUMBER numbers[MOST];
  cl_device_id device = device_of_pocl();
  if (!device) return 1;
  cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, NULL);
  cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, NULL);
  if (clBuildProgram(program, 1, &device, "", NULL, NULL)) return 1;
  cl_kernel each = clCreateKernel(program, "each", NULL);
  cl_mem taken = clCreateBuffer(context, CL_MEM_READ_ONLY, sizeof numbers, NULL, NULL);
  cl_mem values = clCreateBuffer(context, CL_MEM_WRITE_ONLY, sizeof numbers, NULL, NULL);
  if (clSetKernelArg(each, 0, sizeof taken, &taken) || clSetKernelArg(each, 1, sizeof values, &values)) return 1;
  for (size_t n; (n = fread(numbers, STEP * sizeof *numbers, MOST / STEP, stdin)) > 0;)
    if (clEnqueueWriteBuffer(queue, taken, CL_TRUE, 0, STEP * n * sizeof *numbers, numbers, 0, NULL, NULL) ||
        clEnqueueNDRangeKernel(queue, each, 1, NULL, &n, NULL, 0, NULL, NULL) ||
        clEnqueueReadBuffer(queue, values, CL_TRUE, 0, n * sizeof *numbers, numbers, 0, NULL, NULL) ||
        fwrite(numbers, sizeof *numbers, n, stdout) != n)
      return 1;
  return fflush(stdout) != 0;
}
