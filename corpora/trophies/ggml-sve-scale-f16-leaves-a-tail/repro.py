import os
import subprocess
import sys

program = """#include "vec.h"
int ggml_cpu_get_sve_cnt(void) { return (int)svcntb(); }
int main(void) { ggml_fp16_t y[12]; for (int i = 0; i < 12; i++) y[i] = 0x3c00; ggml_vec_scale_f16(12, y, 2.0f);
for (int i = 0; i < 12; i++) printf(" %g", GGML_CPU_FP16_TO_FP32(y[i])); }"""
words = "aarch64-linux-gnu-gcc -O2 -march=armv8.2-a+sve -static -x c - -o scale -include stdio.h"
folders = [f"-I{os.environ['GGML']}/{each}" for each in ("include", "src", "src/ggml-cpu")]
subprocess.run([*words.split(), *folders], input=program, text=True, check=True)
emulated = ["qemu-aarch64", "-cpu", "max,sve-default-vector-length=16", "./scale"]
got = subprocess.run(emulated, capture_output=True, text=True).stdout
print("got  ", got, "\nright", " 2" * 12)
sys.exit(got != " 2" * 12)
