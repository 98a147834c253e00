import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/**
 * Which folder of src may import which, by value or by type. Any other import is an error.
 */
const allowedImports: Readonly<Record<string, readonly string[]>> = {
  core: [],
  files: ["core"],
  load: ["core", "files", "process"],
  process: ["core", "files"],
  sandbox: ["core", "process"],
  servers: ["core", "files", "process", "sandbox"],
  models: ["core", "process"],
  agents: ["core", "files", "models", "process", "servers"],
  steps: ["core", "extensions", "files", "process", "servers"],
  extensions: ["core", "files", "process", "sandbox"],
  "extension-sdk": ["core"],
  graders: ["core", "files", "models", "process"],
  store: ["core", "files"],
  reporters: ["core", "dashboard"],
  dashboard: ["core", "files", "graders", "store"],
  next: ["core", "dashboard", "load", "store"],
  check: ["core", "process", "servers"],
  run: [
    "check",
    "core",
    "load",
    "agents",
    "extensions",
    "graders",
    "models",
    "process",
    "servers",
    "steps",
    "store",
  ],
  "evaluate.ts": ["core", "load", "reporters", "run"],
  "check.ts": ["core", "evaluate.ts", "load", "reporters", "run"],
  "index.ts": ["core", "load", "check.ts", "evaluate.ts"],
  vitest: ["core", "process", "reporters", "servers", "graders", "run", "check.ts", "evaluate.ts"],
  cli: ["core", "dashboard", "load", "extensions", "files", "process", "store", "reporters", "run"],
};

/**
 * The folders inside `core` and `servers`, in order: a folder may import the ones before it. Files outside of them come last.
 */
const innerOrder: Readonly<Record<string, readonly string[]>> = {
  core: [
    "text",
    "statistics",
    "errors",
    "templates",
    "formats",
    "checks",
    "plan",
    "trace",
    "lint",
    "grade",
    "report",
    "view",
  ],
  servers: [
    "messages",
    "filters",
    "connections",
    "client",
    "stdio",
    "http",
    "mock",
    "gateway",
    "client-files",
  ],
};
/** In core, an earlier stage may import types of a later one. */
const typesOnly = /^import type |^export type /;

/** Modules and globals that are allowed in some folders only. */
const reserved: readonly {
  readonly pattern: RegExp;
  readonly owners: readonly string[];
  readonly what: string;
}[] = [
  { pattern: /from "(node:)?child_process"/, owners: ["process"], what: "node:child_process" },
  { pattern: /from "cross-spawn"/, owners: ["process"], what: "cross-spawn" },
  { pattern: /\bprocess\.env\b/, owners: ["load"], what: "process.env" },
  { pattern: /\bprocess\.platform\b/, owners: ["process", "run"], what: "process.platform" },
  { pattern: /\bprocess\.exit\(/, owners: ["cli", "extension-sdk", "graders"], what: "process.exit" },
  { pattern: /\bprocess\.cwd\(/, owners: ["check.ts", "cli", "evaluate.ts", "next"], what: "process.cwd" },
  { pattern: /(?<![/.])\bconsole\./, owners: [], what: "console" },
];

const root = resolve(import.meta.dirname, "..", "src");
const files = sourceFiles(root);
const app = resolve(root, "..", "dashboard", "src");
const appFiles = sourceFiles(app);
const problems = [
  ...files.flatMap(checkFile),
  ...appFiles.flatMap(checkAppFile),
  ...cycles([...files, ...appFiles]),
];
for (const problem of problems) console.error(problem);
console.log(problems.length === 0 ? "imports: all allowed" : `imports: ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return sourceFiles(path);
    return /\.tsx?$/.test(entry.name) && !/\.test\.tsx?$/.test(entry.name) ? [path] : [];
  });
}

function checkFile(file: string): string[] {
  const text = readFileSync(file, "utf8");
  const home = placeOf(file);
  const allowed = allowedImports[home];
  const name = relative(root, file);
  if (allowed === undefined)
    return [`${name}: the folder "${home}" has no entry in the table of allowed imports`];
  const code = withoutComments(text);
  return [
    ...checkImports(file, code, allowed),
    ...checkReserved(name, code, home),
    ...checkNodeInCore(name, code, home),
  ];
}

/** The app of the dashboard runs in a browser: of src it may import core only. */
function checkAppFile(file: string): string[] {
  return importsOf(withoutComments(readFileSync(file, "utf8"))).flatMap(({ target }) => {
    if (!target.startsWith(".")) return [];
    const path = resolve(dirname(file), target);
    const isAllowed = [app, join(root, "core")].some((folder) => path.startsWith(folder + sep));
    return isAllowed ? [] : [`${relative(dirname(root), file)}: the app must not import ${target}`];
  });
}

function checkImports(file: string, code: string, allowed: readonly string[]): string[] {
  return importsOf(code).flatMap(({ target, statement }) => {
    if (!target.startsWith(".")) return [];
    const path = resolve(dirname(file), target);
    if (!path.startsWith(root + sep)) return [];
    const from = placeOf(file);
    const to = placeOf(path);
    const name = relative(root, file);
    if (from === to) return checkInner(from, { file, path, statement });
    return allowed.includes(to) ? [] : [`${name}: ${from} must not import ${to} (${target})`];
  });
}

function checkInner(
  home: string,
  { file, path, statement }: { readonly file: string; readonly path: string; readonly statement: string },
): string[] {
  const order = innerOrder[home];
  if (order === undefined) return [];
  const folderOf = (place: string): string => relative(join(root, home), place).split(sep)[0] ?? "";
  const rankOf = (folder: string): number => (order.includes(folder) ? order.indexOf(folder) : order.length);
  const [from, to] = [folderOf(file), folderOf(path)];
  const isAllowed = rankOf(from) >= rankOf(to) || (home === "core" && typesOnly.test(statement));
  return isAllowed ? [] : [`${relative(root, file)}: ${home}/${from} must not import ${home}/${to}`];
}

/** Files that import each other in a cycle, by value, by type or when they are used, each cycle once. */
function cycles(all: readonly string[]): string[] {
  const imports = new Map(all.map((file) => [file, importedFiles(file)]));
  const reachable = new Map(all.map((file) => [file, reachableFrom(file, imports)]));
  const groups = all.map((file) => all.filter((other) => reaches(file, other) && reaches(other, file)));
  const texts = groups.map((group) => group.map((file) => relative(root, file)).join(", "));
  return [...new Set(texts)].filter((text) => text !== "").map((text) => `import cycle: ${text}`);

  function reaches(from: string, to: string): boolean {
    return reachable.get(from)?.has(to) === true;
  }
}

function importedFiles(file: string): string[] {
  return importsOf(withoutComments(readFileSync(file, "utf8")))
    .filter(({ target }) => target.startsWith("."))
    .map(({ target }) => resolve(dirname(file), target));
}

function reachableFrom(file: string, imports: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(imports.get(file) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(imports.get(next) ?? []));
  }
  return found;
}

function checkReserved(name: string, code: string, home: string): string[] {
  return reserved.flatMap(({ pattern, owners, what }) =>
    !owners.includes(home) && pattern.test(code)
      ? [`${name}: only ${owners.join(", ") || "nobody"} may use ${what}`]
      : [],
  );
}

function checkNodeInCore(name: string, code: string, home: string): string[] {
  return home === "core" && /from "node:/.test(code) ? [`${name}: core must not import node: modules`] : [];
}

function importsOf(code: string): { target: string; statement: string }[] {
  const found = code.matchAll(
    /^(?:import|export)\b[^;"']*?from\s+["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)/gm,
  );
  return [...found].map((match) => ({ target: match[1] ?? match[2] ?? "", statement: match[0] }));
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$/gm, "");
}

function placeOf(file: string): string {
  return relative(root, file).split(sep)[0] ?? "";
}
