import os
import subprocess
import sys

program = """#include "vec.h"
int ggml_cpu_get_sve_cnt(void) { return (int)svcntb(); }
int main(void) { float s, x[24]; for (int i = 0; i < 24; i++) x[i] = 1; ggml_vec_dot_f32(16, &s, 0, x, 0, x, 0, 1);
printf("%g", s); }"""
words = "aarch64-linux-gnu-g++ -O2 -march=armv8.2-a+sve -static -x c++ - -o dot -include stdio.h -include vec.cpp"
folders = [f"-I{os.environ['GGML']}/{each}" for each in ("include", "src", "src/ggml-cpu")]
subprocess.run([*words.split(), *folders], input=program, text=True, check=True)
emulated = ["qemu-aarch64", "-cpu", "max,sve-default-vector-length=48", "./dot"]
got = subprocess.run(emulated, capture_output=True, text=True).stdout
print("got  ", got, "\nright 16")
sys.exit(got != "16")
