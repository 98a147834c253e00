import { expect } from "vitest";
import { type EvalExtensions, extensionTableSchema, readExtensionTable } from "../../src/model/extension.ts";
import type { ExtensionSpec } from "../../src/model/task.ts";
import type { SandboxSpec } from "../../src/model/sandbox.ts";

/** What a valid table of extensions in `/eval` gives to tasks. */
export function extensionsOf(table: object): EvalExtensions {
  return readExtensionTable(extensionTableSchema.parse(table), {
    dir: "/eval",
    resolvePath: (path) => `/eval/${path}`,
    path: ["extensions"],
    locate: () => undefined,
  });
}

function declared(entry: object, general: object = {}): Partial<ExtensionSpec> & { timeoutMs?: number } {
  return extensionsOf({ ...general, e: { package: "npm:e", ...entry } }).declared["e"] ?? {};
}

function confined(entry: object, general: object = {}): SandboxSpec | undefined {
  return declared(entry, general).sandbox;
}

function general(sandbox: object): SandboxSpec {
  return extensionsOf({ sandbox }).sandbox;
}

/** A test for every field of the table `extensions` of evals and configs. */
export const extensionEffects: Readonly<Record<string, () => void>> = {
  "Extensions.cacheDir": () =>
    expect(extensionsOf({ cacheDir: "c" }).settings).toEqual({ cacheDir: "/eval/c" }),
  "Extensions.timeout": () => expect(extensionsOf({ timeout: "7s" }).timeoutMs).toBe(7000),
  "Extensions.sandbox": () => expect(extensionsOf({ sandbox: "docker" }).sandbox.kind).toBe("docker"),
  "Extensions.network": () => {
    expect(extensionsOf({ network: ["host"] }).sandbox.network).toBe("host");
    expect(confined({ network: [] }, { network: ["host"] })?.network).toBe("none");
    expect(confined({ network: false }, { network: ["host"] })?.network).toBe("none");
  },
  "Extensions.allowedSources": () =>
    expect(extensionsOf({ allowedSources: ["npm:*"] }).settings).toEqual({ allowedSources: ["npm:*"] }),
  "Extensions.releasesUrl": () =>
    expect(extensionsOf({ releasesUrl: "http://h:1/api" }).settings).toEqual({
      releasesUrl: "http://h:1/api",
    }),

  "Extension.package": () => expect(declared({}).package).toBe("npm:e"),
  "Extension.config": () => expect(declared({ config: { a: [1] } }).config).toEqual({ a: [1] }),
  "Extension.env": () => expect(declared({ env: { A: "b" } }).env).toEqual({ A: "b" }),
  "Extension.sandbox": () => {
    expect(confined({ sandbox: "process" }, { sandbox: "docker" })?.kind).toBe("process");
    expect(confined({}, { sandbox: "docker" })?.kind).toBe("docker");
    expect(confined({ sandbox: { memory: "2GB" } }, { sandbox: "docker" })).toMatchObject({
      kind: "docker",
      memoryBytes: 2 * 1024 ** 3,
    });
  },
  "Extension.network": () => expect(confined({ network: ["host"] })?.network).toBe("host"),
  "Extension.read": () => expect(confined({ read: ["a", "~/b"] })?.read).toEqual(["/eval/a", "~/b"]),
  "Extension.write": () => expect(confined({ write: ["a"] })?.write).toEqual(["/eval/a"]),
  "Extension.memory": () => expect(confined({ memory: 2_000_000 })?.memoryBytes).toBe(2_000_000),
  "Extension.processes": () =>
    expect(confined({ processes: 3, sandbox: { processes: 2 } })?.processes).toBe(3),
  "Extension.image": () => expect(confined({ image: "i" })?.image).toBe("i"),
  "Extension.timeout": () => expect(declared({ timeout: "1s" }).timeoutMs).toBe(1000),

  "Sandbox.kind": () => expect(general({ kind: "process" }).kind).toBe("process"),
  "Sandbox.runtime": () => {
    expect(general({ runtime: "podman" }).runtime).toEqual(["podman"]);
    expect(general({ runtime: ["podman", "--root", "x"] }).runtime).toEqual(["podman", "--root", "x"]);
  },
  "Sandbox.network": () => expect(general({ network: ["host"] }).network).toBe("host"),
  "Sandbox.read": () => expect(general({ read: ["a"] }).read).toEqual(["/eval/a"]),
  "Sandbox.write": () => expect(general({ write: ["a"] }).write).toEqual(["/eval/a"]),
  "Sandbox.memory": () => expect(general({ memory: "64MB" }).memoryBytes).toBe(64 * 1024 ** 2),
  "Sandbox.processes": () => expect(general({ processes: 5 }).processes).toBe(5),
  "Sandbox.image": () => expect(general({ image: "i" }).image).toBe("i"),
};
