import * as nodeModule from "node:module";

/**
 * Imports a module by URL with Node's own loader. A file that is written as an ES module is taken for one whatever the
 * `package.json` above it says, so that a config works in any project and no warning about its type is printed.
 */
export async function importFile(url: string, text: string): Promise<unknown> {
  // Node 22.13 and 22.14 do not have it; there the package.json decides.
  if (!("registerHooks" in nodeModule) || !/^\s*(?:import|export)\b/m.test(text)) return import(url);
  const format = /\.m?ts$/.test(url) ? "module-typescript" : "module";
  const hooks = nodeModule.registerHooks({
    load: (target, context, next) => next(target, target === url ? { ...context, format } : context),
  });
  try {
    return (await import(url)) as unknown;
  } finally {
    hooks.deregister();
  }
}

/** Imports a module with jiti, which knows all of TypeScript and resolves imports as bundlers do. */
export async function importWithJiti(file: string): Promise<unknown> {
  const { createJiti } = await import("jiti");
  return createJiti(import.meta.url, { fsCache: false }).import(file);
}
