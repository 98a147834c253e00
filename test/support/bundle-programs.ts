import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { Rolldown } from "tsdown";
import { programFolder, root } from "./cli.ts";
import { programSources } from "./programs.ts";

/**
 * Vitest's global setup. Makes each program of `programs.ts` one file with the parts of its packages that it uses, since it starts
 * in half the time then, and tests start these programs hundreds of times. Nothing is made when no source has changed.
 */
export default async function bundlePrograms(): Promise<void> {
  const folder = dirname(programFolder);
  const stamp = join(folder, "sources.txt");
  const sources = globSync(
    "{src/**/*.ts,test/fixtures/{agents,extensions,servers}/*.{ts,mjs},test/support/{,bundle-}programs.ts,examples/**/*.js,package-lock.json}",
    { cwd: root },
  )
    .toSorted()
    .map((file) => `${file} ${statSync(join(root, file)).size} ${statSync(join(root, file)).mtimeMs}`)
    .join("\n");
  const version = hash("sha256", sources);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === version) return;
  // Another run of vitest may be at work with the files of before.
  const partial = `${folder}.${process.pid}`;
  mkdirSync(join(partial, "bin"), { recursive: true });
  await Promise.all(
    Object.entries(programSources).map(([name, source]) => bundle(name, source, join(partial, "bin"))),
  );
  writeFileSync(join(partial, "package.json"), '{ "type": "module" }\n');
  writeFileSync(join(partial, "sources.txt"), version);
  // The server "everything" reads its instructions there.
  symlinkSync(
    join(root, "node_modules/@modelcontextprotocol/server-everything/dist/docs"),
    join(partial, "docs"),
  );
  linkPython(join(partial, "python"));
  rmSync(folder, { recursive: true, force: true });
  renameSync(partial, folder);
}

/** Links the interpreter itself: `python3` of a version manager is a script that starts thirty programs. */
function linkPython(folder: string): void {
  mkdirSync(folder);
  try {
    const script = "import os, sys; print(os.path.realpath(sys.executable))";
    const path = execFileSync("python3", ["-c", script], { encoding: "utf8" }).trim();
    symlinkSync(path, join(folder, "python3"));
  } catch {
    // There is none, as the tests that need it will say.
  }
}

async function bundle(name: string, source: string, folder: string): Promise<void> {
  const build = await Rolldown.rolldown({
    input: join(root, source),
    platform: "node",
    resolve: { mainFields: ["module", "main"] },
    logLevel: "silent",
  });
  await build.write({
    dir: folder,
    entryFileNames: name,
    chunkFileNames: `${name.replace(/\.js$/, "")}-[hash].js`,
    format: "esm",
    minify: true,
  });
  await build.close();
  chmodSync(join(folder, name), 0o755);
}
