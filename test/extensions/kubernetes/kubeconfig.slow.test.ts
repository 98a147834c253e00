import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { kubeconfigOf } from "../../support/kube-api.ts";
import { fails, isError, passes, startExtension } from "./extension-process.ts";

const folder = mkdtempSync(join(tmpdir(), "mcpvals-kubeconfig-"));
/** A closed port; no test sends a request to it. */
const server = "https://127.0.0.1:9";

describe("the kubeconfig", () => {
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function write(name: string, document: object): string {
    const file = join(folder, name);
    mkdirSync(join(file, ".."), { recursive: true });
    writeFileSync(file, JSON.stringify(document));
    return file;
  }

  it("comes from the settings, KUBECONFIG, or the home folder", async () => {
    const named = (context: string): object => ({ ...kubeconfigOf(server), "current-context": context });
    write("home/.kube/config", named("nobody"));
    write("home/else", named("stranger"));
    const env = { HOME: join(folder, "home") };
    const KUBECONFIG = write("env", named("admin"));
    const cases = [
      [{}, env, "nobody"],
      [{}, { ...env, KUBECONFIG }, "admin"],
      [{ kubeconfig: "~/else" }, { ...env, KUBECONFIG }, "stranger"],
      [{ kubeconfig: "~/else", context: "admin" }, env, "admin"],
    ] as const;
    for (const [config, variables, context] of cases) {
      await using extension = await startExtension({ config, env: variables, workdir: folder });
      await passes(extension.run("getCurrentContext", null), context, { context });
    }
  });

  it("must exist and have the context", async () => {
    const start = (config: object): Promise<unknown> =>
      startExtension({ config, env: { HOME: folder }, workdir: folder });
    await expect(start({ kubeconfig: "/does/not/exist" })).rejects.toThrow(
      "the extension could not start: the kubeconfig /does/not/exist does not exist",
    );
    await expect(start({})).rejects.toThrow(`${join(folder, ".kube", "config")} does not exist`);
    const kubeconfig = write("one", kubeconfigOf(server));
    await expect(start({ kubeconfig, context: "prod" })).rejects.toThrow(
      `has no context "prod"; it has admin, nobody, stranger`,
    );
    await expect(start({ kubeConfig: kubeconfig })).rejects.toThrow(/kubeConfig/);
    writeFileSync(join(folder, "broken"), "{");
    await expect(start({ kubeconfig: join(folder, "broken") })).rejects.toThrow("cannot be read");
  });

  it("can be several files; the first that has a value wins", async () => {
    const first = write("a/first", {
      users: [{ name: "admin", user: { "client-certificate": "cert.pem", token: "secret" } }],
    });
    const second = write("b/second", kubeconfigOf(server, { "certificate-authority": "ca.pem" }));
    await using extension = await startExtension({
      env: { KUBECONFIG: ["/missing", first, second].join(delimiter), HOME: folder },
      workdir: folder,
    });
    const shown = await extension.run("viewConfig", { minify: true });
    expect(parse(shown.outputs?.["config"] ?? "")).toEqual({
      apiVersion: "v1",
      kind: "Config",
      preferences: {},
      clusters: [{ name: "test", cluster: { server, "certificate-authority": join(folder, "b", "ca.pem") } }],
      contexts: [{ name: "admin", context: { cluster: "test", user: "admin" } }],
      "current-context": "admin",
      users: [
        {
          name: "admin",
          user: { "client-certificate": join(folder, "a", "cert.pem"), token: "REDACTED" },
        },
      ],
    });
    await passes(extension.run("listContexts", null), "* admin\n  nobody\n  stranger", {
      current: "admin",
      count: "3",
      contexts: "admin\nnobody\nstranger",
    });
  });

  it("is shown without any secret", async () => {
    const user = {
      token: "s3cret",
      password: "s3cret",
      username: "u",
      "client-key-data": "s3cret",
      "client-certificate-data": "s3cret",
      "auth-provider": { name: "oidc", config: { "refresh-token": "s3cret" } },
      exec: { command: "login", env: [{ name: "KEY", value: "s3cret" }] },
    };
    const document = {
      ...kubeconfigOf(server, { "certificate-authority-data": "s3cret" }),
      users: [{ name: "admin", user }],
    };
    const kubeconfig = write("secrets", document);
    await using extension = await startExtension({ config: { kubeconfig }, workdir: folder });
    const shown = await extension.run("viewConfig");
    expect(JSON.stringify(shown)).not.toContain("s3cret");
    expect(parse(shown.outputs?.["config"] ?? "").users).toEqual([
      {
        name: "admin",
        user: {
          token: "REDACTED",
          password: "REDACTED",
          username: "u",
          "client-key-data": "DATA+OMITTED",
          "client-certificate-data": "DATA+OMITTED",
          "auth-provider": { name: "oidc", config: { "refresh-token": "REDACTED" } },
          exec: { command: "login", env: [{ name: "KEY", value: "REDACTED" }] },
        },
      },
    ]);
  });

  it("of an unreachable cluster is an error of the environment", async () => {
    const kubeconfig = write("dead", kubeconfigOf("https://127.0.0.1:9"));
    await using extension = await startExtension({ config: { kubeconfig }, workdir: folder });
    await isError(
      extension.run("resource-exists", { kind: "Pod", name: "x", exists: false }, { phase: "verify" }),
      "the Kubernetes API at https://127.0.0.1:9 cannot be reached",
    );
    const empty = write("empty", { kind: "Config" });
    await using none = await startExtension({ config: { kubeconfig: empty }, workdir: folder });
    await fails(none.run("getCurrentContext"));
    await isError(
      none.run("resource-exists", { kind: "Pod", name: "x" }, { phase: "verify" }),
      "has no current context",
    );
  });
});
