import os
import subprocess
import sys

program = """#include "vec.h"
int main(void) { float first[] = {NAN, 1.0f}, last[] = {1.0f, NAN}, y; ggml_vec_max_f32(2, &y, first); printf("%g ", y);
ggml_vec_max_f32(2, &y, last); printf("%g", y); }"""
folders = [f"-I{os.environ['GGML']}/{each}" for each in ("include", "src", "src/ggml-cpu")]
words = ["gcc", "-O2", "-x", "c", "-", "-o", "most", "-include", "stdio.h", *folders, "-lm"]
subprocess.run(words, input=program, text=True, check=True)
got = subprocess.run("./most", capture_output=True, text=True).stdout
print("got  ", got)
print("right nan nan")
sys.exit(got != "nan nan")
