import { expect, it } from "vitest";
import { unusedExtensionNotes } from "../../src/formats/assemble-eval.ts";
import type { EvalExtensions } from "../../src/model/extension.ts";
import { defaultSandbox } from "../../src/model/sandbox.ts";
import type { Task } from "../../src/model/task.ts";

const declared = (name: string): EvalExtensions["declared"][string] => ({
  package: `${name}@1`,
  name,
  dir: "/evals",
  config: {},
  env: {},
  sandbox: defaultSandbox,
});
const extensions = {
  declared: { inv: declared("npm:inv"), invv: declared("npm:other") },
} as unknown as EvalExtensions;

function using(alias: string, written: string): Task {
  const spec = { alias, package: written, dir: "/tasks", config: {}, env: {}, sandbox: defaultSandbox };
  return { name: "t", portable: { extensions: { [alias]: spec } } } as unknown as Task;
}

it("names the extensions of an eval that no step uses, by name or by package", () => {
  const note = (name: string): string =>
    `no step uses the extension "${name}", so its settings have no effect`;
  expect(unusedExtensionNotes(extensions, [])).toEqual([note("inv"), note("invv")]);
  expect(unusedExtensionNotes(extensions, [using("inv", "./x")])).toEqual([note("invv")]);
  expect(unusedExtensionNotes(extensions, [using("a", "npm:inv@2"), using("invv", "./y")])).toEqual([]);
});
