import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type KubeApiServer, startKubeApi } from "../../support/kube-api.ts";
import { type ExtensionProcess, startExtension } from "./extension-process.ts";

/** The extension with a served API. */
export interface Served extends AsyncDisposable {
  readonly api: KubeApiServer;
  readonly extension: ExtensionProcess;
  readonly folder: string;
}

/** Starts both; `env` is for the extension. */
export async function serveExtension(env: Readonly<Record<string, string>> = {}): Promise<Served> {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-kubernetes-"));
  const api = await startKubeApi();
  const kubeconfig = join(folder, "config");
  writeFileSync(kubeconfig, api.kubeconfig());
  const extension = await startExtension({ config: { kubeconfig }, workdir: folder, env });
  return {
    api,
    extension,
    folder,
    async [Symbol.asyncDispose]() {
      await extension[Symbol.asyncDispose]();
      await api[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Resolves once it holds. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((done) => setTimeout(done, 5));
}
