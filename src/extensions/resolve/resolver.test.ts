import { homedir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, test } from "vitest";
import { parsePackageRef } from "../../model/package-ref.ts";
import { releasePlatform } from "../../process/environment.ts";
import { platformAsset, platformName } from "./program.ts";
import { baseAddress, checkAddress, isPartialVersion, newestTag, tagsOf } from "./releases.ts";
import { checkSource, extensionPlaces } from "./resolver.ts";

describe("allowed sources", () => {
  const isWindows = process.platform === "win32";

  test.each([
    ["github.com/acme/demo@v1", "github.com/acme/*", true],
    ["https://github.com/acme/demo@v1", "github.com/acme/*", true],
    ["github.com/acme/demo", "github.com/*/demo", true],
    ["github.com/acme/demo", "github.com/*", false],
    ["github.com/acme-evil/demo", "github.com/acme/*", false],
    ["npm:@acme/demo@^1", "npm:@acme/*", true],
    ["npm:demo", "npm:*", true],
    ["npm:@evil/demo", "npm:*", false],
    ["mcpvals:sql", "mcpvals:*", true],
    ["./demo/start", "./demo/*", true],
    ["./demo/sub/../start", "./demo/*", true],
    ["./demo/../start", "./demo/**", false],
    ["demo/../../start", "demo/**", false],
    ["../demo", "./**", false],
    ["/etc/demo", "./**", false],
    ["./demo", "**", true],
    ["/opt/extensions/demo", "/opt/extensions/*", true],
    ["/opt/extensions/../demo", "/opt/extensions/**", false],
    ["file:///opt/extensions/demo", "/opt/extensions/*", true],
    ["./demo", "!github.com/**", false],
    ["./..", "./**", false],
    ["./demo/..\\..\\start", "./demo/**", !isWindows],
    ["./trusted\\evil", "./trusted/*", isWindows],
  ])("%s with %s: %s", (text, glob, allowed) => {
    const parsed = parsePackageRef(text);
    if (!parsed.ok) throw new Error(parsed.message);
    const check = (globs?: readonly string[]) => () => checkSource(parsed.ref, globs);
    if (allowed) expect(check([glob])).not.toThrow();
    else expect(check([glob])).toThrow("a source that is not allowed");
    expect(check()).not.toThrow();
    expect(check([])).toThrow("a source that is not allowed");
  });
});

it("prefers options to the eval, the eval to the environment, and that to the defaults", () => {
  const env = { MCPVALS_EXTENSIONS_CACHE: "/env", MCPVALS_RELEASES_URL: "http://env" };
  const settings = { cacheDir: "/eval", releasesUrl: "http://eval", allowedSources: ["npm:*"] };
  const options = { cacheDir: "/option", releasesUrl: "http://option" };
  const home = homedir();
  expect(extensionPlaces({ options, settings, env })).toEqual({ ...settings, ...options, home, env });
  expect(extensionPlaces({ options: {}, settings, env })).toEqual({ ...settings, home, env });
  expect(extensionPlaces({ env })).toEqual({ cacheDir: "/env", releasesUrl: "http://env", home, env });
  const empty = { MCPVALS_EXTENSIONS_CACHE: "", MCPVALS_RELEASES_URL: "" };
  const cacheDir = join(home, ".mcpvals", "extensions");
  expect(extensionPlaces({ env: empty })).toEqual({ cacheDir, home, env: empty });
});

describe("addresses of releases", () => {
  const github = "https://api.github.com";

  test.each([
    [github, "https://github.com/acme/demo/releases/download/v1/x.zip", true],
    [github, "https://release-assets.githubusercontent.com/x?sig=1", true],
    [github, "https://githubusercontent.com.evil.example/x", false],
    [github, "https://evilgithubusercontent.com/x", false],
    [github, "https://github.com:8443/x", false],
    [github, "http://github.com/x", false],
    ["https://mirror.example/api", "https://mirror.example/files/x", true],
    ["https://mirror.example/api", "https://github.com/x", false],
    ["https://mirror.example", "http://mirror.example/x", false],
    ["https://mirror.example", "http://127.0.0.1/x", false],
    ["http://127.0.0.1:4000", "http://127.0.0.1:4000/x", true],
    ["http://127.0.0.1:4000", "http://127.0.0.1:4001/x", false],
    ["http://[::1]:4000", "http://[::1]:4000/x", true],
  ])("releases of %s from %s: %s", (base, address, allowed) => {
    const check = (): void => checkAddress(new URL(address), baseAddress(base), "a page");
    if (allowed) expect(check).not.toThrow();
    else expect(check).toThrow("a page leads to");
  });

  test.each([
    "http://mirror.example",
    "http://127.0.0.1.example",
    "http://127.example",
    "file:///etc",
    "what",
  ])("%s is refused as the base address", (text) => expect(() => baseAddress(text)).toThrow("releasesUrl"));
});

describe("tags", () => {
  const tags = ["v1.2.9", "1.2.10", "v1.10.0", "v2.0.0-rc.1", "v1", "nightly", "v10.0.0", "v0.1.0"];

  test.each([
    [undefined, "v10.0.0"],
    ["v1", "v1.10.0"],
    ["1", "v1.10.0"],
    ["v1.2", "1.2.10"],
    ["v2", undefined],
    ["v0", "v0.1.0"],
    ["v3.1", undefined],
  ])("the newest of %s is %s", (begin, expected) => {
    expect(newestTag(tags, begin)).toBe(expected);
    expect(newestTag(tags.toReversed(), begin)).toBe(expected);
  });

  test.each([
    ["v1", true, ["v1"]],
    ["1", true, ["1"]],
    ["v1.2", true, ["v1.2"]],
    ["1.2.3", false, ["1.2.3", "v1.2.3"]],
    ["v1.2.3", false, ["v1.2.3", "1.2.3"]],
    ["nightly", false, ["nightly"]],
    ["v1-beta", false, ["v1-beta"]],
  ])("%s is a part of a version: %s, and can be the tags %j", (version, isPartial, expected) => {
    expect([isPartialVersion(version), tagsOf(version)]).toEqual([isPartial, expected]);
  });
});

describe("platforms", () => {
  test.each([
    ["linux", "x64", "linux-amd64"],
    ["darwin", "arm64", "darwin-arm64"],
    ["win32", "x64", "windows-amd64"],
    ["freebsd", "riscv64", "freebsd-riscv64"],
  ])("%s on %s is %s", (platform, arch, name) => {
    expect(platformName(releasePlatform(platform, arch))).toBe(name);
  });

  test.each([
    ["linux-amd64", ["demo-linux-amd64.zip"], "demo-linux-amd64.zip"],
    ["linux-amd64", ["demo_linux_x86_64.tar.gz"], "demo_linux_x86_64.tar.gz"],
    ["linux-amd64", ["demo.linux.x64.tgz"], "demo.linux.x64.tgz"],
    ["linux-amd64", ["Demo_1.2.3_Linux_x86_64.tar.gz"], "Demo_1.2.3_Linux_x86_64.tar.gz"],
    [
      "linux-amd64",
      ["demo-linux-amd64", "demo-linux-amd64.tar.gz", "demo-linux-amd64.zip"],
      "demo-linux-amd64.zip",
    ],
    ["linux-amd64", ["demo-any.zip", "demo-linux-amd64"], "demo-linux-amd64"],
    ["linux-amd64", ["demo-any.mjs", "demo-darwin-arm64"], "demo-any.mjs"],
    ["linux-amd64", ["demo-any"], "demo-any"],
    ["linux-amd64", ["other-linux-amd64.zip", "demo-linux-amd64.tgz"], "demo-linux-amd64.tgz"],
    ["linux-amd64", ["other-linux-amd64.zip"], "other-linux-amd64.zip"],
    ["linux-amd64", ["one-linux-amd64.zip", "two-linux-amd64.zip"], undefined],
    [
      "linux-amd64",
      ["demo-linux-amd64.zip.bundle", "demo-linux-amd64.sha256", "demo-linux-arm64.zip"],
      undefined,
    ],
    ["linux-amd64", ["demo-linux-amd64.exe"], undefined],
    ["linux-amd64", ["linux-amd64.zip", "demo-linux-amd64-musl.zip", "company.zip"], undefined],
    ["darwin-arm64", ["demo-macos-aarch64.zip", "demo-linux-arm64.zip"], "demo-macos-aarch64.zip"],
    ["darwin-arm64", ["demo-darwin-amd64.zip"], undefined],
    ["windows-amd64", ["demo-windows-amd64.exe", "demo-linux-amd64"], "demo-windows-amd64.exe"],
    ["windows-amd64", ["demo_Windows_x86_64.zip", "demo-darwin-arm64.zip"], "demo_Windows_x86_64.zip"],
    ["windows-amd64", ["demo-darwin-amd64.zip"], undefined],
  ])("for %s of %j is %s", (own, names, name) => {
    const [os = "", arch = ""] = own.split("-");
    const platform = name?.includes("any") === true ? "any" : own;
    expect(platformAsset(names, "demo", { os, arch })).toEqual(name && { name, platform });
  });
});
