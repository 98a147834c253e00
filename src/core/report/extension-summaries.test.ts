import { expect, it } from "vitest";
import { defaultSandbox, type ExtensionSpec, type Task } from "../formats/model.ts";
import { extensionSummaries, type UsedFiles } from "./environment.ts";

const spec = (alias: string, from: string): ExtensionSpec => ({
  alias,
  package: from,
  dir: "/e",
  config: {},
  env: {},
  sandbox: { ...defaultSandbox, kind: "process" },
});

const task = (...extensions: readonly ExtensionSpec[]): Task =>
  ({
    portable: { extensions: Object.fromEntries(extensions.map((each) => [each.alias, each])) },
  }) as unknown as Task;

it("names each extension of the tasks once, with the version and the hash of what is used", () => {
  const [k8s, csv] = [spec("k8s", "github.com/o/k8s@v1"), spec("csv", "./csv")];
  const tasks = [task(k8s, csv), task(k8s), { portable: {} } as unknown as Task, {} as unknown as Task];
  const filesOf = (each: ExtensionSpec): UsedFiles =>
    each.alias === "k8s" ? { version: "v1.2.0", hash: "sha256:ab" } : {};
  expect(extensionSummaries({ tasks }, filesOf)).toEqual([
    { name: "k8s", package: "github.com/o/k8s@v1", version: "v1.2.0", hash: "sha256:ab", sandbox: "process" },
    { name: "csv", package: "./csv", sandbox: "process" },
  ]);
});
