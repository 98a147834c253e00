import { describe, expect, it } from "vitest";
import { defaultShell } from "./environment.ts";

describe("defaultShell", () => {
  it.each<[Record<string, string>, NodeJS.Platform, string]>([
    [{ SHELL: "/bin/zsh" }, "linux", "/bin/zsh"],
    [{ SHELL: "" }, "linux", "/bin/sh"],
    [{}, "darwin", "/bin/sh"],
    [{ SHELL: "/usr/sbin/nologin" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/false" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/true" }, "linux", "/bin/sh"],
    [{ SHELL: "/bin/untrue" }, "linux", "/bin/untrue"],
    [{ SHELL: "bash" }, "win32", "bash"],
    [{}, "win32", "sh"],
  ])("of %j on %s is %s", (env, platform, shell) => {
    expect(defaultShell(env, platform)).toBe(shell);
  });
});
