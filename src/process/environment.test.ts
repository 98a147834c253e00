import { posix, win32 } from "node:path";
import { describe, expect, it } from "vitest";
import { baseEnvironment, localBinPath, mergeEnvironments } from "./environment.ts";

describe("baseEnvironment", () => {
  it("picks what a program needs and leaves the rest, on POSIX by exact name", () => {
    const env = {
      PATH: "/bin",
      Path: "/other",
      HOME: "/home/a",
      LC_ALL: "C",
      LC_TIME: undefined,
      OPENAI_API_KEY: "secret",
      APPDATA: "x",
    };
    expect(baseEnvironment(env, "linux")).toEqual({ PATH: "/bin", HOME: "/home/a", LC_ALL: "C" });
  });

  it("ignores case on Windows and gives upper-case names", () => {
    const env = { Path: "C:\\bin", SystemRoot: "C:\\Windows", HOME: "x", LC_ALL: "C", Token: "secret" };
    expect(baseEnvironment(env, "win32")).toEqual({ PATH: "C:\\bin", SYSTEMROOT: "C:\\Windows" });
  });
});

describe("mergeEnvironments", () => {
  const environments = [
    { PATH: "a", HOME: "h" },
    { Path: "b", HOME: undefined },
  ];

  it("lets later ones win, on Windows whatever their case", () => {
    expect(mergeEnvironments(environments, "linux")).toEqual({ PATH: "a", Path: "b", HOME: "h" });
    expect(mergeEnvironments(environments, "win32")).toEqual({ Path: "b", HOME: "h" });
  });
});

describe("localBinPath", () => {
  it("puts every node_modules/.bin upwards in front, nearest first", () => {
    expect(localBinPath("/home/me/app", "/usr/bin:/bin", posix)).toBe(
      "/home/me/app/node_modules/.bin:/home/me/node_modules/.bin:/home/node_modules/.bin:/node_modules/.bin:/usr/bin:/bin",
    );
    expect(localBinPath("C:\\app", "C:\\bin", win32)).toBe(
      "C:\\app\\node_modules\\.bin;C:\\node_modules\\.bin;C:\\bin",
    );
  });

  it("adds no empty folder when there is no PATH", () => {
    expect(localBinPath("/", undefined, posix)).toBe("/node_modules/.bin");
    expect(localBinPath("/", "", posix)).toBe("/node_modules/.bin");
  });
});
