import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { RunResult } from "../../src/model/result.ts";
import { type HereOutcome, folderOf, root, runHere } from "../support/cli.ts";
import { type KubeApiServer, startKubeApi } from "../support/kube-api.ts";
import { startReleaseMirror, zipOf } from "../support/release-mirror.ts";
import { executable, platform } from "../extensions/resolve/resolving.ts";

/** An eval and tasks as they are written for the extension's older releases. */
const evaluation = `kind: Eval
metadata:
  name: kubernetes
config:
  agent: { type: builtin.claude-code }
  extensions:
    kubernetes:
      package: https://github.com/mcpchecker/kubernetes-extension@v0.0.2
      config:
        kubeconfig: "\${KUBE_FILE}"
  taskSets:
    - glob: tasks/*.yaml
`;
const deployment = `kind: Task
apiVersion: mcpchecker/v1alpha2
metadata:
  name: scale-deployment
  difficulty: easy
spec:
  requires:
    - extension: kubernetes
  setup:
    - kubernetes.delete:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: scale-test
        ignoreNotFound: true
    - kubernetes.create:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: scale-test
    - kubernetes.create:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
          namespace: scale-test
        spec:
          replicas: 1
          selector:
            matchLabels:
              app: web
          template:
            metadata:
              labels:
                app: web
            spec:
              containers:
                - name: nginx
                  image: nginx
        status:
          conditions:
            - type: Available
              status: "STATUS"
              reason: Told
  verify:
    - kubernetes.wait:
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          name: web
          namespace: scale-test
        condition: Available
        timeout: 1s
    - kubernetes.getCurrentContext:
  cleanup:
    - kubernetes.delete:
        apiVersion: v1
        kind: Namespace
        metadata:
          name: scale-test
        ignoreNotFound: true
  prompt:
    inline: Scale the deployment web in the namespace scale-test to 3 replicas.
`;

describe.skipIf(process.platform === "win32")(
  "tasks that were written for the older Kubernetes extension",
  () => {
    it("run unchanged, with the release that a mirror has", async () => {
      await using api = await startKubeApi();
      const { code, result } = await runTask(api, deployment.replace("STATUS", "True"));
      expect(result.trials.map(({ verdict }) => verdict)).toEqual(["pass"]);
      expect(code).toBe(0);
      const asked = api.requests.map(({ method, path }) => `${method} ${path}`);
      expect(asked).toContain("POST /apis/apps/v1/namespaces/scale-test/deployments");
      expect(asked.filter((line) => line === "DELETE /api/v1/namespaces/scale-test")).toHaveLength(2);
      expect(api.store.get("Namespace", "scale-test")?.metadata["deletionTimestamp"]).toEqual(
        expect.any(String),
      );
    });

    it("fail for a condition that does not come, and say what is there", async () => {
      await using api = await startKubeApi();
      const { code, stdout, result } = await runTask(api, deployment.replace("STATUS", "False"));
      expect(result.trials.map(({ verdict }) => verdict)).toEqual(["fail"]);
      expect(code).toBe(1);
      expect(stdout).toContain("Deployment scale-test/web has not come to Available=True within 1s");
      expect(stdout).toContain("conditions: Available=False (Told)");
    });

    it("are an error when the cluster does not work, whatever was asked", async () => {
      await using api = await startKubeApi();
      api.fault(/^GET \/apis\/apps\/v1\/namespaces/, { kind: "status", status: 503, message: "no leader" });
      const { code, stdout, result } = await runTask(api, deployment.replace("STATUS", "True"));
      expect(result.trials.map(({ verdict }) => verdict)).toEqual(["error"]);
      expect(code).toBe(3);
      expect(stdout).toContain("answered 503: no leader");
    });
  },
);

async function runTask(
  api: KubeApiServer,
  task: string,
): Promise<HereOutcome & { readonly result: RunResult }> {
  using folder = folderOf({
    "eval.yaml": evaluation,
    "tasks/task.yaml": task,
    "kube/config": api.kubeconfig(),
    ".git/HEAD": "",
  });
  const name = `kubernetes-extension-${platform}`;
  const archive = await zipOf([executable(name, program())]);
  await using mirror = await startReleaseMirror({
    "mcpchecker/kubernetes-extension": [{ tag: "v0.0.2", files: { [`${name}.zip`]: archive } }],
  });
  const outcome = await runHere(["run", "eval.yaml", "--agent", "null", "--reporter", "json"], {
    cwd: folder.path,
    env: {
      KUBE_FILE: join(folder.path, "kube/config"),
      MCPVALS_RELEASES_URL: mirror.url,
      MCPVALS_EXTENSIONS_CACHE: join(folder.path, "cache"),
    },
  });
  try {
    return { ...outcome, result: JSON.parse(outcome.stdout) as RunResult };
  } catch (cause) {
    throw new Error(`no result (exit ${outcome.code}):\n${outcome.stdout}\n${outcome.stderr}`, { cause });
  }
}

/** Our own extension, as the built file or from its source. */
function program(): string {
  const built = join(root, "dist/extensions/kubernetes/main.js");
  const source = join(root, "extensions/kubernetes/main.ts");
  const code = existsSync(built) ? readFileSync(built, "utf8") : `import(${JSON.stringify(source)});\n`;
  return `#!${process.execPath}\n${code}`;
}
