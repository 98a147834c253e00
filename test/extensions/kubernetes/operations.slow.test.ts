import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe } from "vitest";
import { type KubeApiServer, startKubeApi } from "../../support/kube-api.ts";
import { describeOperations } from "./shared-operations.ts";

describe("operations on a served API", () => {
  let api: KubeApiServer | undefined;
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-kubernetes-"));
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  describeOperations(async () => {
    const server = await startKubeApi();
    api = server;
    const kubeconfig = join(folder, "config");
    writeFileSync(kubeconfig, server.kubeconfig());
    return {
      folder,
      kubeconfig,
      async setStatus(path, status) {
        const answer = await fetch(`${server.url}${path}/status`, {
          method: "PATCH",
          headers: {
            Authorization: "Bearer token-of-admin",
            "Content-Type": "application/merge-patch+json",
          },
          body: JSON.stringify({ status }),
        });
        if (!answer.ok) throw new Error(await answer.text());
      },
    };
  });
});
