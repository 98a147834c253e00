import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { findProgram } from "../../src/process/environment.ts";

let folder: string;

beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "mcpvals-find-")));
  for (const name of ["one", "two", "one/tool"]) mkdirSync(join(folder, name));
  for (const name of ["two/tool", "two/other", "tool-here"]) {
    writeFileSync(join(folder, name), "", { mode: 0o755 });
  }
  writeFileSync(join(folder, "one/other"), "", { mode: 0o644 });
});

afterAll(() => rmSync(folder, { recursive: true }));

const find = (name: string, path: string): Promise<string | undefined> =>
  findProgram(name, { env: { PATH: path }, cwd: folder });

describe("findProgram", () => {
  it("takes the first executable file on PATH, past folders and files that are none", async () => {
    const path = `${join(folder, "missing")}:${join(folder, "one")}:${join(folder, "two")}`;
    expect(await find("tool", path)).toBe(join(folder, "two/tool"));
    expect(await find("other", path)).toBe(join(folder, "two/other"));
    expect(await find("another", path)).toBeUndefined();
  });

  it("finds nothing without PATH, and looks into the folder where PATH is relative", async () => {
    expect(await findProgram("tool", { env: {}, cwd: join(folder, "one") })).toBeUndefined();
    expect(await find("tool", "one:two")).toBe(join(folder, "two/tool"));
  });

  it("looks for a name with a slash from the folder, not on PATH", async () => {
    expect(await find("./tool-here", "two")).toBe(join(folder, "tool-here"));
    expect(await find("two/tool", "one")).toBe(join(folder, "two/tool"));
    expect(await find(join(folder, "two/tool"), "")).toBe(join(folder, "two/tool"));
    expect(await find("./tool", "two")).toBeUndefined();
  });
});
