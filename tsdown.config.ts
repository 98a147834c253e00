import { globSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { defineConfig, type Rolldown } from "tsdown";

/** Writes the licences of the packages whose code stands in the output beside it, since each asks for that. */
const licences: Rolldown.Plugin = {
  name: "licences",
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
    const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []);
    const texts = [...new Set(folders)].toSorted().map((folder) => {
      const name = folder.slice(folder.lastIndexOf("node_modules/") + "node_modules/".length);
      const files = globSync("{LICENSE,LICENCE,license,licence,COPYING}*", { cwd: folder });
      return `${name}\n\n${files.map((file) => readFileSync(`${folder}/${file}`, "utf8")).join("\n")}`;
    });
    if (texts.length > 0)
      this.emitFile({
        type: "asset",
        fileName: "licences.txt",
        source: texts.join(`\n${"-".repeat(80)}\n\n`),
      });
  },
};

/** commander starts a program for a sub-command that is a file. There is none, and Node's module for it takes time to load. */
const withoutPrograms: Rolldown.Plugin = {
  name: "without-programs",
  resolveId: (id, importer) =>
    id === "node:child_process" && importer?.includes("/node_modules/commander/") === true ? "\0none" : null,
  load: (id) => (id === "\0none" ? "export default {};" : null),
};

/**
 * Writes what is not ASCII as escapes. Node decodes a file of ASCII several times as fast, and keeps it in half the memory. What
 * reads its own source (`String.raw`, `Function.toString`) would see the escapes.
 */
const ascii: Rolldown.Plugin = {
  name: "ascii",
  generateBundle(_options, bundle) {
    for (const file of Object.values(bundle))
      if (file.type === "chunk") file.code = file.code.replaceAll(/[^\0-\x7f]/g, escaped);
  },
};

function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

/**
 * Modules that the same ones of these entries load are one file of the output. If all entries counted, each command among them, a run
 * would load seventy files; to find and link a file takes longer than to load its code.
 */
const loadedOften = {
  main: "src/cli/main.ts",
  bridge: "src/cli/bridge.ts",
  program: "src/cli/program.ts",
  run: "src/cli/commands/run.ts",
  extension: "src/extensions/sdk/index.ts",
  grader: "src/graders/grader-host.ts",
  validator: "src/graders/schema-worker.ts",
};

/** Names the file of a module after the entries that load it at once; null leaves it to the bundler. */
function fileOf(id: string, context: Rolldown.ChunkingContext): string | null {
  if (context.getModuleInfo(id)?.isEntry === true || id.includes("/node_modules/yaml/")) return null;
  const entries = Object.entries(loadedOften).filter(([, path]) => closureOf(resolve(path), context).has(id));
  return entries.length === 0 ? null : entries.map(([name]) => name).join("-");
}

const closures = new Map<string, ReadonlySet<string>>();

/** The module and all that it imports, not dynamically. */
function closureOf(entry: string, context: Rolldown.ChunkingContext): ReadonlySet<string> {
  const known = closures.get(entry);
  if (known !== undefined) return known;
  const modules = new Set([entry]);
  for (const module of modules)
    for (const imported of context.getModuleInfo(module)?.importedIds ?? []) modules.add(imported);
  closures.set(entry, modules);
  return modules;
}

const common = {
  format: "esm",
  platform: "node",
  target: "node22.13",
  logLevel: "error",
  tsconfig: "tsconfig.build.json",
  fixedExtension: false,
  plugins: licences,
} as const;

/**
 * Packages that every run loads. They are part of the output without what is not used of them: reading their many files takes
 * longer than all else before a server is started.
 */
const inlined = [
  "ajv",
  "ajv-formats",
  "zod",
  "@modelcontextprotocol/client",
  "commander",
  "diff",
  "ms",
  "re2js",
  "yaml",
  "json-p3",
  "jsonc-parser",
  "picocolors",
  "picomatch",
];

/** Extensions written in TypeScript; each becomes one file that needs nothing beside it. */
const bundled = ["kubernetes", "sql"];

export default defineConfig([
  {
    ...common,
    entry: {
      main: "src/cli/main.ts",
      index: "src/index.ts",
      extension: "src/extensions/sdk/index.ts",
      vitest: "src/vitest/index.ts",
      next: "src/dashboard/next.ts",
      "schema-worker": "src/graders/schema-worker.ts",
      "grader-host": "src/graders/grader-host.ts",
      "canary-host": "src/check/canary-host.ts",
    },
    dts: false,
    plugins: [licences, withoutPrograms, ascii],
    // jsonc-parser names its ES module there; the other one cannot be bundled.
    inputOptions: { resolve: { mainFields: ["module", "main"] } },
    outputOptions: {
      comments: { jsdoc: false },
      codeSplitting: { includeDependenciesRecursively: false, groups: [{ name: fileOf }] },
    },
    // A run loads most of it, which is a tenth of the time of a short one. Names of functions are for stack traces.
    minify: { compress: true, mangle: { keepNames: true }, codegen: { removeWhitespace: true } },
    noExternal: inlined.map((name) => new RegExp(`^${name}(/|$)`)),
    clean: true,
    copy: ["kubernetes/extension.yaml", "sql/extension.yaml", "csv/extension.yaml", "csv/main.py"].map(
      (path) => ({ from: `extensions/${path}`, to: `dist/extensions/${dirname(path)}` }),
    ),
  },
  // Types name those of zod itself, so that schemas of a reader's own fit.
  {
    ...common,
    plugins: [],
    entry: {
      index: "src/index.ts",
      extension: "src/extensions/sdk/index.ts",
      vitest: "src/vitest/index.ts",
      next: "src/dashboard/next.ts",
    },
    dts: { emitDtsOnly: true },
    clean: false,
  },
  ...bundled.map((name) => ({
    ...common,
    entry: { main: `extensions/${name}/main.ts` },
    outDir: `dist/extensions/${name}`,
    clean: false,
    dts: false,
    minify: true,
    noExternal: [/.*/],
    external: ["pg-native", "pg-cloudflare", "bufferutil", "utf-8-validate"],
  })),
]);
