import { describe, expect, it } from "vitest";
import { parse as parseYaml } from "yaml";
import {
  check,
  extensionsNamed,
  filesOf,
  problemsOf,
  taskDocument,
  valid,
  wrongIn,
} from "../../../test/support/task-file.ts";
import { extensionsOf } from "../../../test/support/extension-effects.ts";
import { noExtensions } from "../../model/extension.ts";
import { defaultSandbox } from "../../model/sandbox.ts";
import type { ExtensionSpec } from "../../model/task.ts";
import type { ParseTaskOptions } from "./task-options.ts";

type Options = Partial<ParseTaskOptions>;

function withoutPlace(spec: ExtensionSpec): Partial<ExtensionSpec> {
  return Object.fromEntries(Object.entries(spec).filter(([key]) => key !== "location"));
}

/** The extensions of a task that uses each of these once, without their places. */
function used(
  uses: readonly object[],
  { imports = [], ...options }: Options & { readonly imports?: readonly object[] } = {},
): Readonly<Record<string, Partial<ExtensionSpec>>> {
  const document = taskDocument({ imports, verify: [check, ...uses] });
  const { task } = valid(document, { resolvePath: (path) => `/task/${path}`, ...options });
  const specs = Object.entries(task.portable?.extensions ?? {});
  return Object.fromEntries(specs.map(([name, spec]) => [name, withoutPlace(spec)]));
}

const plain = { dir: "/task", config: {}, env: {}, sandbox: defaultSandbox };

describe("what a task's steps call an extension", () => {
  it("is an import, and those that no step uses are left out", () => {
    const imports = [
      { package: "npm:a@1", as: "a" },
      { package: "npm:b@1", as: "b" },
    ];
    expect(used([{ not: { "a.x": {} } }], { imports })).toEqual({
      a: { alias: "a", package: "npm:a@1", ...plain },
    });
    expect(valid(taskDocument({ imports })).task.portable).not.toHaveProperty("extensions");
  });

  it("gets the variables of the shell that the eval passes on", () => {
    const imports = [{ package: "npm:a@1", as: "a" }];
    const spec = (inheritEnv: ParseTaskOptions["inheritEnv"]): unknown =>
      used([{ "a.x": {} }], { imports, inheritEnv })["a"]?.inheritEnv;
    expect([spec(["KEY"]), spec(true), spec([])]).toEqual([["KEY"], true, undefined]);
  });

  it("is what the eval has of that name, whatever the import says", () => {
    const extensions = extensionsOf({
      a: { package: "npm:a@2", config: { c: 1 }, env: { E: "e" }, sandbox: "process" },
    });
    const imports = [{ package: "github.com/o/a@v1", as: "a" }];
    const spec = {
      alias: "a",
      package: "npm:a@2",
      dir: "/eval",
      config: { c: 1 },
      env: { E: "e" },
      sandbox: { ...defaultSandbox, kind: "process" },
    };
    expect(used([{ "a.x": {} }], { imports, extensions })).toEqual({ a: spec });
    expect(used([{ "a.x": {} }], { extensions })).toEqual({ a: spec });
    expect(used([{ extension: { package: "a", action: "x" } }], { extensions })).toEqual({ a: spec });
    const notes = (written: string): readonly string[] =>
      valid(taskDocument({ imports: [{ package: written, as: "a" }], verify: [{ "a.x": {} }] }), {
        extensions,
      }).notes;
    expect(notes("github.com/o/a@v1")).toEqual([
      'the import "a" is npm:a@2, as the eval says, not github.com/o/a@v1',
    ]);
    expect(notes("npm:a")).toEqual(['the import "a" is npm:a@2, as the eval says, not npm:a']);
    expect(notes("npm:a@2")).toEqual([]);
  });

  it("is started as the eval says of the same package, in the version of the task", () => {
    const extensions = extensionsOf({
      mine: { package: "https://github.com/o/a@v1", config: { c: 1 }, memory: "1GB" },
      sandbox: "process",
    });
    const imports = [{ package: "github.com/o/a@v2", as: "a" }];
    const sandbox = { ...defaultSandbox, kind: "process" };
    const joined = {
      dir: "/task",
      config: { c: 1 },
      env: {},
      sandbox: { ...sandbox, memoryBytes: 1024 ** 3 },
    };
    expect(used([{ "a.x": {} }], { imports, extensions })).toEqual({
      a: { alias: "a", package: "github.com/o/a@v2", ...joined },
    });
    const long = { extension: { package: "github.com/o/a", action: "x" } };
    const other = { extension: { package: "npm:other", action: "x" } };
    expect(used([long, other], { extensions })).toEqual({
      "github.com/o/a": { alias: "github.com/o/a", package: "github.com/o/a", ...joined },
      "npm:other": { alias: "npm:other", package: "npm:other", ...plain, sandbox },
    });
  });

  it("is started with nothing where two of the eval could be meant", () => {
    const extensions = extensionsOf({
      one: { package: "npm:a", config: { c: 1 } },
      two: { package: "npm:a", config: { c: 2 } },
    });
    const imports = [{ package: "npm:a", as: "a" }];
    expect(used([{ "a.x": {} }], { imports, extensions })).toEqual({
      a: { alias: "a", package: "npm:a", ...plain },
    });
  });

  it("may be imported by its name in the eval, as in tasks that were migrated", () => {
    const extensions = extensionsOf({ kubernetes: { package: "npm:k@1", config: { c: 1 } } });
    const imports = [{ package: "kubernetes", as: "k8s" }];
    expect(used([{ "k8s.x": {} }], { imports, extensions })).toEqual({
      k8s: { ...plain, alias: "k8s", package: "npm:k@1", dir: "/eval", config: { c: 1 } },
    });
    const document = taskDocument({ imports, verify: [{ "k8s.x": {} }] });
    const parsed = valid(document, { knowsEval: false });
    expect([parsed.task.portable?.extensions, parsed.extensions.length]).toEqual([undefined, 1]);
    expect(wrongIn({ imports, verify: [{ "k8s.x": {} }] })).toEqual([
      'extension/invalid-package at value spec.imports[0].package: spec.imports[0].package: "kubernetes" is not a valid package',
    ]);
  });

  it("reserves the ports that it is started with", () => {
    const extensions = extensionsOf({ a: { package: "npm:a", env: { PORT: "{random.port:x}" } } });
    const { task } = valid(taskDocument({ verify: [{ "a.x": {} }] }), { extensions });
    expect(task.portable?.randomPorts).toEqual(["x"]);
  });
});

describe("the time limit of a step of an extension", () => {
  it("is its own, else that of the extension, else that of all, else 5 minutes", () => {
    const extensions = extensionsOf({ a: { package: "npm:a", timeout: "2s" }, timeout: "3s" });
    const imports = [{ package: "npm:b", as: "b" }];
    const verify = [{ "a.x": { timeout: "1s" } }, { "a.x": {} }, { group: { steps: [{ "b.x": {} }] } }];
    const times = (options: Options): unknown => {
      const { task } = valid(
        taskDocument({ imports: [...imports, { package: "npm:a", as: "a" }], verify }),
        options,
      );
      return task.verify
        .flatMap((step) => (step.type === "group" ? step.steps : [step]))
        .map((each) => each.timeoutMs);
    };
    expect(times({ extensions })).toEqual([1000, 2000, 3000]);
    expect(times({ extensions: noExtensions })).toEqual([1000, 300_000, 300_000]);
  });
});

describe("extensions of a task are refused", () => {
  it("when their packages are none, or lead out of the task's folder", () => {
    const imports = ["npm:", "../x", "~/x", "/x", "./none", "file://./here"].map((each, index) => ({
      package: each,
      as: `e${index}`,
    }));
    const verify = [
      { extension: { package: "https://x.org/a", action: "x" } },
      { extension: { package: "../y", action: "x" } },
    ];
    expect(wrongIn({ imports, verify }, { files: filesOf({ "./here": "" }) })).toEqual([
      'extension/invalid-package at value spec.imports[0].package: spec.imports[0].package: "npm:" is not a valid npm package',
      'task/outside at value spec.imports[1].package: spec.imports[1].package: "../x" lies outside the task\'s folder',
      'task/outside at value spec.imports[2].package: spec.imports[2].package: "~/x" lies outside the task\'s folder',
      'task/outside at value spec.imports[3].package: spec.imports[3].package: "/x" lies outside the task\'s folder',
      'config/unknown-reference at value spec.imports[4].package: spec.imports[4].package: there is no file or folder "./none" in the task\'s folder',
      'extension/invalid-package at value spec.verify[0].extension.package: spec.verify[0].extension.package: "https://x.org/a" is an address of an unknown kind',
      'task/outside at value spec.verify[1].extension.package: spec.verify[1].extension.package: "../y" lies outside the task\'s folder',
    ]);
  });

  it("but not for a file that is not there when the eval gives another one", () => {
    const imports = [{ package: "./none", as: "a" }];
    expect(wrongIn({ imports }, { extensions: extensionsNamed("a") })).toEqual([]);
    expect(
      wrongIn({ imports: [{ package: "../x", as: "a" }] }, { extensions: extensionsNamed("a") }),
    ).toEqual([
      'task/outside at value spec.imports[0].package: spec.imports[0].package: "../x" lies outside the task\'s folder',
    ]);
  });

  it("when a step could mean a server as well", () => {
    const options = { extensions: extensionsNamed("main") };
    expect(problemsOf(taskDocument({ verify: [check, { "main.x": {} }] }), options)).toEqual([
      'config/duplicate-name at key spec.verify[1]["main.x"]: an extension of the eval and a server are both named "main"',
    ]);
    expect(problemsOf(taskDocument({ verify: [{ mcp: { server: "main", tool: "x" } }] }), options)).toEqual(
      [],
    );
  });
});

it("finds the operations of extensions in every phase, however deep", () => {
  const spec = parseYaml(`
setup: [{ext.make: {id: made, timeout: 1s, name: "{random.id}", of: [1]}}]
verify:
  - command: {run: test -d .}
  - group:
      setup: [{ext.a: {id: mine}}]
      steps: [{not: {ext.look.at: {}}}]
      cleanup: [{allOf: [{ext.z: {id: last}}]}]
cleanup:
  - foreach: {var: x, in: [1], steps: [{extension: {package: npm:e@1, action: b, args: {id: "{x}"}}}]}`) as object;
  const { extensions } = valid(taskDocument(spec), { extensions: extensionsNamed("ext") });
  const shown = extensions.map(({ location, args, ...use }) => [...Object.values(use), args, location?.path]);
  expect(shown).toEqual([
    ["made", "setup", "ext", "make", { name: "{random.id}", of: [1] }, 'key spec.setup[0]["ext.make"]'],
    ["mine", "setup", "ext", "a", {}, 'key spec.verify[1].group.setup[0]["ext.a"]'],
    ["steps[0]", "verify", "ext", "look.at", {}, 'key spec.verify[1].group.steps[0].not["ext.look.at"]'],
    ["last", "cleanup", "ext", "z", {}, 'key spec.verify[1].group.cleanup[0].allOf[0]["ext.z"]'],
    ["steps[0]", "cleanup", "npm:e@1", "b", { id: "{x}" }, "key spec.cleanup[0].foreach.steps[0].extension"],
  ]);
  expect(valid(taskDocument()).extensions).toEqual([]);
});
