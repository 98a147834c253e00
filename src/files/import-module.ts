import * as nodeModule from "node:module";
import { sep } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Codes of what Node refuses before a module runs, and jiti may accept. */
const refusals: readonly unknown[] = [
  "ERR_UNKNOWN_FILE_EXTENSION",
  "ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX",
  "ERR_INVALID_TYPESCRIPT_SYNTAX",
  "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING",
  "ERR_MODULE_NOT_FOUND",
  "ERR_UNSUPPORTED_DIR_IMPORT",
  "ERR_IMPORT_ATTRIBUTE_MISSING",
];

/** By path of a config: how often it was imported, and the files that were, itself among them. */
const imported = new Map<string, { readonly version: number; readonly files: ReadonlySet<string> }>();

/**
 * Imports a module with Node, or else with jiti, which knows all of TypeScript and resolves imports as bundlers do. Adds the paths of the
 * files that it imports to `files`; those that have changed since an earlier import are read again.
 */
export async function importModule(file: string, text: string, files: Set<string>): Promise<unknown> {
  const earlier = imported.get(file) ?? { version: 0, files };
  const version = earlier.version + 1;
  imported.set(file, { version, files });
  const { cache } = nodeModule.createRequire(import.meta.url);
  for (const path of earlier.files) delete cache[path];
  try {
    return await importFile(file, { text, version, files });
  } catch (error) {
    // Node says best which export is missing; to jiti it would only be undefined.
    if (!(error instanceof Error) || error.message.includes("does not provide an export")) throw error;
    if (error.name !== "SyntaxError" && !("code" in error && refusals.includes(error.code))) throw error;
  }
  const { createJiti } = await import("jiti");
  for (const path of files) delete cache[path];
  const others = new Set(Object.keys(cache));
  try {
    return await createJiti(import.meta.url, { fsCache: false }).import(file);
  } finally {
    for (const path of Object.keys(cache)) if (!others.has(path) && isOwn(path)) files.add(path);
  }
}

function isOwn(path: string): boolean {
  return !path.split(sep).includes("node_modules");
}

interface ImportOptions {
  readonly text: string;
  /** How often the file was imported, with this import. */
  readonly version: number;
  readonly files: Set<string>;
}

/**
 * Imports a module with Node's own loader. A file that is written as an ES module is taken for one whatever the
 * `package.json` above it says, so that a config works in any project and no warning about its type is printed.
 */
async function importFile(file: string, { text, version, files }: ImportOptions): Promise<unknown> {
  // Node imports a URL once; a file that may have changed since then needs another one.
  const versioned = (url: string): string => (version === 1 ? url : `${url}?version=${version}`);
  const root = versioned(pathToFileURL(file).href);
  // Node 22.13 and 22.14 do not have it; there the package.json decides, and imports are not known.
  if (!("registerHooks" in nodeModule)) return import(root);
  const isModule = /^\s*(?:import|export)\b/m.test(text);
  const format = /\.m?ts$/.test(file) ? "module-typescript" : "module";
  const hooks = nodeModule.registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      const path = pathOf(found.url);
      const importer = pathOf(context.parentURL);
      if (path === undefined || importer === undefined || !files.has(importer) || !isOwn(path)) return found;
      files.add(path);
      return { ...found, url: versioned(pathToFileURL(path).href) };
    },
    load: (target, context, next) =>
      next(target, isModule && target === root ? { ...context, format } : context),
  });
  try {
    return (await import(root)) as unknown;
  } finally {
    hooks.deregister();
  }
}

function pathOf(url: string | undefined): string | undefined {
  return url?.startsWith("file:") === true ? fileURLToPath(url) : undefined;
}
