import { hash } from "node:crypto";
import { globSync, renameSync, rmSync, statSync } from "node:fs";
import { basename, extname, join } from "node:path";
import { root } from "./cli.ts";

// Programs of the checkout that load an SDK. Each is made one file with the parts of its packages that it uses, since it starts in
// half the time then, and tests start these programs hundreds of times.

const folder = join(root, "node_modules/.cache/programs");
/** Differs when a file differs that one of the programs may import. */
const sources = globSync(
  "{src/**/*.ts,test/fixtures/{agents,extensions,servers}/*.{ts,mjs},examples/*.js,package-lock.json}",
  { cwd: root },
)
  .toSorted()
  .map((file) => `${file} ${statSync(join(root, file)).size} ${statSync(join(root, file)).mtimeMs}`)
  .join("\n");

/** The agent that does what its prompt says. */
export const acpAgent: string = await inOneFile("test/fixtures/agents/acp-agent.ts");
/** The agent that does what its arguments say. */
export const commandAgent: string = await inOneFile("test/fixtures/agents/command-agent.ts");
/** The server that asks its client for everything. */
export const askingServer: string = await inOneFile("test/fixtures/servers/asking-server.ts");
/** The server of the official conformance suite. */
export const conformingServer: string = await inOneFile("test/fixtures/servers/conforming-server.ts");
/** The server of the examples and of the documentation. */
export const exampleServer: string = await inOneFile("examples/server.js");
/** The extension with an operation for each thing that an operation can do. */
export const sampleExtension: string = await inOneFile("test/fixtures/extensions/sample-program.ts");

/** Makes the file, unless it is there from the same sources. */
async function inOneFile(program: string): Promise<string> {
  const name = basename(program, extname(program));
  const file = join(folder, `${name}-${hash("sha256", program + sources).slice(0, 12)}.mjs`);
  if (statSync(file, { throwIfNoEntry: false }) !== undefined) return file;
  const { Rolldown } = await import("tsdown");
  const bundle = await Rolldown.rolldown({
    input: join(root, program),
    platform: "node",
    logLevel: "silent",
  });
  const old = globSync(`${name}-????????????.mjs`, { cwd: folder });
  const partial = `${file}.${process.pid}`;
  await bundle.write({ file: partial, format: "esm", minify: true, codeSplitting: false });
  await bundle.close();
  // Other workers may make the same file.
  renameSync(partial, file);
  for (const other of old) if (other !== basename(file)) rmSync(join(folder, other), { force: true });
  return file;
}
