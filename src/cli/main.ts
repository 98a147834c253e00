#!/usr/bin/env node
import * as nodeModule from "node:module";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(
    `mcpvals needs Node >= 22.13; this is ${process.versions.node}. ` +
      "A project can bring its own: npm install --save-dev node@24\n",
  );
  process.exit(2);
}
nodeModule.enableCompileCache?.();
const { runProgram } = await import("./program.ts");
process.exit(await runProgram(process.argv.slice(2)));
