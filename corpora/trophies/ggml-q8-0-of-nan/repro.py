import os
import subprocess
import sys

program = """#include "quants.c"
int main(void) { float x[32] = {NAN, 1, 127}; block_q8_0 block; quantize_row_q8_0(x, &block, 32);
printf("scale %g, codes %d %d %d", _cvtsh_ss(block.d), block.qs[0], block.qs[1], block.qs[2]); }"""
source = os.environ["GGML"] + "/src/ggml-cpu"
folders = [f"-I{source}/{each}" for each in ("arch/x86", ".", "..", "../../include")]
words = "gcc -O2 -mavx2 -mfma -mf16c -ffunction-sections -Wl,--gc-sections -x c - -o quantize -include stdio.h"
subprocess.run([*words.split(), *folders, "-lm"], input=program, text=True, check=True)
got = subprocess.run("./quantize", capture_output=True, text=True).stdout
print("got  ", got, "\nright scale nan")
sys.exit("scale nan" not in got)
