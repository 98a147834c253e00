import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

/**
 * The folders of src from the ground up, as docs/architecture.md describes them: a folder imports only those that stand before it. The
 * files beside them stand above all, and below the entry point for Vitest.
 */
const order = [
  "base",
  "statistics",
  "process",
  "templates",
  "model",
  "sandbox",
  "expect",
  "trace",
  "servers",
  "extensions",
  "steps",
  "agents",
  "check",
  "graders",
  "formats",
  "store",
  "report",
  "run",
  "dashboard",
  "cli",
  "evaluate.ts",
  "check.ts",
  "index.ts",
  "vitest",
];

/** Modules and globals that are allowed in some folders only. */
const reserved: readonly {
  readonly pattern: RegExp;
  readonly owners: readonly string[];
  readonly what: string;
}[] = [
  { pattern: /from "(node:)?child_process"/, owners: ["process"], what: "node:child_process" },
  { pattern: /from "cross-spawn"/, owners: ["process"], what: "cross-spawn" },
  { pattern: /\bprocess\.env\b/, owners: ["formats"], what: "process.env" },
  { pattern: /\bprocess\.platform\b/, owners: ["process", "run"], what: "process.platform" },
  { pattern: /\bprocess\.exit\(/, owners: ["cli", "extensions", "graders"], what: "process.exit" },
  {
    pattern: /\bprocess\.cwd\(/,
    owners: ["check.ts", "cli", "dashboard", "evaluate.ts"],
    what: "process.cwd",
  },
  { pattern: /(?<![/.])\bconsole\./, owners: [], what: "console" },
];

const root = resolve(import.meta.dirname, "..", "src");
const app = resolve(root, "..", "dashboard", "src");
/** What has to run in a browser: only this may be imported by the app of the dashboard. */
const browser = JSON.parse(readFileSync(resolve(root, "..", "tsconfig.browser.json"), "utf8")) as {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
};
const files = sourceFiles(root);
const appFiles = sourceFiles(app);
const imports = new Map([...files, ...appFiles].map((file) => [file, importedFiles(file)]));
const problems = [
  ...files.flatMap(checkFile),
  ...appFiles.flatMap(checkAppFile),
  ...cycles(imports).map((cycle) => `import cycle: ${cycle}`),
  ...cycles(folderImports()).map((cycle) => `cycle of folders: ${cycle}`),
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
  const home = placeOf(file);
  const name = relative(root, file);
  if (!order.includes(home)) return [`${name}: "${home}" is not in the order of folders`];
  const upward = (imports.get(file) ?? []).filter(
    (target) => target.startsWith(root + sep) && order.indexOf(placeOf(target)) > order.indexOf(home),
  );
  return [
    ...upward.map((target) => `${name}: ${home} must not import ${relative(root, target)}`),
    ...checkReserved(name, withoutComments(readFileSync(file, "utf8")), home),
  ];
}

function checkAppFile(file: string): string[] {
  return (imports.get(file) ?? [])
    .filter((target) => !target.startsWith(app + sep) && !isForBrowser(target))
    .map((target) => `${relative(dirname(root), file)}: the app must not import ${relative(root, target)}`);
}

function isForBrowser(file: string): boolean {
  const name = relative(dirname(root), file);
  const isIn = (places: readonly string[]): boolean =>
    places.some((place) => name === place || name.startsWith(`${place}/`));
  return isIn(browser.include) && !isIn(browser.exclude);
}

/** What the folders import of each other that stand beside each other in a folder of src. */
function folderImports(): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const [file, targets] of imports)
    for (const target of targets) {
      const [home, inner] = relative(root, file).split(sep);
      const [otherHome, other] = relative(root, target).split(sep);
      if (home !== otherHome || inner === other || inner === undefined || other === undefined) continue;
      const [from, to] = [inner, other].map((part) => join(root, home ?? "", part));
      if (from === undefined || to === undefined || from.endsWith(".ts") || to.endsWith(".ts")) continue;
      found.set(from, [...(found.get(from) ?? []), to]);
    }
  return found;
}

/** Nodes of a graph that lead to each other, each cycle once. */
function cycles(graph: ReadonlyMap<string, readonly string[]>): readonly string[] {
  const all = [...graph.keys()];
  const reachable = new Map(all.map((node) => [node, reachableFrom(node, graph)]));
  const reaches = (from: string, to: string): boolean => reachable.get(from)?.has(to) === true;
  const groups = all.map((node) => all.filter((other) => reaches(node, other) && reaches(other, node)));
  const texts = groups.map((group) => group.map((node) => relative(root, node)).join(", "));
  return [...new Set(texts)].filter((text) => text !== "");
}

/** The files that a file imports by value, by type or when they are used. */
function importedFiles(file: string): string[] {
  const code = withoutComments(readFileSync(file, "utf8"));
  const found = code.matchAll(
    /^(?:import|export)\b[^;"']*?from\s+["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)/gm,
  );
  return [...found]
    .map(([, target = "", later = ""]) => target || later)
    .filter((target) => target.startsWith("."))
    .map((target) => resolve(dirname(file), target));
}

function reachableFrom(node: string, graph: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const found = new Set<string>();
  const open = [...(graph.get(node) ?? [])];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue;
    found.add(next);
    open.push(...(graph.get(next) ?? []));
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

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/^\s*\/\/.*$/gm, "");
}

function placeOf(file: string): string {
  return relative(root, file).split(sep)[0] ?? "";
}
