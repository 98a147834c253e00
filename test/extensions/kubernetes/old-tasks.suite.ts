import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../../src/core/report/result.ts";
import { folderOf, root, runHere } from "../../support/cli.ts";
import { connect } from "./real-api.ts";

const evaluation = {
  kind: "Eval",
  metadata: { name: "kubernetes" },
  config: {
    agent: { type: "builtin.claude-code" },
    extensions: { kubernetes: { package: "./kubernetes", config: { kubeconfig: "${KUBE_FILE}" } } },
    taskSets: [{ path: "task.yaml" }],
  },
};
const task = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata:
  name: define-a-kind
spec:
  requires:
    - extension: kubernetes
  setup:
    - kubernetes.delete:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: old-tasks
        ignoreNotFound: true
    - kubernetes.create:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: old-tasks
    - kubernetes.create:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata:
          name: gadgets.example.org
        spec:
          group: example.org
          scope: Namespaced
          names: { kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget }
          versions:
            - name: v1
              served: true
              storage: true
              schema:
                openAPIV3Schema: { type: object, x-kubernetes-preserve-unknown-fields: true }
  verify:
    - kubernetes.wait:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata:
          name: gadgets.example.org
        condition: CONDITION
        timeout: 5s
  cleanup:
    - kubernetes.delete:
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata:
          name: gadgets.example.org
    - kubernetes.delete:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: old-tasks
  prompt:
    inline: Define a kind.
`;

describe("older tasks with a real API server", () => {
  it.each([
    ["Established", "pass", 0],
    ["Terminating", "fail", 1],
  ])("wait for %s: %s", async (condition, verdict, code) => {
    await using api = await connect();
    using folder = folderOf({ "eval.yaml": evaluation, "task.yaml": task.replace("CONDITION", condition) });
    const program = join(folder.path, "kubernetes");
    const source = join(root, "extensions/kubernetes/main.ts");
    writeFileSync(program, `#!${process.execPath}\nimport(${JSON.stringify(source)});\n`);
    chmodSync(program, 0o755);
    const outcome = await runHere(["run", "eval.yaml", "--agent", "null", "--reporter", "json"], {
      cwd: folder.path,
      env: { KUBE_FILE: api.kubeconfig },
    });
    expect(outcome.stderr).not.toContain("error");
    const result = JSON.parse(outcome.stdout) as RunResult;
    expect(result.trials.map((trial) => trial.verdict)).toEqual([verdict]);
    expect(outcome.code).toBe(code);
    const told = "CustomResourceDefinition gadgets.example.org has";
    expect(outcome.stdout).toContain(verdict === "pass" ? `${told} Established=True` : `${told} not come to`);
  });
});
