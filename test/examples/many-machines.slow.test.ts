import { spawnSync } from "node:child_process";
import { cpSync, readFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import * as models from "@kubernetes/client-node";
import { expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import type { RunResult } from "../../src/model/result.ts";
import { asObject } from "../../src/base/json.ts";
import { folderOf, root, runHere, startCli } from "../support/cli.ts";

const example = join(root, "examples/many-machines");

/** What a class of Kubernetes' client says of its fields. */
interface Model {
  getAttributeTypeMap(): readonly { readonly baseName: string; readonly type: string }[];
}
const classes = models as unknown as Readonly<Record<string, Partial<Model> | undefined>>;

/** Paths of the keys that Kubernetes does not have in a value of a type, such as `Array<V1Container>`. */
function unknownKeys(value: unknown, type: string, path: string): string[] {
  const item = /^Array<(.*)>$/.exec(type)?.[1];
  if (item !== undefined) {
    if (!Array.isArray(value)) return [`${path} is no list`];
    return value.flatMap((each: unknown, index) => unknownKeys(each, item, `${path}[${index}]`));
  }
  const fields = classes[type]?.getAttributeTypeMap?.();
  if (fields === undefined) return [];
  return Object.entries(asObject(value)).flatMap(([key, member]) => {
    const field = fields.find(({ baseName }) => baseName === key);
    return field === undefined ? [`${path}.${key}`] : unknownKeys(member, field.type, `${path}.${key}`);
  });
}

it("has only fields that Kubernetes has", () => {
  const documents = parseAllDocuments(readFileSync(join(example, "kubernetes.yaml"), "utf8"));
  const kinds = documents.map((document) => {
    const value = asObject(document.toJS());
    const kind = String(value["kind"]);
    expect(unknownKeys(value, `V1${kind}`, kind)).toEqual([]);
    return kind;
  });
  expect(kinds).toEqual(["Secret", "Deployment", "ScaledObject"]);
  const wrong = { spec: { template: { spec: { containers: [{ nam: "worker" }] } } } };
  expect(unknownKeys(wrong, "V1Deployment", "Deployment")).toEqual([
    "Deployment.spec.template.spec.containers[0].nam",
  ]);
});

it("has a probe that passes while a worker is alive, also without its database, and fails when it hangs", async () => {
  const [, deployment] = parseAllDocuments(readFileSync(join(example, "kubernetes.yaml"), "utf8"));
  const probed = ["spec", "template", "spec", "containers", 0, "livenessProbe", "exec", "command"];
  const arg = (index: number): string => String(deployment?.getIn([...probed, index]));
  using folder = folderOf({});
  const probe = (): number | null => spawnSync(arg(0), [arg(1), arg(2)], { cwd: folder.path }).status;
  expect(probe()).not.toBe(0);
  const worker = startCli(["worker", "postgres://127.0.0.1:1/none"], { cwd: folder.path });
  await expect.poll(probe, { timeout: 60_000 }).toBe(0);
  const file = join(folder.path, ".mcpvals/worker/alive");
  const before = new Date(Date.now() - 120_000);
  utimesSync(file, before, before);
  await expect.poll(probe, { timeout: 60_000 }).toBe(0);
  worker.child.kill("SIGKILL");
  await worker.finished;
  utimesSync(file, before, before);
  expect(probe()).toBe(1);
});

it("has an image with the mcpvals that was packed, not the package of that name on the registry", () => {
  const image = readFileSync(join(example, "Dockerfile"), "utf8");
  const installed = /^RUN npm install --global (.*)$/m.exec(image)?.[1]?.split(" ") ?? [];
  expect(installed[0]).toMatch(/^\/tmp\/mcpvals-\*\.tgz$/);
  expect(installed).not.toContain("mcpvals");
  expect(image).toMatch(/^COPY mcpvals-\*\.tgz \/tmp\/$/m);
});

it("passes on one machine", async () => {
  using folder = folderOf({});
  cpSync(example, folder.path, { recursive: true });
  const { code, stdout } = await runHere(["run", ".", "--reporter", "json"], { cwd: folder.path });
  const { trials } = JSON.parse(stdout) as RunResult;
  expect([code, trials.map(({ verdict }) => verdict)]).toEqual([0, Array.from({ length: 10 }, () => "pass")]);
});
