import { describe, expect, test } from "vitest";
import { releasePlatform } from "../../process/environment.ts";
import { platformAsset, platformName } from "./program.ts";

test.each([
  ["linux", "x64", "linux-amd64"],
  ["darwin", "arm64", "darwin-arm64"],
  ["win32", "x64", "windows-amd64"],
  ["freebsd", "riscv64", "freebsd-riscv64"],
])("%s on %s is %s", (platform, arch, name) => {
  expect(platformName(releasePlatform(platform, arch))).toBe(name);
});

const linux = { os: "linux", arch: "amd64" };
const mac = { os: "darwin", arch: "arm64" };
const windows = { os: "windows", arch: "amd64" };

describe("the file for a platform", () => {
  test.each([
    [linux, ["demo-linux-amd64.zip"], "demo-linux-amd64.zip"],
    [linux, ["demo_linux_x86_64.tar.gz"], "demo_linux_x86_64.tar.gz"],
    [linux, ["demo.linux.x64.tgz"], "demo.linux.x64.tgz"],
    [linux, ["Demo_1.2.3_Linux_x86_64.tar.gz"], "Demo_1.2.3_Linux_x86_64.tar.gz"],
    [linux, ["demo-linux-amd64"], "demo-linux-amd64"],
    [linux, ["demo-linux-amd64", "demo-linux-amd64.tar.gz", "demo-linux-amd64.zip"], "demo-linux-amd64.zip"],
    [linux, ["demo-any.zip", "demo-linux-amd64"], "demo-linux-amd64"],
    [linux, ["demo-any.mjs", "demo-darwin-arm64"], "demo-any.mjs"],
    [linux, ["demo-any"], "demo-any"],
    [linux, ["other-linux-amd64.zip", "demo-linux-amd64.tgz"], "demo-linux-amd64.tgz"],
    [linux, ["other-linux-amd64.zip"], "other-linux-amd64.zip"],
    [linux, ["one-linux-amd64.zip", "two-linux-amd64.zip"], undefined],
    [linux, ["demo-linux-amd64.zip.bundle", "demo-linux-amd64.sha256", "demo-linux-arm64.zip"], undefined],
    [linux, ["demo-linux-amd64.exe"], undefined],
    [linux, ["linux-amd64.zip", "demo-linux-amd64-musl.zip", "company.zip"], undefined],
    [mac, ["demo-macos-aarch64.zip", "demo-linux-arm64.zip"], "demo-macos-aarch64.zip"],
    [mac, ["demo-darwin-amd64.zip"], undefined],
    [windows, ["demo-windows-amd64.exe", "demo-linux-amd64"], "demo-windows-amd64.exe"],
    [windows, ["demo_Windows_x86_64.zip", "demo-darwin-arm64.zip"], "demo_Windows_x86_64.zip"],
    [windows, ["demo-darwin-amd64.zip"], undefined],
  ])("%j has of %j %s", (platform, names, expected) => {
    const asset = platformAsset(names, "demo", platform);
    expect(asset?.name).toBe(expected);
    const isAny = expected?.includes("any") === true;
    if (asset !== undefined) expect(asset.platform).toBe(isAny ? "any" : platformName(platform));
  });
});
