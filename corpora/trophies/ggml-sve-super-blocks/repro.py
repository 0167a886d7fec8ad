import os
import subprocess
import sys

program = """float ggml_table_f32_f16[1 << 16] = {[0x3C00] = 1}; int ggml_cpu_get_sve_cnt(void) { return svcntb(); }
void ggml_abort(const char *file, int line, const char *format, ...) { __builtin_trap(); }
int main(void) { static block_q6_K a = {.d = 0x3C00}; static block_q8_K b = {.d = 1}; float y = -1;
for (int i = 0; i < 256; i++) a.ql[i / 2] = 17, a.qh[i / 4] = 170, a.scales[i / 16] = b.qs[i] = 1, b.bsums[i / 16] = 16;
ggml_vec_dot_q6_K_q8_K(256, &y, 0, &a, 0, &b, 0, 1); __builtin_printf("%g", y); }"""
words = "aarch64-linux-gnu-gcc -O2 -DNDEBUG -march=armv8-a+sve -ffunction-sections -Wl,--gc-sections -static -o dot -xc"
folders = [f"-I{os.environ['GGML']}/{each}" for each in ("include", "src", "src/ggml-cpu")]
subprocess.run([*words.split(), "-", *folders, "-include", "arch/arm/quants.c"], input=program, text=True, check=True)
each = [f"qemu-aarch64 -cpu max,sve-default-vector-length={n} ./dot".split() for n in (16, 32, 48, 64, 128, 256)]
got = [subprocess.run(run, capture_output=True, text=True).stdout for run in each]
print("got  ", *got, "\nright", *[256] * 6)
sys.exit(got != ["256"] * 6)
