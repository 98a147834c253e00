import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

// Runs all checks of package.json (`check:…`), as many at the same time as there are processors. A check that fails prints what it
// has to say.

const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
  readonly scripts: Readonly<Record<string, string>>;
};
const checks = Object.entries(scripts).filter(([name]) => name.startsWith("check:"));
await Promise.all(Array.from({ length: availableParallelism() }, runChecks));

/** Takes one check after the other, until there are none. */
async function runChecks(): Promise<void> {
  for (let check = checks.shift(); check !== undefined; check = checks.shift()) {
    const [name, command] = check;
    const started = performance.now();
    const { code, output } = await run(command);
    const seconds = ((performance.now() - started) / 1000).toFixed(1);
    if (code !== 0) process.exitCode = 1;
    console.log(`${code === 0 ? "" : output}${code === 0 ? "✓" : "✗"} ${name} ${seconds} s`);
  }
}

/** Runs a command of package.json, with the PATH that npm gave to this script. */
async function run(command: string): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(command, { shell: true, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((done, fail) => {
    child.on("error", fail);
    child.on("close", done);
  });
  return { code, output };
}
