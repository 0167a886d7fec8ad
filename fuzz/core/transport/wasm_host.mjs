// The host of a worker in WebAssembly: `node wasm_host.mjs MODULE` runs it in V8, as wasm_host.py does in wasmtime.
import { readFileSync, readSync, writeSync } from "node:fs";
import { WASI } from "node:wasi";

const [path] = process.argv.slice(2);
const TRAPPED_EXIT = 134; // as of a process that aborted
const wasi = new WASI({
  version: "preview1",
  args: ["worker"], // without any, args_get of node fails
  returnOnExit: true,
  stdout: 2,
  env: { KF_MODE: "node", KF_ENGINE: `V8 ${process.versions.v8}` },
});
let memory;

const bytes = (start, size) => new Uint8Array(memory.buffer, start >>> 0, size >>> 0);

// A descriptor that somebody has made non-blocking says so where it has nothing, or no room, yet.
const patiently = (step) => {
  for (;;) {
    try {
      return step();
    } catch (error) {
      if (error.code === "EOF") return 0;
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1);
    }
  }
};

const moved = (size, step) => {
  let done = 0;
  while (done < size) {
    const more = patiently(() => step(done));
    if (more === 0) break;
    done += more;
  }
  return done;
};

const kernelfuzz = {
  receive: (to, size) => moved(size, (at) => readSync(0, bytes(to + at, size - at))),
  send: (start, size) => void moved(size, (at) => writeSync(1, bytes(start + at, size - at))),
};

// What has instructions that this V8 has not does not run here.
const refused = (error) => {
  const text = Buffer.from(`missing=V8 ${process.versions.v8} cannot run it: ${error.message}`);
  const head = Buffer.from("KFHE\0\0\0\0", "latin1");
  head.writeUInt32LE(text.length, 4);
  writeSync(1, Buffer.concat([head, text]));
  process.exit(0);
};

const module = await WebAssembly.compile(readFileSync(path)).catch(refused);
const instance = await WebAssembly.instantiate(module, { ...wasi.getImportObject(), kernelfuzz });
memory = instance.exports.memory;
try {
  process.exitCode = wasi.start(instance);
} catch (error) {
  process.stderr.write(`wasm trap: ${error.message}\n`);
  process.exitCode = TRAPPED_EXIT;
}
