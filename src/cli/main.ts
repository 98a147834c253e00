#!/usr/bin/env node
import * as nodeModule from "node:module";
import { join } from "node:path";
import { cacheFolder } from "../formats/environment.ts";
import { privateFolder } from "../base/files.ts";

const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(
    `mcpvals needs Node >= 22.13; this is ${process.versions.node}. ` +
      "A project can bring its own: npm install --save-dev node@24\n",
  );
  process.exit(2);
}
enableCompileCache();
const [command, ...args] = process.argv.slice(2);
if (command === "bridge") {
  // An agent waits for it to start, so the rest of the program is not loaded.
  const { bridge } = await import("./bridge.ts");
  process.exit(await bridge(args));
}
const { runProgram } = await import("./program.ts");
const { endProcess, guardExit } = await import("./terminal.ts");
guardExit();
endProcess(await runProgram(process.argv.slice(2)));

/**
 * Compiled code is executed without checks, so it is cached only where no other user can write. Node's default folder is
 * in the folder for temporary files, where another user may have created it.
 */
function enableCompileCache(): void {
  const cache = cacheFolder();
  const folder = cache === undefined ? undefined : privateFolder(join(cache, "compiled"));
  if (folder !== undefined) nodeModule.enableCompileCache?.(folder);
}
