import { afterAll, describe } from "vitest";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect, type RealApi } from "./real-api.ts";
import { describeOperations } from "./shared-operations.ts";

describe("operations on a real API server", () => {
  const folder = mkdtempSync(join(tmpdir(), "mcpvals-kubernetes-"));
  let api: RealApi | undefined;
  afterAll(async () => {
    await api?.[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });
  describeOperations(async () => {
    const real = await connect();
    api = real;
    return { folder, kubeconfig: real.kubeconfig, setStatus: (...of) => real.setStatus(...of) };
  });
});
